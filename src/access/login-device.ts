import { addSeconds, type Instant } from '../clock';
import type { DeviceActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import { appendAudit } from '../store/audit';
import { insertToken, newSecret } from '../store/credentials';
import type { Database } from '../store/database';
import { type DeviceRow, lockDevice } from '../store/devices';
import { identityOf, type UserIdentity, updateUserRow } from '../store/users';
import { beginLogin, lockVerified, mustKnowPassword } from './login-admin';
import { giveBack } from './login-limit';

export interface DeviceLogin {
  username: string;
  password: string;
  device_id: string;
  /** Where the request came from, as far as the server may believe it. */
  address: string;
}

export interface IssuedToken {
  /** This is the only time that it is known. */
  access_token: string;
  expires_at: Instant;
  expires_in_ms: number;
  user: UserIdentity;
  device: DeviceRow;
}

/**
 * Anyone -> an access token for an active buyer on a device authorised for them. Guards: RATE_LIMITED (counted before
 * the password is looked at); INVALID_CREDENTIALS (unknown, wrong, disabled or an admin, all in the same time);
 * DEVICE_NOT_AUTHORIZED (unknown, revoked or another buyer's device), only after the password was right; it counts as
 * a miss. Takes the database for the same reason as `loginAdmin`. Earlier tokens of the device stay good: a phone
 * whose login answer got lost may still use the one it has. Sent again it issues another token.
 */
export async function loginDevice(
  database: Database,
  input: DeviceLogin,
  { access_token_ttl_seconds }: { access_token_ttl_seconds: number },
): Promise<IssuedToken> {
  const { reservation, user } = await beginLogin(database, input);

  await mustKnowPassword(database, reservation, user, 'BUYER', input.password);

  return database.write(async (work) => {
    const device = await lockDevice(work, input.device_id);
    const buyer = await lockVerified(work, user, 'BUYER');

    if (device?.status !== 'AUTHORIZED' || device.user_id !== buyer.id)
      throw new Refusal('DEVICE_NOT_AUTHORIZED');

    const access_token = newSecret();
    const { device_id } = device;
    const expires_at = addSeconds(work.now, access_token_ttl_seconds);
    const token_id = await insertToken(work, {
      rawToken: access_token,
      user_id: buyer.id,
      device_id,
      expires_at,
    });
    await updateUserRow(work, buyer, { last_login_at: work.now });
    await giveBack(work, reservation);
    const actor: DeviceActor = { type: 'DEVICE', user_id: buyer.id, device_id, token_id };
    await appendAudit(work, actor, {
      action: 'login.succeeded',
      target_type: 'DEVICE',
      target_id: device_id,
      detail: { token_id, address: reservation.address },
    });
    return {
      access_token,
      expires_at,
      expires_in_ms: access_token_ttl_seconds * 1000,
      user: identityOf(buyer),
      device,
    };
  });
}
