import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import createKnex, { type Knex } from 'knex';
import { type Client, types } from 'pg';
import type { Instant } from '../clock';
import { ConfigError } from '../config';
import type { Connection, Database, DatabaseOptions, Work } from './database';
import { migrationSource, migrationsOf } from './migrations';
import { BUSY_WAIT_MS, isBusy, isTransient, unavailable } from './outages';

/** Connections of one process, ten in all: claims peak between 5 and 10 on two cores, and several processes share the server. */
const WRITERS = 7;
/** Reads have their own: writers that all wait for somebody's lock must not keep anybody from looking. */
const READERS = 3;
/** A call waits this long for a free connection before it is refused. */
const POOL_WAIT_MS = 5_000;
/** Bounds on the server: a lock is never waited for longer than a write waits at all; nothing stays open idle. */
const SESSION = [
  `set lock_timeout = ${BUSY_WAIT_MS}`,
  'set statement_timeout = 15000',
  'set idle_in_transaction_session_timeout = 10000',
  `set timezone = 'UTC'`,
].join('; ');
/** A paused server answers nothing at all; after this long its connection is given up. */
const SILENCE_MS = 20_000;
/** Any number, the same in every process: whoever holds it migrates. */
const MIGRATION_LOCK = 7_306_001;

/** PostgreSQL 14 or later, reached by any number of processes. */
export function openPostgres(
  url: string,
  { clock, busyWaitMs = BUSY_WAIT_MS, silenceMs = SILENCE_MS }: DatabaseOptions,
): Database {
  const writer = createKnex(settings(url, { max: WRITERS, session: SESSION, silenceMs }));
  const reader = createKnex(settings(url, { max: READERS, session: SESSION, silenceMs }));
  // A migration may take longer than any request: it has no limits of its own. One session, which also holds the lock:
  // as long as the server still works for a process that died, nobody else begins.
  const migrator = createKnex(settings(url, { max: 1 }));

  async function instant(connection: Connection): Promise<Instant> {
    if (clock) return clock.now();
    const [row] = await connection.rows('now', 'select clock_timestamp()::timestamptz(3) as now', []);
    return (row as { now: Instant }).now;
  }

  /** One transaction; whether its COMMIT was already on its way decides whether it may be tried again. */
  async function once<T>(verb: (work: Work) => Promise<T>, progress: { committing: boolean }): Promise<T> {
    return writer.transaction(async (trx) => {
      const raw: WatchedClient = await trx.client.acquireConnection();
      const connection = connectionOn(writer, raw);
      const work: Work = {
        trx,
        connection,
        now: await instant(connection),
        async readClock() {
          work.now = await instant(connection);
        },
      };
      const value = await verb(work);
      // After a swallowed error PostgreSQL answers COMMIT with a rollback, and nobody would notice.
      if (raw.transactionStatus === 'E') throw new Error('a statement of this transaction failed unnoticed');
      progress.committing = true;
      return value;
    });
  }

  return {
    engine: 'postgres',
    read: { knex: reader, connection: pooled(reader) },
    async write(verb) {
      const deadline = Date.now() + busyWaitMs;
      for (let delay = 2; ; delay = Math.min(delay * 2, 200)) {
        const progress = { committing: false };
        try {
          return await once(verb, progress);
        } catch (error) {
          if (!isTransient(error)) throw error;
          const mayRepeat = isBusy(error) || !progress.committing;
          if (!mayRepeat || Date.now() >= deadline) throw unavailable(error);
          await sleep(delay * (0.5 + Math.random()));
        }
      }
    },
    snapshot: (read) =>
      reader.transaction(
        async (trx) =>
          read({ knex: trx, connection: connectionOn(reader, await trx.client.acquireConnection()) }),
        { isolationLevel: 'repeatable read', readOnly: true },
      ),
    now: () => instant(pooled(reader)),
    ...migrationsOf(migrator, (run) => holdingMigrationLock(migrator, run)),
    async close() {
      await writer.destroy();
      await reader.destroy();
      await migrator.destroy();
    },
  };
}

interface PoolSettings {
  max: number;
  session?: string;
  silenceMs?: number;
}

