import { addSeconds } from '../clock';
import type { AdminActor } from '../contract/actor';
import { insertAuthorization } from '../store/authorizations';
import type { Work } from '../store/database';
import type { TaskFacts } from '../store/facts';
import { moveTask } from '../store/tasks';
import { lockExistingTask, standsAfter } from './draft';
import { mustBeVersion, mustStandIn, refusal } from './guards';
import type { Timings } from './timings';

export interface StartPurchaseRequest {
  task_id: string;
  expected_task_version: number;
  authorization_ttl_seconds?: number;
}

/**
 * An admin permits at most one pending-payment order: DRAFT -> PENDING.
 * Guards: TASK_NOT_FOUND, SUBMISSION_EXISTS, VERSION_CONFLICT, INVALID_TASK_STATE.
 * Effects: a new ACTIVE authorization holding a frozen copy of the wish.
 * Replay (no key): the same press for the same old version, while the task still waits under that authorization.
 */
export async function startPurchase(
  work: Work,
  actor: AdminActor,
  request: StartPurchaseRequest,
  timings: Timings,
): Promise<TaskFacts> {
  const facts = await lockExistingTask(work, request.task_id);
  const ttlSeconds = request.authorization_ttl_seconds ?? timings.authorization_ttl_seconds;

  if (facts.submission) throw refusal('SUBMISSION_EXISTS', facts.task);
  const isReplay = await standsAfter(work, facts, 'task.purchase_started', request.expected_task_version);
  if (isReplay && wasStartedFor(facts, ttlSeconds)) return facts;

  mustBeVersion(facts, request.expected_task_version);
  mustStandIn(facts, ['DRAFT']);

  const expiresAt = addSeconds(work.now, ttlSeconds);
  await insertAuthorization(work, facts, actor.user_id, expiresAt);
  await moveTask(work, actor, facts, 'task.purchase_started', {
    authorization_expires_at: expiresAt,
    detail: { authorization_expires_at: expiresAt },
  });
  return facts;
}

function wasStartedFor({ authorization }: TaskFacts, ttlSeconds: number): boolean {
  if (!authorization) return false;
  return authorization.expires_at === addSeconds(authorization.created_at, ttlSeconds);
}
