import { type Instant, isExpired } from '../clock';
import type { DeviceActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import { type FoundToken, findToken } from '../store/credentials';
import type { Reader } from '../store/database';
import type { DeviceRow } from '../store/devices';
import type { UserIdentity } from '../store/users';

export interface SignedInDevice {
  actor: DeviceActor;
  user: UserIdentity;
  device: DeviceRow;
}

/** One scheme, one token: two headers joined by a comma do not match. */
const BEARER = /^Bearer +([A-Za-z0-9_-]{43})$/i;

/**
 * The buyer and device behind an `Authorization` header.
 * @throws Refusal UNAUTHENTICATED (none, or none of ours), TOKEN_EXPIRED, TOKEN_REVOKED
 */
export async function authenticateDevice(
  reader: Reader,
  authorizationHeader: string | undefined,
  now: Instant,
): Promise<SignedInDevice> {
  const rawToken = BEARER.exec(authorizationHeader ?? '')?.[1];
  if (rawToken === undefined) throw new Refusal('UNAUTHENTICATED');
  const found = await findToken(reader, rawToken);
  if (!found) throw new Refusal('UNAUTHENTICATED');
  mustHaveAccess(found, now);
  const { token, user, device } = found;
  return {
    actor: { type: 'DEVICE', user_id: user.id, device_id: device.device_id, token_id: token.id },
    user,
    device,
  };
}

/** @throws Refusal TOKEN_REVOKED, TOKEN_EXPIRED */
export function mustHaveAccess({ token, user, device }: FoundToken, now: Instant): void {
  if (token.ended_at !== null) throw new Refusal('TOKEN_REVOKED');
  if (user.status !== 'ACTIVE' || user.role !== 'BUYER') throw new Refusal('TOKEN_REVOKED');
  if (device.status !== 'AUTHORIZED' || device.user_id !== token.user_id) throw new Refusal('TOKEN_REVOKED');
  if (isExpired(token.expires_at, now)) throw new Refusal('TOKEN_EXPIRED');
}
