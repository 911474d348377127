import type { DeviceActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import { findAttemptOfClaim } from '../store/attempts';
import { findAuthorization } from '../store/authorizations';
import { findClaim, findClaimByToken, hasEverHeld } from '../store/claims';
import { findLatestConfirmation } from '../store/confirmations';
import type { Source } from '../store/database';
import type { AttemptRow, AuthorizationRow, ClaimRow, TaskFacts } from '../store/facts';

/** A call on a task that the device holds or held: which task, by which token. */
export interface HeldCall {
  task_id: string;
  token_hash: string;
}

/** A task as one claim on it sees it. `facts` is the task now; claim and attempt are this claim's own, maybe closed. */
export interface HeldTask {
  facts: TaskFacts;
  claim: ClaimRow;
  attempt: AttemptRow;
  authorization: AuthorizationRow;
}

/** What a keyed verb answers: the task as this claim sees it, and whether it was answered before. */
export interface LifecycleOutcome {
  held: HeldTask;
  replayed: boolean;
}

/**
 * The caller's own claim on a task, open or closed.
 * @throws Refusal TASK_NOT_FOUND when there is no such task or this pair never held it, alike; CLAIM_TOKEN_MISMATCH
 * when the token is of none of the pair's claims on it.
 */
export async function getOwnClaim(
  source: Source,
  actor: DeviceActor,
  call: HeldCall,
  facts: TaskFacts | undefined,
): Promise<HeldTask> {
  if (!facts || !(await hasEverHeld(source, actor, call.task_id))) throw new Refusal('TASK_NOT_FOUND');

  const claim = await findClaimByToken(source, call.token_hash);
  const isOwn =
    claim?.task_id === call.task_id && claim.user_id === actor.user_id && claim.device_id === actor.device_id;
  if (!isOwn) throw new Refusal('CLAIM_TOKEN_MISMATCH');

  return viewAs(source, facts, claim);
}

/** The task as an earlier answer's claim sees it now. */
export async function getRecordedClaim(source: Source, facts: TaskFacts, claimId: string): Promise<HeldTask> {
  const claim = await findClaim(source, claimId);
  if (!claim) throw new Error(`claim ${claimId} of task ${facts.task.id} is gone`);
  return viewAs(source, facts, claim);
}

async function viewAs(source: Source, facts: TaskFacts, claim: ClaimRow): Promise<HeldTask> {
  if (facts.claim?.id === claim.id) return viewOfLatest(facts);
  const attempt = await findAttemptOfClaim(source, claim.id);
  const authorization = await findAuthorization(source, claim.authorization_id);
  if (!attempt || !authorization) throw new Error(`claim ${claim.id} lacks its attempt or authorization`);
  const confirmation = await findLatestConfirmation(source, attempt.id);
  return { facts: { ...facts, confirmation }, claim, attempt, authorization };
}

/** The task as its latest claim sees it. */
export function viewOfLatest(facts: TaskFacts): HeldTask {
  const { claim, attempt, authorization } = facts;
  if (!claim || !attempt || !authorization)
    throw new Error(`task ${facts.task.id} lacks facts of its latest claim`);
  return { facts, claim, attempt, authorization };
}
