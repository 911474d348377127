import type { DeviceActor } from '../contract/actor';
import { fenceAttempt } from '../store/attempts';
import { fenceAuthorization, frozenWish } from '../store/authorizations';
import { renewLease } from '../store/claims';
import type { Work } from '../store/database';
import type { TaskFacts } from '../store/facts';
import { insertSubmission } from '../store/submissions';
import { lockTask, moveTask } from '../store/tasks';
import { isAuthorizationLive, isSameOffer, isWithinPriceLimits, type Offer } from './eligibility';
import {
  mustBeExecution,
  mustBeGeneration,
  mustBeOpen,
  mustBeVersion,
  mustHaveLiveLease,
  mustNotBeAskedToStop,
  mustStandIn,
  refusal,
} from './guards';
import {
  getOwnClaim,
  getRecordedClaim,
  type HeldCall,
  type HeldTask,
  type LifecycleOutcome,
} from './held-task';
import { type KeyedRequest, recall, remember } from './replay';
import { runLeaseEnd, type Timings } from './timings';

export interface FenceRequest extends KeyedRequest, HeldCall, Offer {
  execution_id: string;
  claim_generation: number;
  expected_version: number;
  confirmation_id?: string;
}

/**
 * The device is about to press "submit order": RUNNING -> SUBMITTING. From here on an order may exist.
 * Guards: TASK_NOT_FOUND, CLAIM_TOKEN_MISMATCH, CLAIM_NOT_CURRENT, GENERATION_MISMATCH, EXECUTION_MISMATCH,
 * INVALID_TASK_STATE, LEASE_EXPIRED, CANCEL_REQUESTED, VERSION_CONFLICT, then the offer (mustBePermitted).
 * Effects: submission, attempt and authorization FENCED together; the run lease is renewed.
 * Replay: proof, not a second permit: only while SUBMITTING with a live lease, then LEASE_EXPIRED or
 * INVALID_TASK_STATE.
 */
export async function fenceSubmission(
  work: Work,
  actor: DeviceActor,
  request: FenceRequest,
  timings: Timings,
): Promise<LifecycleOutcome> {
  const facts = await lockTask(work, request.task_id);

  const record = await recall(work, actor, 'fenceSubmission', request);
  if (record && facts) return replay(work, facts, record.claim_id as string);

  const held = await getOwnClaim(work, actor, request, facts);
  mustBeOpen(held);
  mustBeGeneration(held, request.claim_generation);
  mustBeExecution(held, request.execution_id);
  mustStandIn(held.facts, ['RUNNING']);
  mustHaveLiveLease(held, work.now);
  mustNotBeAskedToStop(held);
  mustBeVersion(held.facts, request.expected_version);
  mustBePermitted(held, request, work.now);

  await fenceAuthorization(work, held.authorization);
  await fenceAttempt(work, held.attempt);
  await insertSubmission(work, held.facts, request);
  await renewLease(work, held.claim, runLeaseEnd(work.now, timings));
  await moveTask(work, actor, held.facts, 'task.submission_fenced', {
    detail: {
      unit_price_cents: request.unit_price_cents,
      quantity: request.quantity,
      total_cents: request.total_cents,
    },
  });

  await remember(work, actor, 'fenceSubmission', request, {
    outcome: 'TASK',
    task_id: request.task_id,
    claim_id: held.claim.id,
  });
  return { held, replayed: false };
}

async function replay(work: Work, facts: TaskFacts, claimId: string): Promise<LifecycleOutcome> {
  const held = await getRecordedClaim(work, facts, claimId);
  if (held.claim.closed_at !== null || facts.task.status !== 'SUBMITTING') {
    throw refusal('INVALID_TASK_STATE', { ...facts.task, ...standingOf(held) });
  }
  mustHaveLiveLease(held, work.now);
  return { held, replayed: true };
}

/** A closed claim may know only how the task stood when it closed. */
function standingOf({ facts, claim }: HeldTask) {
  return {
    status: claim.closed_status ?? facts.task.status,
    version: claim.closed_version ?? facts.task.version,
  };
}

/** AUTHORIZATION_EXPIRED, OFFER_MISMATCH, PRICE_LIMIT_EXCEEDED, CONFIRMATION_REQUIRED, CONFIRMATION_STALE, in this order. */
function mustBePermitted({ facts, authorization }: HeldTask, request: FenceRequest, now: string): void {
  const { task, confirmation } = facts;
  const wish = frozenWish(authorization);
  if (!isAuthorizationLive(authorization, now)) throw refusal('AUTHORIZATION_EXPIRED', task);
  if (request.quantity !== wish.quantity) throw refusal('OFFER_MISMATCH', task);
  if (!isWithinPriceLimits(wish, request)) throw refusal('PRICE_LIMIT_EXCEEDED', task);

  if (!confirmation && wish.confirmation_required) throw refusal('CONFIRMATION_REQUIRED', task);
  const isApproved = confirmation ? confirmation.status === 'APPROVED' : true;
  if (!isApproved || confirmation?.id !== request.confirmation_id) throw refusal('CONFIRMATION_STALE', task);
  if (confirmation && !isSameOffer(confirmation, request)) throw refusal('OFFER_MISMATCH', task);
}
