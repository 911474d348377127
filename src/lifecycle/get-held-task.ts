import type { DeviceActor } from '../contract/actor';
import type { Source } from '../store/database';
import { findTaskFacts } from '../store/tasks';
import { mustBeOpen } from './guards';
import { getOwnClaim, type HeldCall, type HeldTask } from './held-task';

/**
 * The device reads the task that it holds, to resume after a crash; a lease that ran out does not hide it.
 * Guards: TASK_NOT_FOUND, CLAIM_TOKEN_MISMATCH, CLAIM_NOT_CURRENT. Changes nothing.
 */
export async function getHeldTask(source: Source, actor: DeviceActor, call: HeldCall): Promise<HeldTask> {
  const facts = await findTaskFacts(source, call.task_id);
  const held = await getOwnClaim(source, actor, call, facts);
  mustBeOpen(held);
  return held;
}
