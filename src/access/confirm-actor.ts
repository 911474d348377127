import type { Actor, AdminActor, DeviceActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import { holdToken, lockSession } from '../store/credentials';
import type { Work } from '../store/database';
import { type DeviceRow, lockDevice } from '../store/devices';
import type { UserIdentity } from '../store/users';
import { mustHaveAccess } from './device-tokens';
import { mustBeInForce } from './sessions';

export interface ConfirmedAdmin {
  user: UserIdentity;
}

export interface ConfirmedDevice {
  user: UserIdentity;
  /** Locked. */
  device: DeviceRow;
}

/**
 * Looks again whether the actor may still act: a queued call must not outlive a revocation. The verbs of
 * this room call it themselves; for every other verb the door does, first thing in the write transaction. Locks the device first, or the admin's session and user. A terminal command needs no confirmation.
 * @throws Refusal UNAUTHENTICATED, TOKEN_REVOKED, TOKEN_EXPIRED
 */
export async function confirmActor(work: Work, actor: DeviceActor): Promise<ConfirmedDevice>;
export async function confirmActor(work: Work, actor: AdminActor): Promise<ConfirmedAdmin>;
export async function confirmActor(
  work: Work,
  actor: Actor,
): Promise<ConfirmedAdmin | ConfirmedDevice | undefined>;
export async function confirmActor(
  work: Work,
  actor: Actor,
): Promise<ConfirmedAdmin | ConfirmedDevice | undefined> {
  if (actor.type === 'DEVICE') return confirmDevice(work, actor);
  if (actor.type === 'ADMIN') return confirmAdmin(work, actor);
  return undefined;
}

async function confirmDevice(work: Work, actor: DeviceActor): Promise<ConfirmedDevice> {
  const device = await lockDevice(work, actor.device_id);
  const found = device && (await holdToken(work, actor.token_id, actor.device_id));
  if (!found) throw new Refusal('UNAUTHENTICATED');
  mustHaveAccess({ ...found, device }, work.now);
  return { user: found.user, device };
}

async function confirmAdmin(work: Work, actor: AdminActor): Promise<ConfirmedAdmin> {
  const found = await lockSession(work, actor.session_id);
  if (!found) throw new Refusal('UNAUTHENTICATED');
  mustBeInForce(found, work.now);
  return { user: found.user };
}
