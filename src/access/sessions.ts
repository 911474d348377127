import { createHmac, timingSafeEqual } from 'node:crypto';
import { type Instant, isExpired } from '../clock';
import type { AdminActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import { type FoundSession, findSession } from '../store/credentials';
import type { Reader } from '../store/database';
import type { UserIdentity } from '../store/users';

export const SESSION_COOKIE = 'cmbuyer_session';

/** 256 bits as base64url. */
export const SECRET_PATTERN = /^[A-Za-z0-9_-]{43}$/;

/** The session token in a `Cookie` header; undefined when there is none, or more than one to choose from. */
export function readSessionToken(cookieHeader: string | undefined): string | undefined {
  const values = (cookieHeader ?? '')
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${SESSION_COOKIE}=`))
    .map((pair) => pair.slice(SESSION_COOKIE.length + 1));
  return values.length === 1 ? values[0] : undefined;
}

export interface SignedInAdmin {
  actor: AdminActor;
  user: UserIdentity;
  expires_at: Instant;
}

/**
 * The admin behind a session cookie.
 * @throws Refusal UNAUTHENTICATED (none, or none of ours), TOKEN_EXPIRED, TOKEN_REVOKED
 */
export async function authenticateSession(
  reader: Reader,
  rawToken: string | undefined,
  now: Instant,
): Promise<SignedInAdmin> {
  if (rawToken === undefined || !SECRET_PATTERN.test(rawToken)) throw new Refusal('UNAUTHENTICATED');
  const found = await findSession(reader, rawToken);
  if (!found) throw new Refusal('UNAUTHENTICATED');
  mustBeInForce(found, now);
  const { session, user } = found;
  return {
    actor: { type: 'ADMIN', user_id: user.id, session_id: session.id },
    user,
    expires_at: session.expires_at,
  };
}

/** @throws Refusal TOKEN_REVOKED, TOKEN_EXPIRED */
export function mustBeInForce({ session, user }: FoundSession, now: Instant): void {
  if (session.ended_at !== null) throw new Refusal('TOKEN_REVOKED');
  if (user.status !== 'ACTIVE' || user.role !== 'ADMIN') throw new Refusal('TOKEN_REVOKED');
  if (isExpired(session.expires_at, now)) throw new Refusal('TOKEN_EXPIRED');
}

/** The session's CSRF token: only who holds the session token can make it, and it is stored nowhere. */
export function csrfTokenOf(rawSessionToken: string): string {
  return createHmac('sha256', rawSessionToken).update('cmbuyer csrf token').digest('base64url');
}

/** Whether a request carries its session's CSRF token; compared in constant time. */
export function isCsrfToken(rawSessionToken: string, given: unknown): boolean {
  if (typeof given !== 'string' || !SECRET_PATTERN.test(given)) return false;
  return timingSafeEqual(Buffer.from(given), Buffer.from(csrfTokenOf(rawSessionToken)));
}
