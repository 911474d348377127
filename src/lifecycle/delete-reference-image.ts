import type { AdminActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import type { Work } from '../store/database';
import type { TaskFacts } from '../store/facts';
import { moveTask, updateReferenceImage } from '../store/tasks';
import { lockExistingTask, standsAfter } from './draft';
import { mustBeVersion, mustStandIn } from './guards';

export interface DeleteReferenceImageRequest {
  task_id: string;
  expected_task_version: number;
}

/**
 * An admin takes a draft's picture away; the stored bytes stay. DRAFT stays.
 * Guards: TASK_NOT_FOUND, VERSION_CONFLICT, INVALID_TASK_STATE, NOT_FOUND (no picture).
 * Replay (no key): the same old version, while nothing newer happened.
 */
export async function deleteReferenceImage(
  work: Work,
  actor: AdminActor,
  request: DeleteReferenceImageRequest,
): Promise<TaskFacts> {
  const facts = await lockExistingTask(work, request.task_id);

  if (await standsAfter(work, facts, 'task.reference_image_removed', request.expected_task_version))
    return facts;

  mustBeVersion(facts, request.expected_task_version);
  mustStandIn(facts, ['DRAFT']);
  if (facts.task.reference_image_sha256 === null) throw new Refusal('NOT_FOUND');

  await updateReferenceImage(work, facts, null);
  await moveTask(work, actor, facts, 'task.reference_image_removed');
  return facts;
}
