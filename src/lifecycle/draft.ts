import { Refusal } from '../contract/errors';
import type { MoveEvent } from '../contract/moves';
import type { Work } from '../store/database';
import type { TaskFacts, Wish } from '../store/facts';
import { isTaken } from '../store/statements';
import { findMoveAt, lockTask } from '../store/tasks';

/**
 * A task for an admin's verb.
 * @throws Refusal TASK_NOT_FOUND
 */
export async function lockExistingTask(work: Work, taskId: string): Promise<TaskFacts> {
  const facts = await lockTask(work, taskId);
  if (!facts) throw new Refusal('TASK_NOT_FOUND');
  return facts;
}

/** Whether the task stands exactly where this event moved it from `expectedVersion`: the mark of the same request again. */
export async function standsAfter(
  work: Work,
  facts: TaskFacts,
  event: MoveEvent,
  expectedVersion: number,
): Promise<boolean> {
  if (facts.task.version !== expectedVersion + 1) return false;
  return (await findMoveAt(work, facts.task.id, facts.task.version)) === event;
}

/**
 * What a person must be able to read or open, whichever door it came through.
 * @throws Refusal INVALID_REQUEST
 */
export function mustBeUsable({ title, product_url }: Pick<Wish, 'title' | 'product_url'>): void {
  if (!/[\p{L}\p{N}\p{P}\p{S}]/u.test(title)) {
    throw new Refusal('INVALID_REQUEST', {
      errors: [{ path: '/body/title', message: 'must hold something to read' }],
    });
  }
  if (product_url && !URL.canParse(product_url)) {
    throw new Refusal('INVALID_REQUEST', {
      errors: [{ path: '/body/product_url', message: 'must be a web address' }],
    });
  }
}

/**
 * For a write that failed: another admin may have taken the external reference since this verb looked.
 * @throws Refusal DUPLICATE_EXTERNAL_REF, or whatever else it was
 */
export function refuseTakenReference(error: unknown): never {
  throw isTaken(error) ? new Refusal('DUPLICATE_EXTERNAL_REF') : error;
}
