import type { Instant } from '../clock';
import type { DeviceActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import type { Source } from '../store/database';
import { findTaskFacts } from '../store/tasks';
import { STARTED_STATUSES } from './eligibility';
import { mustBeGeneration, mustBeOpen, mustHaveLiveLease, mustStandIn } from './guards';
import { getOwnClaim, type HeldCall } from './held-task';

/**
 * The digest of the picture that the authorization froze, for the device at work on the task.
 * Guards: TASK_NOT_FOUND, CLAIM_TOKEN_MISMATCH, CLAIM_NOT_CURRENT, GENERATION_MISMATCH, INVALID_TASK_STATE,
 * LEASE_EXPIRED, NOT_FOUND (no picture). Changes nothing.
 */
export async function getReferenceImage(
  source: Source,
  actor: DeviceActor,
  call: HeldCall & { claim_generation: number },
  now: Instant,
): Promise<string> {
  const facts = await findTaskFacts(source, call.task_id);
  const held = await getOwnClaim(source, actor, call, facts);
  mustBeOpen(held);
  mustBeGeneration(held, call.claim_generation);
  mustStandIn(held.facts, ['CLAIMED', ...STARTED_STATUSES]);
  mustHaveLiveLease(held, now);

  const sha256 = held.authorization.reference_image_sha256;
  if (sha256 === null) throw new Refusal('NOT_FOUND');
  return sha256;
}
