import { v7 as uuidv7 } from 'uuid';
import { authorizeDevice } from '../access/authorize-device';
import type { PasswordCost } from '../access/passwords';
import { hashPassword } from '../access/passwords';
import { addSeconds } from '../clock';
import type { AdminActor, DeviceActor } from '../contract/actor';
import { insertSession, insertToken, newSecret } from '../store/credentials';
import type { Database } from '../store/database';
import { insertUser, type UserRow } from '../store/users';

/** A hash that costs next to nothing: for users that only tests sign in. */
export const CHEAP: PasswordCost = { memoryCost: 8, timeCost: 1, parallelism: 1 };
export const PASSWORD = 'correct horse battery';

export async function makeUser(
  database: Database,
  username: string,
  role: UserRow['role'],
  password = PASSWORD,
): Promise<UserRow> {
  const password_hash = await hashPassword(password, undefined, CHEAP);
  return (await database.write((work) => insertUser(work, { username, role, password_hash })))!;
}

export interface SignedIn<A> {
  actor: A;
  raw: string;
}

/** An admin with a session, without the detour over a login. */
export async function signInAdmin(
  database: Database,
  user: UserRow,
  ttlSeconds = 43_200,
): Promise<SignedIn<AdminActor>> {
  const raw = newSecret();
  const session_id = await database.write((work) =>
    insertSession(work, { rawToken: raw, user_id: user.id, expires_at: addSeconds(work.now, ttlSeconds) }),
  );
  return { raw, actor: { type: 'ADMIN', user_id: user.id, session_id } };
}

/** A buyer with an access token for a device that is theirs. */
export async function signInDevice(
  database: Database,
  user: Pick<UserRow, 'id'>,
  device_id: string,
  ttlSeconds = 43_200,
): Promise<SignedIn<DeviceActor>> {
  const raw = newSecret();
  const token_id = await database.write((work) =>
    insertToken(work, {
      rawToken: raw,
      user_id: user.id,
      device_id,
      expires_at: addSeconds(work.now, ttlSeconds),
    }),
  );
  return { raw, actor: { type: 'DEVICE', user_id: user.id, device_id, token_id } };
}

export async function makeDevice(
  database: Database,
  admin: AdminActor,
  user: Pick<UserRow, 'id'>,
  device_id: string,
  label = 'Phone',
): Promise<void> {
  const idempotency_key = uuidv7();
  await database.write((work) =>
    authorizeDevice(work, admin, { device_id, label, user_id: user.id, idempotency_key }),
  );
}
