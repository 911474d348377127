import type { DeviceActor } from '../contract/actor';
import { startAttempt } from '../store/attempts';
import { renewLease } from '../store/claims';
import type { Work } from '../store/database';
import { lockTask, moveTask } from '../store/tasks';
import { mustBeGeneration, mustBeOpen, mustBeVersion, mustHaveLiveLease, mustStandIn } from './guards';
import { getOwnClaim, getRecordedClaim, type HeldCall, type LifecycleOutcome } from './held-task';
import { type KeyedRequest, recall, remember } from './replay';
import { runLeaseEnd, type Timings } from './timings';

export interface StartRequest extends KeyedRequest, HeldCall {
  claim_generation: number;
  expected_version: number;
}

/**
 * The device that claimed a task begins: CLAIMED -> RUNNING.
 * Guards: TASK_NOT_FOUND, CLAIM_TOKEN_MISMATCH, CLAIM_NOT_CURRENT, GENERATION_MISMATCH, INVALID_TASK_STATE,
 * LEASE_EXPIRED, VERSION_CONFLICT.
 * Effects: the attempt is ORDERING and gets its execution id; the lease becomes a run lease.
 * Replay: the task as it stands while the claim is open, then CLAIM_NOT_CURRENT.
 */
export async function startTask(
  work: Work,
  actor: DeviceActor,
  request: StartRequest,
  timings: Timings,
): Promise<LifecycleOutcome> {
  const facts = await lockTask(work, request.task_id);

  const record = await recall(work, actor, 'startTask', request);
  if (record && facts) {
    const held = await getRecordedClaim(work, facts, record.claim_id as string);
    mustBeOpen(held);
    return { held, replayed: true };
  }

  const held = await getOwnClaim(work, actor, request, facts);
  mustBeOpen(held);
  mustBeGeneration(held, request.claim_generation);
  mustStandIn(held.facts, ['CLAIMED']);
  mustHaveLiveLease(held, work.now);
  mustBeVersion(held.facts, request.expected_version);

  await startAttempt(work, held.attempt);
  await renewLease(work, held.claim, runLeaseEnd(work.now, timings));
  await moveTask(work, actor, held.facts, 'task.started', {
    detail: { claim_generation: held.claim.generation, execution_id: held.attempt.execution_id as string },
  });

  await remember(work, actor, 'startTask', request, {
    outcome: 'TASK',
    task_id: request.task_id,
    claim_id: held.claim.id,
  });
  return { held, replayed: false };
}
