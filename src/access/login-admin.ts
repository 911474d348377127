import { addSeconds, type Instant } from '../clock';
import type { AdminActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import { appendAudit } from '../store/audit';
import { endSessions, hashSecret, insertSession, newSecret } from '../store/credentials';
import type { Database, Work } from '../store/database';
import {
  findUserByName,
  identityOf,
  lockUser,
  type UserIdentity,
  type UserRow,
  updateUserRow,
} from '../store/users';
import { giveBack, keepCounted, type Reservation, reserveAttempt } from './login-limit';
import { verifyPassword } from './passwords';
import { csrfTokenOf } from './sessions';

export interface AdminLogin {
  username: string;
  password: string;
  /** Where the request came from, as far as the server may believe it. */
  address: string;
  /** The session that the browser came with; it ends when the new one begins. */
  previousSessionToken?: string;
}

export interface OpenedSession {
  /** For the cookie; this is the only time that it is known. */
  session_token: string;
  csrf_token: string;
  expires_at: Instant;
  user: UserIdentity;
}

/**
 * Anyone -> a session of an active admin. Guards: RATE_LIMITED (counted before the password is looked at);
 * INVALID_CREDENTIALS (unknown, wrong, disabled or a buyer, all in the same time). Takes the database because the
 * password is verified between two transactions: the second looks again at what the first saw. Ends the previous
 * session (RENEWED), gives the attempt back, writes an audit event. Sent again it opens another session.
 */
export async function loginAdmin(
  database: Database,
  input: AdminLogin,
  { session_ttl_seconds }: { session_ttl_seconds: number },
): Promise<OpenedSession> {
  const { reservation, user } = await beginLogin(database, input);

  await mustKnowPassword(database, reservation, user, 'ADMIN', input.password);

  return database.write(async (work) => {
    const admin = await lockVerified(work, user, 'ADMIN');
    const session_token = newSecret();
    const expires_at = addSeconds(work.now, session_ttl_seconds);

    const previous = input.previousSessionToken;
    if (previous !== undefined) await endSessions(work, { token_hash: hashSecret(previous) }, 'RENEWED');
    const session_id = await insertSession(work, { rawToken: session_token, user_id: admin.id, expires_at });
    await updateUserRow(work, admin, { last_login_at: work.now });
    await giveBack(work, reservation);
    const actor: AdminActor = { type: 'ADMIN', user_id: admin.id, session_id };
    await appendAudit(work, actor, {
      action: 'login.succeeded',
      target_type: 'SESSION',
      target_id: session_id,
      detail: { address: reservation.address },
    });
    return { session_token, csrf_token: csrfTokenOf(session_token), expires_at, user: identityOf(admin) };
  });
}

/** Reserves the attempt and looks up the user, if there is one. */
export function beginLogin(
  database: Database,
  { username, address }: { username: string; address: string },
): Promise<{ reservation: Reservation; user: UserRow | undefined }> {
  return database.write(async (work) => ({
    reservation: await reserveAttempt(work, username, address),
    user: await findUserByName(work, username),
  }));
}

/** @throws Refusal INVALID_CREDENTIALS */
export async function mustKnowPassword(
  database: Database,
  reservation: Reservation,
  user: UserRow | undefined,
  role: UserRow['role'],
  password: string,
): Promise<void> {
  const usable = user?.status === 'ACTIVE' && user.role === role;
  if (await verifyPassword(usable ? user.password_hash : undefined, password)) return;
  await keepCounted(database, reservation, user?.id);
  throw new Refusal('INVALID_CREDENTIALS');
}

/** Locks the user whose password was right a moment ago, and refuses when that is no longer so. */
export async function lockVerified(
  work: Work,
  verified: UserRow | undefined,
  role: UserRow['role'],
): Promise<UserRow> {
  const user = verified && (await lockUser(work, verified.id));
  if (user?.status !== 'ACTIVE' || user.role !== role || user.password_hash !== verified?.password_hash) {
    throw new Refusal('INVALID_CREDENTIALS');
  }
  return user;
}
