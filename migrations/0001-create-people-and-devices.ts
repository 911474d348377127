import type { Knex } from 'knex';

/** Who may sign in, with what, from which phone; and what admins did about it. */
export async function up(knex: Knex): Promise<void> {
  const { instant, uuid, boolean, serial } = columnTypes(knex);
  await runAll(knex, [
    `create table users (
      id ${uuid} not null primary key,
      username text not null,
      username_key text not null unique,
      display_name text,
      role text not null check (role in ('ADMIN', 'BUYER')),
      status text not null check (status in ('ACTIVE', 'DISABLED')),
      password_hash text not null,
      created_at ${instant} not null,
      updated_at ${instant} not null,
      last_login_at ${instant},
      last_disabled_at ${instant},
      check (status = 'ACTIVE' or last_disabled_at is not null)
    )`,
    'create index users_by_creation on users (created_at, id)',
    `create table devices (
      device_id text not null primary key,
      label text not null,
      user_id ${uuid} not null references users (id),
      status text not null check (status in ('AUTHORIZED', 'REVOKED')),
      created_at ${instant} not null,
      updated_at ${instant} not null,
      authorized_at ${instant} not null,
      last_revoked_at ${instant},
      revoke_reason text,
      last_heartbeat_at ${instant},
      app_version text,
      android_version text,
      pinduoduo_version text,
      accessibility_connected ${boolean},
      pinduoduo_installed ${boolean},
      reported_task_id ${uuid},
      reported_client_time text,
      check (status = 'AUTHORIZED' or last_revoked_at is not null)
    )`,
    'create index devices_by_creation on devices (created_at, device_id)',
    'create index devices_by_user on devices (user_id)',
    `create table sessions (
      id ${uuid} not null primary key,
      token_hash text not null unique,
      user_id ${uuid} not null references users (id),
      created_at ${instant} not null,
      expires_at ${instant} not null,
      ended_at ${instant},
      end_reason text check (end_reason in ('LOGGED_OUT', 'RENEWED', 'PASSWORD_CHANGED', 'USER_DISABLED')),
      check ((ended_at is null) = (end_reason is null))
    )`,
    'create index sessions_open_by_user on sessions (user_id) where ended_at is null',
    `create table access_tokens (
      id ${uuid} not null primary key,
      token_hash text not null unique,
      user_id ${uuid} not null references users (id),
      device_id text not null references devices (device_id),
      created_at ${instant} not null,
      expires_at ${instant} not null,
      ended_at ${instant},
      end_reason text check (end_reason in ('LOGGED_OUT', 'PASSWORD_CHANGED', 'USER_DISABLED', 'DEVICE_REVOKED', 'BUYER_CHANGED', 'ROLE_CHANGED')),
      check ((ended_at is null) = (end_reason is null))
    )`,
    'create index access_tokens_open_by_device on access_tokens (device_id) where ended_at is null',
    'create index access_tokens_open_by_user on access_tokens (user_id) where ended_at is null',
    `create table login_buckets (
      bucket text not null primary key,
      window_started_at ${instant} not null,
      attempts integer not null check (attempts >= 0)
    )`,
    'create index login_buckets_by_age on login_buckets (window_started_at)',
    `create table login_origins (
      username_key text not null,
      address text not null,
      last_success_at ${instant} not null,
      primary key (username_key, address)
    )`,
    `create table audit_events (
      seq ${serial},
      id ${uuid} not null unique,
      occurred_at ${instant} not null,
      actor_type text not null check (actor_type in ('ADMIN', 'DEVICE', 'SYSTEM')),
      actor_user_id ${uuid} references users (id),
      actor_device_id text references devices (device_id),
      action text not null,
      target_type text not null check (target_type in ('USER', 'DEVICE', 'TASK', 'SESSION')),
      target_id text not null,
      detail text not null
    )`,
  ]);
}

export async function down(knex: Knex): Promise<void> {
  await runAll(
    knex,
    ['audit_events', 'login_origins', 'login_buckets', 'access_tokens', 'sessions', 'devices', 'users'].map(
      (table) => `drop table ${table}`,
    ),
  );
}

/** The one place where this migration's two engines differ. */
function columnTypes(knex: Knex) {
  return knex.client.config.client === 'pg'
    ? {
        instant: 'timestamptz(3)',
        uuid: 'uuid',
        boolean: 'boolean',
        serial: 'bigint generated always as identity primary key',
      }
    : {
        instant: 'text',
        uuid: 'text',
        boolean: 'integer',
        serial: 'integer not null primary key autoincrement',
      };
}

async function runAll(knex: Knex, statements: string[]): Promise<void> {
  for (const statement of statements) await knex.raw(statement);
}
