import { addSeconds } from '../clock';
import type { DeviceActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import { endAttempt } from '../store/attempts';
import { closeClaim, findClaimByToken, insertClaim } from '../store/claims';
import type { Work } from '../store/database';
import { findLiveAttempt, lockDevice } from '../store/devices';
import type { TaskFacts } from '../store/facts';
import { forgetNoTask, type IdempotencyRow, isNoTaskToken, pruneNoTaskRecords } from '../store/replays';
import { findFree, findNextClaimable, lockTask, lockTaskUnlessHeld, moveTask } from '../store/tasks';
import { isAuthorizationLive, isClaimable, isLeaseLive, readinessReasons } from './eligibility';
import { getRecordedClaim, type LifecycleOutcome, viewOfLatest } from './held-task';
import { type KeyedRequest, recall, remember } from './replay';
import { claimLeaseEnd, type Timings } from './timings';

export interface ClaimRequest extends KeyedRequest {
  device_id: string;
  token_hash: string;
  wait_seconds?: number;
}

/** A claimed task, a recorded "no task", or nothing decided yet (only when more looks are to come). */
export type ClaimOutcome = LifecycleOutcome | { noTask: true; replayed: boolean } | undefined;

/** After this long a "no task" answer is forgotten and its key counts as new. */
const NO_TASK_KEPT_SECONDS = 86_400;

/**
 * A device asks for work: PENDING -> CLAIMED, or takeover of an expired CLAIMED.
 * Order: replay (IDEMPOTENCY_KEY_REUSED, CLAIM_REPLAY_EXPIRED), known token (CLAIM_TOKEN_REUSED), ready
 * (DEVICE_NOT_READY), busy (DEVICE_HAS_ACTIVE_TASK), own expired claim (affinity or lapse), earliest claimable.
 * Effects: claim, attempt, generation+1, one event; a takeover ends the old claim and attempt with it.
 * Replay: the same task as it stands while its claim is open and not run out before its start; a "no task" stays one.
 * A look that is not the last leaves "no task" undecided, so that a waiting call records one outcome, at its end.
 */
export async function claimNextTask(
  work: Work,
  actor: DeviceActor,
  request: ClaimRequest,
  timings: Timings,
  look: 'LAST' | 'MORE_TO_COME' = 'LAST',
): Promise<ClaimOutcome> {
  const device = await lockDevice(work, actor.device_id);
  if (!device) throw new Refusal('TOKEN_REVOKED');

  const record = await recall(work, actor, 'claimNextTask', request, (known) => isStillKnown(work, known));
  if (record) return replay(work, record);

  if (await isKnownToken(work, request.token_hash)) throw new Refusal('CLAIM_TOKEN_REUSED');
  const reasons = readinessReasons(device, work.now, timings);
  if (reasons.length > 0) throw new Refusal('DEVICE_NOT_READY', { readiness_reasons: reasons });

  const own = await lockOwnTask(work, actor);
  const facts = own ?? (await lockNextClaimable(work));
  if (!facts) return look === 'LAST' ? rememberNoTask(work, actor, request) : undefined;

  await open(work, actor, facts, request.token_hash, timings);

  await remember(work, actor, 'claimNextTask', request, {
    outcome: 'TASK',
    task_id: facts.task.id,
    claim_id: facts.claim?.id,
  });
  return { held: viewOfLatest(facts), replayed: false };
}

/** A "no task" older than a day is as good as unsaid. */
async function isStillKnown(work: Work, record: IdempotencyRow): Promise<boolean> {
  if (record.outcome !== 'NO_TASK') return true;
  if (record.created_at > noTaskHorizon(work)) return true;
  await forgetNoTask(work, record);
  return false;
}

async function replay(work: Work, record: IdempotencyRow): Promise<ClaimOutcome> {
  if (record.outcome === 'NO_TASK') return { noTask: true, replayed: true };
  const facts = await lockTask(work, record.task_id as string);
  if (!facts) throw new Error(`task ${record.task_id} of a claim record is gone`);
  const held = await getRecordedClaim(work, facts, record.claim_id as string);
  const ranOut = held.attempt.status === 'CLAIMED' && !isLeaseLive(held.claim, work.now);
  if (held.claim.closed_at !== null || ranOut) throw new Refusal('CLAIM_REPLAY_EXPIRED');
  return { held, replayed: true };
}

/** What was answered "no task" up to here is as good as unsaid. */
function noTaskHorizon(work: Work): string {
  return addSeconds(work.now, -NO_TASK_KEPT_SECONDS);
}

async function isKnownToken(work: Work, tokenHash: string): Promise<boolean> {
  if ((await findClaimByToken(work, tokenHash)) !== undefined) return true;
  return isNoTaskToken(work, tokenHash, noTaskHorizon(work));
}

/** The device's own expired claim, if it may be taken anew; one whose permission ran out lapses instead. */
async function lockOwnTask(work: Work, actor: DeviceActor): Promise<TaskFacts | undefined> {
  const live = await findLiveAttempt(work, actor.device_id);
  if (!live) return undefined;
  const facts = await lockTask(work, live.task_id);
  if (!facts?.claim) throw new Error(`attempt ${live.id} has no task or claim`);
  // While this waited for the task, another device may have taken it over, or an admin ended it.
  if (facts.attempt?.id !== live.id || facts.attempt.ended_at !== null) return undefined;

  const isExpiredClaim = facts.task.status === 'CLAIMED' && !isLeaseLive(facts.claim, work.now);
  if (!isExpiredClaim) throw new Refusal('DEVICE_HAS_ACTIVE_TASK', { active_task_id: live.task_id });
  if (isAuthorizationLive(facts.authorization, work.now)) return facts;

  await moveTask(work, actor, facts, 'task.lapsed');
  await endLatest(work, facts);
  return undefined;
}

/**
 * The earliest claimable task that nobody else is taking; only when there is none, the earliest at all, after waiting
 * for whoever holds it: "no task" is never said while one may be left.
 */
async function lockNextClaimable(work: Work): Promise<TaskFacts | undefined> {
  for (;;) {
    const next = await findNextClaimable(work, work.now);
    if (next === undefined) return undefined;
    const facts =
      (await lockTaskUnlessHeld(work, next)) ?? (await lockTask(work, (await findFree(work)) ?? next));
    if (facts && isClaimable(facts, work.now)) return facts;
  }
}

async function open(
  work: Work,
  actor: DeviceActor,
  facts: TaskFacts,
  tokenHash: string,
  timings: Timings,
): Promise<void> {
  const { claim: old, attempt: oldAttempt, authorization } = facts;
  if (!authorization) throw new Error(`claimable task ${facts.task.id} has no authorization`);
  const isTakeover = facts.task.status === 'CLAIMED' && old !== undefined && oldAttempt !== undefined;
  const leaseEnd = claimLeaseEnd(work.now, timings, authorization.expires_at);
  const generation = facts.task.claim_generation + 1;

  if (isTakeover) {
    await endAttempt(work, oldAttempt, 'ABANDONED');
    await closeClaim(work, old, { status: 'CLAIMED', version: facts.task.version + 1 });
  }
  await insertClaim(work, facts, actor, tokenHash, leaseEnd);
  await moveTask(work, actor, facts, isTakeover ? 'task.taken_over' : 'task.claimed', {
    claim_generation: generation,
    lease_expires_at: leaseEnd,
    detail: isTakeover
      ? {
          claim_generation: generation,
          abandoned_attempt_id: oldAttempt.id,
          abandoned_generation: old.generation,
        }
      : { claim_generation: generation },
  });
}

async function endLatest(work: Work, facts: TaskFacts): Promise<void> {
  const { claim, attempt, task } = facts;
  if (!claim || !attempt) throw new Error(`task ${task.id} has nothing to end`);
  await endAttempt(work, attempt, 'ABANDONED');
  await closeClaim(work, claim, task);
}

async function rememberNoTask(work: Work, actor: DeviceActor, request: ClaimRequest): Promise<ClaimOutcome> {
  await remember(work, actor, 'claimNextTask', request, {
    outcome: 'NO_TASK',
    token_hash: request.token_hash,
  });
  await pruneNoTaskRecords(work, actor.device_id, noTaskHorizon(work));
  return { noTask: true, replayed: false };
}