/** Knex would print plain lines into a log of JSON; what it has to say comes as the error of a call, and is logged there. */
const SILENT = { warn: ignore, error: ignore, deprecate: ignore, debug: ignore };
function ignore(): void {}

function settings(url: string, { max, session, silenceMs }: PoolSettings): Knex.Config {
  return {
    client: 'pg',
    compileSqlOnError: false,
    log: SILENT,
    acquireConnectionTimeout: POOL_WAIT_MS,
    connection: {
      connectionString: url,
      application_name: 'cmbuyer',
      connectionTimeoutMillis: POOL_WAIT_MS,
      keepAlive: true,
      types: { getTypeParser: typeParser },
    } as Knex.PgConnectionConfig,
    pool: {
      min: 0,
      max,
      afterCreate(raw: WatchedClient, done: (error: Error | null, raw: unknown) => void) {
        watchTransaction(raw);
        if (silenceMs !== undefined) hangUpOnSilence(raw, silenceMs);
        if (session === undefined) done(null, raw);
        else raw.query(session, (error) => done(error, raw));
      },
    },
    migrations: { migrationSource },
  };
}

type WatchedClient = Client & {
  transactionStatus?: string;
  /** False while the server owes an answer. */
  readyForQuery: boolean;
  connection: NodeJS.EventEmitter & { stream: Socket };
};

/** The server says after every statement how its transaction stands: idle, in one, or in a failed one (`E`). */
function watchTransaction(raw: WatchedClient): void {
  raw.connection.on('readyForQuery', ({ status }: { status: string }) => {
    raw.transactionStatus = status;
  });
}

/**
 * Gives up a connection on which a statement gets no answer. The driver's own timeout would give up the statement only:
 * the ROLLBACK behind it would never be sent, and the next user's COMMIT would keep what was refused.
 */
function hangUpOnSilence(raw: WatchedClient, silenceMs: number): void {
  const { stream } = raw.connection;
  stream.setTimeout(silenceMs, () => {
    if (!raw.readyForQuery) stream.destroy(new Error('Query read timeout'));
  });
}

function connectionOn(builder: Knex, raw: WatchedClient): Connection {
  return {
    engine: 'postgres',
    builder,
    rows: async (name, text, values) => (await raw.query({ name, text, values })).rows,
    change: async (name, text, values) => (await raw.query({ name, text, values })).rowCount ?? 0,
  };
}

/** Each read on any free connection. */
function pooled(knex: Knex): Connection {
  return {
    engine: 'postgres',
    builder: knex,
    async rows(name, text, values) {
      const raw: WatchedClient = await knex.client.acquireConnection();
      try {
        return (await raw.query({ name, text, values })).rows;
      } finally {
        await knex.client.releaseConnection(raw);
      }
    },
    change: () => Promise.reject(new Error('a reader does not write')),
  };
}

/** An advisory lock of the migrating session: the server frees it when that session ends, however it ends. */
async function holdingMigrationLock<T>(migrator: Knex, run: () => Promise<T>): Promise<T> {
  await migrator.raw('select pg_advisory_lock(?)', [MIGRATION_LOCK]).catch((error) => {
    if (!isTransient(error) && !/^(28|3D)/.test(String(error?.code))) throw error;
    throw new ConfigError(
      `CMBUYER_DATABASE_URL names a PostgreSQL that cannot be used (${error.code ?? error.message}), for example CMBUYER_DATABASE_URL=postgresql://cmbuyer@localhost/cmbuyer`,
    );
  });
  try {
    return await run();
  } finally {
    // A session that was lost has freed it already.
    await migrator.raw('select pg_advisory_unlock(?)', [MIGRATION_LOCK]).catch(() => undefined);
  }
}

const INT8 = 20;
const TIMESTAMPTZ = 1184;

function typeParser(oid: number, format?: 'text' | 'binary'): (value: string) => unknown {
  if (oid === INT8) return Number;
  if (oid === TIMESTAMPTZ) return (value) => new Date(value).toISOString();
  return types.getTypeParser(oid, format as 'text');
}
