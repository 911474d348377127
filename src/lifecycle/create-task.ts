import type { AdminActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import type { Work } from '../store/database';
import type { TaskFacts, Wish } from '../store/facts';
import { findTaskByExternalRef, insertTask, lockTask } from '../store/tasks';
import { mustBeUsable, refuseTakenReference } from './draft';
import { type KeyedRequest, recall, remember } from './replay';

export interface CreateTaskRequest extends KeyedRequest {
  wish: Wish & { external_ref?: string };
  /** A picture that is already stored. */
  reference_image_sha256?: string;
}

/**
 * An admin writes a new wish: -> DRAFT at version 1.
 * Guards: IDEMPOTENCY_KEY_REUSED, INVALID_REQUEST (a wish nobody can use), DUPLICATE_EXTERNAL_REF. Replay: the task that the key created, as it stands now.
 */
export async function createTask(
  work: Work,
  actor: AdminActor,
  request: CreateTaskRequest,
): Promise<{ facts: TaskFacts; replayed: boolean }> {
  const record = await recall(work, { user_id: actor.user_id }, 'createTask', request);
  if (record) {
    const facts = await lockTask(work, record.resource_id as string);
    if (!facts) throw new Error(`task ${record.resource_id} of a creation record is gone`);
    return { facts, replayed: true };
  }

  const { wish, reference_image_sha256 } = request;
  mustBeUsable(wish);
  if (wish.external_ref && (await findTaskByExternalRef(work, wish.external_ref))) {
    throw new Refusal('DUPLICATE_EXTERNAL_REF');
  }

  const facts = await insertTask(work, actor, { ...wish, reference_image_sha256 }).catch(
    refuseTakenReference,
  );

  const principal = { user_id: actor.user_id };
  await remember(work, principal, 'createTask', request, { outcome: 'CREATED', resource_id: facts.task.id });
  return { facts, replayed: false };
}
