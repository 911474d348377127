import type { AdminActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import type { Work } from '../store/database';
import { type TaskFacts, type TaskRow, WISH_COLUMNS, type Wish } from '../store/facts';
import { findTaskByExternalRef, moveTask, updateWish } from '../store/tasks';
import { lockExistingTask, mustBeUsable, refuseTakenReference, standsAfter } from './draft';
import { mustBeVersion, mustStandIn } from './guards';

export interface UpdateTaskRequest {
  task_id: string;
  expected_task_version: number;
  wish: Wish & { external_ref?: string };
}

/**
 * An admin rewrites a draft; DRAFT stays.
 * Guards: TASK_NOT_FOUND, VERSION_CONFLICT, INVALID_TASK_STATE, INVALID_REQUEST (a wish
 * nobody can use), DUPLICATE_EXTERNAL_REF.
 * Replay (no key): the same wish for the same old version, while nothing newer happened.
 */
export async function updateTask(
  work: Work,
  actor: AdminActor,
  request: UpdateTaskRequest,
): Promise<TaskFacts> {
  const facts = await lockExistingTask(work, request.task_id);

  const isReplay = await standsAfter(work, facts, 'task.edited', request.expected_task_version);
  if (isReplay && isSameWish(facts.task, request.wish)) return facts;

  mustBeVersion(facts, request.expected_task_version);
  mustStandIn(facts, ['DRAFT']);
  mustBeUsable(request.wish);
  const { external_ref } = request.wish;
  if (
    external_ref &&
    ((await findTaskByExternalRef(work, external_ref)) ?? facts.task.id) !== facts.task.id
  ) {
    throw new Refusal('DUPLICATE_EXTERNAL_REF');
  }

  await updateWish(work, facts, request.wish).catch(refuseTakenReference);
  await moveTask(work, actor, facts, 'task.edited');
  return facts;
}

function isSameWish(task: TaskRow, wish: UpdateTaskRequest['wish']): boolean {
  return [...WISH_COLUMNS, 'external_ref' as const].every(
    (field) => (task[field] ?? null) === (wish[field] ?? null),
  );
}
