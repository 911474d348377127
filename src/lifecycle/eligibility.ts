import { type Instant, isExpired } from '../clock';
import { isTerminal, type TaskStatus } from '../contract/moves';
import type { DeviceRow } from '../store/devices';
import type {
  AuthorizationRow,
  ClaimRow,
  ConfirmationRow,
  SubmissionRow,
  TaskFacts,
  Wish,
} from '../store/facts';
import type { Timings } from './timings';

/** Pure predicates on facts and an instant: verbs refuse by them, and the pages offer by them. */

export type ReadinessReason =
  | 'NO_HEARTBEAT'
  | 'HEARTBEAT_STALE'
  | 'ACCESSIBILITY_DISCONNECTED'
  | 'PINDUODUO_NOT_INSTALLED';

/** Statuses in which a phone is at work on a task that it has started. */
export const STARTED_STATUSES: readonly TaskStatus[] = ['RUNNING', 'WAITING_CONFIRMATION', 'SUBMITTING'];

/** Why a device may not claim now; empty when it is ready. Fresh for exactly the TTL: at equality it is still fresh. */
export function readinessReasons(device: DeviceRow, now: Instant, timings: Timings): ReadinessReason[] {
  if (device.last_heartbeat_at === null) return ['NO_HEARTBEAT'];
  const reasons: ReadinessReason[] = [];
  const age = Date.parse(now) - Date.parse(device.last_heartbeat_at);
  if (age > timings.device_heartbeat_ttl_seconds * 1000) reasons.push('HEARTBEAT_STALE');
  if (!device.accessibility_connected) reasons.push('ACCESSIBILITY_DISCONNECTED');
  if (!device.pinduoduo_installed) reasons.push('PINDUODUO_NOT_INSTALLED');
  return reasons;
}

export function isLeaseLive(claim: Pick<ClaimRow, 'closed_at' | 'lease_expires_at'>, now: Instant): boolean {
  return claim.closed_at === null && !isExpired(claim.lease_expires_at, now);
}

export function isAuthorizationLive(authorization: AuthorizationRow | undefined, now: Instant): boolean {
  return authorization?.status === 'ACTIVE' && !isExpired(authorization.expires_at, now);
}

/** Whether the next ready device may be handed this task. */
export function isClaimable(facts: TaskFacts, now: Instant): boolean {
  if (!isAuthorizationLive(facts.authorization, now)) return false;
  if (facts.task.status === 'PENDING') return true;
  return facts.task.status === 'CLAIMED' && facts.claim !== undefined && !isLeaseLive(facts.claim, now);
}

export interface Offer {
  unit_price_cents: number;
  quantity: number;
  total_cents: number;
}

/** Both limits are inclusive. */
export function isWithinPriceLimits(wish: Wish, offer: Offer): boolean {
  return offer.unit_price_cents <= wish.max_unit_price_cents && offer.total_cents <= wish.max_total_cents;
}

export function isSameOffer(confirmation: ConfirmationRow, offer: Offer): boolean {
  return (
    confirmation.unit_price_cents === offer.unit_price_cents &&
    confirmation.quantity === offer.quantity &&
    confirmation.total_cents === offer.total_cents
  );
}

export interface Result {
  outcome: 'ORDER_CREATED' | 'UNKNOWN' | 'NOT_SUBMITTED';
  order_no?: string;
}

/**
 * Whether a report disagrees with what is recorded, so that a person must look: an order from an attempt that never
 * fenced, an order where none was found, another order number, or no order where one is recorded.
 */
export function isContradicting(own: SubmissionRow | undefined, result: Result): boolean {
  if (!own) return result.outcome === 'ORDER_CREATED';
  const ordered = own.status === 'SUBMITTED' || own.resolution === 'ORDER_CREATED';
  if (result.outcome === 'ORDER_CREATED') {
    return own.resolution === 'NO_ORDER' || (ordered && own.order_no !== result.order_no);
  }
  return result.outcome === 'NOT_SUBMITTED' && ordered;
}

export type TaskAction = 'UPDATE' | 'PUT_REFERENCE_IMAGE' | 'DELETE_REFERENCE_IMAGE' | 'START_PURCHASE';

/** What an admin may do to a task as it stands. */
export function allowedActions(facts: TaskFacts): TaskAction[] {
  if (facts.task.status !== 'DRAFT') return [];
  const actions: TaskAction[] = ['UPDATE', 'PUT_REFERENCE_IMAGE'];
  if (facts.task.reference_image_sha256 !== null) actions.push('DELETE_REFERENCE_IMAGE');
  if (!facts.submission) actions.push('START_PURCHASE');
  return actions;
}

export type Attention =
  | 'RUN_LEASE_EXPIRED'
  | 'NEEDS_MANUAL'
  | 'WAITING_CONFIRMATION'
  | 'SUBMITTING_SILENT'
  | 'RECONCILIATION_REQUIRED'
  | 'AUTHORIZATION_EXPIRED'
  | 'CLAIMANT_WITHOUT_ACCESS'
  | 'CONTRADICTING_REPORT';

/** What the attention of a task depends on, beside the facts. */
export interface Surroundings {
  claimantWithoutAccess: boolean;
  contradictingReport: boolean;
}

/** Why a task needs a person; empty when it does not. */
export function attentionReasons(
  facts: Pick<TaskFacts, 'task' | 'claim' | 'authorization' | 'submission'>,
  surroundings: Surroundings,
  now: Instant,
): Attention[] {
  const { task, claim, authorization, submission } = facts;
  const silent = claim !== undefined && claim.closed_at === null && !isLeaseLive(claim, now);
  const reasons: Attention[] = [];
  if (silent && (task.status === 'RUNNING' || task.status === 'WAITING_CONFIRMATION'))
    reasons.push('RUN_LEASE_EXPIRED');
  if (task.status === 'NEEDS_MANUAL') reasons.push('NEEDS_MANUAL');
  if (task.status === 'WAITING_CONFIRMATION') reasons.push('WAITING_CONFIRMATION');
  if (silent && task.status === 'SUBMITTING') reasons.push('SUBMITTING_SILENT');
  if (submission?.status === 'RECONCILIATION_REQUIRED') reasons.push('RECONCILIATION_REQUIRED');
  if (task.status === 'PENDING' && authorization && isExpired(authorization.expires_at, now)) {
    reasons.push('AUTHORIZATION_EXPIRED');
  }
  if (surroundings.claimantWithoutAccess && !isTerminal(task.status)) reasons.push('CLAIMANT_WITHOUT_ACCESS');
  if (surroundings.contradictingReport) reasons.push('CONTRADICTING_REPORT');
  return reasons;
}

/** Whether the holder of a claim has lost its access now or at any time since the claim. */
export function isWithoutAccess(
  claim: ClaimRow,
  holder: {
    device: Pick<DeviceRow, 'status' | 'last_revoked_at'>;
    user: { status: 'ACTIVE' | 'DISABLED'; last_disabled_at: Instant | null };
  },
): boolean {
  const { device, user } = holder;
  if (device.status === 'REVOKED' || user.status === 'DISABLED') return true;
  return [device.last_revoked_at, user.last_disabled_at].some(
    (lost) => lost !== null && lost >= claim.claimed_at,
  );
}
