import type { DeviceActor } from '../contract/actor';
import { seeAttempt } from '../store/attempts';
import { renewLease } from '../store/claims';
import type { Work } from '../store/database';
import { lockTask } from '../store/tasks';
import { STARTED_STATUSES } from './eligibility';
import { mustBeExecution, mustBeGeneration, mustBeOpen, mustHaveLiveLease, mustStandIn } from './guards';
import { getOwnClaim, type HeldCall, type HeldTask } from './held-task';
import { runLeaseEnd, type Timings } from './timings';

export interface TaskHeartbeat extends HeldCall {
  execution_id: string;
  claim_generation: number;
  step: string;
}

/**
 * The device says that it is still at work; the status stays.
 * Guards: TASK_NOT_FOUND, CLAIM_TOKEN_MISMATCH, CLAIM_NOT_CURRENT, GENERATION_MISMATCH, EXECUTION_MISMATCH,
 * INVALID_TASK_STATE, LEASE_EXPIRED.
 * Effects: step, last seen and run lease; no event, no version. Safe to send again without a key.
 */
export async function sendTaskHeartbeat(
  work: Work,
  actor: DeviceActor,
  heartbeat: TaskHeartbeat,
  timings: Timings,
): Promise<HeldTask> {
  const facts = await lockTask(work, heartbeat.task_id);

  const held = await getOwnClaim(work, actor, heartbeat, facts);
  mustBeOpen(held);
  mustBeGeneration(held, heartbeat.claim_generation);
  mustBeExecution(held, heartbeat.execution_id);
  mustStandIn(held.facts, STARTED_STATUSES);
  mustHaveLiveLease(held, work.now);

  await seeAttempt(work, held.attempt, heartbeat.step);
  await renewLease(work, held.claim, runLeaseEnd(work.now, timings));
  return held;
}
