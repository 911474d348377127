import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import type { Instant } from '../clock';
import { decodeCursor, type Page, type PageRequest, pageOf } from './cursor';
import { queryOn, type Reader, type Source, type Work } from './database';
import { mustChangeOne, param, statement } from './statements';

export interface UserRow {
  id: string;
  username: string;
  username_key: string;
  display_name: string | null;
  role: 'ADMIN' | 'BUYER';
  status: 'ACTIVE' | 'DISABLED';
  password_hash: string;
  created_at: Instant;
  updated_at: Instant;
  last_login_at: Instant | null;
  /** The newest disabling; kept when the user is enabled again. */
  last_disabled_at: Instant | null;
}

/** A user without the secret: what travels with a request. */
export type UserIdentity = Pick<UserRow, 'id' | 'username' | 'display_name' | 'role' | 'status'>;
/** A user as lists and answers see one. */
export type UserView = Omit<UserRow, 'username_key' | 'password_hash'>;

const VIEW_COLUMNS = [
  'id',
  'username',
  'display_name',
  'role',
  'status',
  'created_at',
  'updated_at',
  'last_login_at',
  'last_disabled_at',
] as const;

const selectUser = statement<{ id: string }, UserRow>('select_user', (knex) =>
  knex('users').select('*').where('id', param('id')),
);
const lockUserRow = statement<{ id: string }, UserRow>('lock_user', (knex) =>
  knex('users').select('*').where('id', param('id')).forUpdate(),
);
const selectUserByKey = statement<{ username_key: string }, UserRow>('select_user_by_key', (knex) =>
  knex('users').select('*').where('username_key', param('username_key')),
);

/** Usernames are ASCII by contract, so that lower case is the same everywhere. */
export function usernameKey(username: string): string {
  return username.toLowerCase();
}

export function findUser(source: Source, id: string): Promise<UserRow | undefined> {
  return selectUser.first(source, { id });
}

export function findUserByName(source: Source, username: string): Promise<UserRow | undefined> {
  return selectUserByKey.first(source, { username_key: usernameKey(username) });
}

/** Locks the user's row: after a device's, before a task's. */
export function lockUser(work: Work, id: string): Promise<UserRow | undefined> {
  return lockUserRow.first(work, { id });
}

export function identityOf({ id, username, display_name, role, status }: UserIdentity): UserIdentity {
  return { id, username, display_name, role, status };
}

export function viewOfUser(user: UserRow): UserView {
  const { username_key: _key, password_hash: _hash, ...view } = user;
  return view;
}

/** Creates an active user; undefined when the username is taken, in whatever case. */
export async function insertUser(
  work: Work,
  user: Pick<UserRow, 'username' | 'role' | 'password_hash'> & { display_name?: string | null },
): Promise<UserRow | undefined> {
  const row: UserRow = {
    id: uuidv7(),
    username: user.username,
    username_key: usernameKey(user.username),
    display_name: user.display_name ?? null,
    role: user.role,
    status: 'ACTIVE',
    password_hash: user.password_hash,
    created_at: work.now,
    updated_at: work.now,
    last_login_at: null,
    last_disabled_at: null,
  };
  const inserted = await queryOn(work)('users')
    .insert(row)
    .onConflict('username_key')
    .ignore()
    .returning('id');
  return inserted.length === 1 ? row : undefined;
}

/** Writes a locked user's changed columns, here and in the database. */
export async function updateUserRow(
  work: Work,
  user: UserRow,
  changes: Partial<
    Pick<UserRow, 'display_name' | 'status' | 'password_hash' | 'last_login_at' | 'last_disabled_at'>
  >,
): Promise<void> {
  const signedInOnly = Object.keys(changes).every((column) => column === 'last_login_at');
  const written = signedInOnly ? changes : { ...changes, updated_at: work.now };
  mustChangeOne('updateUserRow', await queryOn(work)('users').where('id', user.id).update(written));
  Object.assign(user, written);
}

/** Locks all active admins, in one order, so that two of them cannot disable each other at once. */
export async function lockActiveAdmins(work: Work): Promise<string[]> {
  const rows = await queryOn(work)('users')
    .select('id')
    .where({ role: 'ADMIN', status: 'ACTIVE' })
    .orderBy('id')
    .forUpdate();
  return rows.map((row: { id: string }) => row.id);
}

export async function hasAdmin(source: Source): Promise<boolean> {
  return (await queryOn(source)('users').select('id').where('role', 'ADMIN').first()) !== undefined;
}

/** Users in the order of their creation; `q` looks at username and display name. */
export async function pageUsers(
  reader: Reader,
  request: PageRequest & { q?: string },
): Promise<Page<UserView>> {
  const query = reader
    .knex('users')
    .select(...VIEW_COLUMNS)
    .orderBy(['created_at', 'id'])
    .limit(request.limit + 1);
  if (request.cursor !== undefined) {
    query.whereRaw('(created_at, id) > (?, ?)', decodeCursor(request.cursor, ['instant', 'uuid'], 'users'));
  }
  if (request.q !== undefined) query.where(containing(['username', 'display_name'], request.q));
  const rows: UserView[] = await query;
  return pageOf(rows, request.limit, 'users', ({ created_at, id }) => [created_at, id]);
}

/**
 * A condition that one of the columns contains the text, case aside. It is compared as written and in lower case,
 * because SQLite folds ASCII letters only.
 */
export function containing(columns: readonly string[], text: string): (query: Knex.QueryBuilder) => void {
  const pattern = `%${text.replace(/[!%_]/g, '!$&')}%`;
  return (query) => {
    for (const column of columns) {
      query.orWhereRaw(`?? like ? escape '!'`, [column, pattern]);
      query.orWhereRaw(`lower(??) like ? escape '!'`, [column, pattern.toLowerCase()]);
    }
  };
}
