import { createHash, randomBytes } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import type { Instant } from '../clock';
import { queryOn, type Source, type Work } from './database';
import type { DeviceRow } from './devices';
import { param, params, statement } from './statements';
import type { UserIdentity, UserRow } from './users';

/** Sessions of admins and access tokens of devices. Only a digest of either secret is ever stored. */

export type SessionEndReason = 'LOGGED_OUT' | 'RENEWED' | 'PASSWORD_CHANGED' | 'USER_DISABLED';
export type TokenEndReason =
  | 'LOGGED_OUT'
  | 'PASSWORD_CHANGED'
  | 'USER_DISABLED'
  | 'DEVICE_REVOKED'
  | 'BUYER_CHANGED'
  | 'ROLE_CHANGED';

/** A credential with what decides whether it still opens the door. */
export interface Credential {
  id: string;
  user_id: string;
  expires_at: Instant;
  ended_at: Instant | null;
}

export interface FoundSession {
  session: Credential;
  user: UserIdentity;
}

export interface FoundToken {
  token: Credential;
  user: UserIdentity;
  device: DeviceRow;
}

/** 256 bits as 43 characters of base64url. */
export function newSecret(): string {
  return randomBytes(32).toString('base64url');
}

export function hashSecret(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}

interface CredentialColumns {
  credential_id: string;
  credential_user_id: string;
  credential_expires_at: Instant;
  credential_ended_at: Instant | null;
}

interface UserColumns {
  owner_id: string;
  owner_username: string;
  owner_display_name: string | null;
  owner_role: UserRow['role'];
  owner_status: UserRow['status'];
}

function credentialColumns(table: 'sessions' | 'access_tokens'): Record<keyof CredentialColumns, string> {
  return {
    credential_id: `${table}.id`,
    credential_user_id: `${table}.user_id`,
    credential_expires_at: `${table}.expires_at`,
    credential_ended_at: `${table}.ended_at`,
  };
}

const USER_COLUMNS: Record<keyof UserColumns, string> = {
  owner_id: 'users.id',
  owner_username: 'users.username',
  owner_display_name: 'users.display_name',
  owner_role: 'users.role',
  owner_status: 'users.status',
};

const selectSessionByHash = statement<{ token_hash: string }, CredentialColumns & UserColumns>(
  'select_session_by_hash',
  (knex) =>
    knex('sessions')
      .join('users', 'users.id', 'sessions.user_id')
      .select(credentialColumns('sessions'), USER_COLUMNS)
      .where('sessions.token_hash', param('token_hash')),
);
const lockSessionRow = statement<{ id: string }, CredentialColumns & UserColumns>('lock_session', (knex) =>
  knex('sessions')
    .join('users', 'users.id', 'sessions.user_id')
    .select(credentialColumns('sessions'), USER_COLUMNS)
    .where('sessions.id', param('id'))
    .forUpdate('sessions', 'users'),
);
const selectTokenByHash = statement<{ token_hash: string }, CredentialColumns & UserColumns & DeviceRow>(
  'select_token_by_hash',
  (knex) =>
    knex('access_tokens')
      .join('devices', 'devices.device_id', 'access_tokens.device_id')
      .join('users', 'users.id', 'access_tokens.user_id')
      .select('devices.*', credentialColumns('access_tokens'), USER_COLUMNS)
      .where('access_tokens.token_hash', param('token_hash')),
);
const shareTokenRow = statement<{ id: string; device_id: string }, CredentialColumns & UserColumns>(
  'share_token',
  (knex) =>
    knex('access_tokens')
      .join('users', 'users.id', 'access_tokens.user_id')
      .select(credentialColumns('access_tokens'), USER_COLUMNS)
      .where('access_tokens.id', param('id'))
      .where('access_tokens.device_id', param('device_id'))
      .forShare('access_tokens', 'users'),
);

/** The session of a raw token, with its user, in one statement: this runs on every request of an admin. */
export async function findSession(source: Source, rawToken: string): Promise<FoundSession | undefined> {
  const row = await selectSessionByHash.first(source, { token_hash: hashSecret(rawToken) });
  return row && { session: credentialOf(row), user: ownerOf(row) };
}

