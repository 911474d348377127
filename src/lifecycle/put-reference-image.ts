import type { AdminActor } from '../contract/actor';
import type { Work } from '../store/database';
import type { TaskFacts } from '../store/facts';
import { moveTask, updateReferenceImage } from '../store/tasks';
import { lockExistingTask, standsAfter } from './draft';
import { mustBeVersion, mustStandIn } from './guards';

export interface PutReferenceImageRequest {
  task_id: string;
  expected_task_version: number;
  /** A picture that is already stored. */
  sha256: string;
}

/**
 * An admin puts or replaces a draft's picture; DRAFT stays.
 * Guards: TASK_NOT_FOUND, VERSION_CONFLICT, INVALID_TASK_STATE.
 * Replay (no key): the same picture for the same old version, while nothing newer happened.
 */
export async function putReferenceImage(
  work: Work,
  actor: AdminActor,
  request: PutReferenceImageRequest,
): Promise<TaskFacts> {
  const facts = await lockExistingTask(work, request.task_id);

  const isReplay = await standsAfter(work, facts, 'task.reference_image_put', request.expected_task_version);
  if (isReplay && facts.task.reference_image_sha256 === request.sha256) return facts;

  mustBeVersion(facts, request.expected_task_version);
  mustStandIn(facts, ['DRAFT']);

  await updateReferenceImage(work, facts, request.sha256);
  await moveTask(work, actor, facts, 'task.reference_image_put', { detail: { sha256: request.sha256 } });
  return facts;
}