/** Locks session and user, so that one admin's writes run one after another and a key is used once. */
export async function lockSession(work: Work, id: string): Promise<FoundSession | undefined> {
  const row = await lockSessionRow.first(work, { id });
  return row && { session: credentialOf(row), user: ownerOf(row) };
}

/** The access token of a raw token, with user and device, in one statement: this runs on every request of a phone. */
export async function findToken(source: Source, rawToken: string): Promise<FoundToken | undefined> {
  const row = await selectTokenByHash.first(source, { token_hash: hashSecret(rawToken) });
  if (!row) return undefined;
  const token = credentialOf(row);
  const user = ownerOf(row);
  return { token, user, device: deviceOf(row) };
}

/** Token and user of a device whose row is locked; neither can change before the transaction ends. */
export async function holdToken(
  work: Work,
  id: string,
  deviceId: string,
): Promise<Omit<FoundToken, 'device'> | undefined> {
  const row = await shareTokenRow.first(work, { id, device_id: deviceId });
  return row && { token: credentialOf(row), user: ownerOf(row) };
}

function credentialOf(row: CredentialColumns): Credential {
  return {
    id: row.credential_id,
    user_id: row.credential_user_id,
    expires_at: row.credential_expires_at,
    ended_at: row.credential_ended_at,
  };
}

function ownerOf(row: UserColumns): UserIdentity {
  return {
    id: row.owner_id,
    username: row.owner_username,
    display_name: row.owner_display_name,
    role: row.owner_role,
    status: row.owner_status,
  };
}

function deviceOf(row: CredentialColumns & UserColumns & DeviceRow): DeviceRow {
  const {
    credential_id: _id,
    credential_user_id: _user,
    credential_expires_at: _expires,
    credential_ended_at: _ended,
    owner_id: _ownerId,
    owner_username: _username,
    owner_display_name: _name,
    owner_role: _role,
    owner_status: _status,
    ...device
  } = row;
  return device;
}

// ------------------------------------------------------------------------------------------- writing

const insertSessionRow = statement<object>('insert_session', (knex) =>
  knex('sessions').insert(params(['id', 'token_hash', 'user_id', 'created_at', 'expires_at'])),
);
const insertTokenRow = statement<object>('insert_access_token', (knex) =>
  knex('access_tokens').insert(
    params(['id', 'token_hash', 'user_id', 'device_id', 'created_at', 'expires_at']),
  ),
);

export async function insertSession(
  work: Work,
  session: { rawToken: string; user_id: string; expires_at: Instant },
): Promise<string> {
  const id = uuidv7();
  const { rawToken, ...columns } = session;
  await insertSessionRow.run(work, {
    ...columns,
    id,
    token_hash: hashSecret(rawToken),
    created_at: work.now,
  });
  return id;
}

export async function insertToken(
  work: Work,
  token: { rawToken: string; user_id: string; device_id: string; expires_at: Instant },
): Promise<string> {
  const id = uuidv7();
  const { rawToken, ...columns } = token;
  await insertTokenRow.run(work, { ...columns, id, token_hash: hashSecret(rawToken), created_at: work.now });
  return id;
}

/** Ends the open sessions that match, and tells how many; the reason of one that has ended stays. */
export function endSessions(
  work: Work,
  which: { id?: string; user_id?: string; token_hash?: string },
  reason: SessionEndReason,
  but?: { id: string },
): Promise<number> {
  return end(work, 'sessions', which, reason, but);
}

/** Ends the open access tokens that match, and tells how many; the reason of one that has ended stays. */
export function endTokens(
  work: Work,
  which: { id?: string; user_id?: string; device_id?: string },
  reason: TokenEndReason,
  but?: { id: string },
): Promise<number> {
  return end(work, 'access_tokens', which, reason, but);
}

async function end(
  work: Work,
  table: string,
  which: Record<string, string>,
  reason: string,
  but: { id: string } | undefined,
): Promise<number> {
  if (Object.keys(which).length === 0) throw new Error(`which ${table} should end?`);
  const query = queryOn(work)(table).where(which).whereNull('ended_at');
  if (but) query.whereNot('id', but.id);
  return query.update({ ended_at: work.now, end_reason: reason });
}
