import { accessSync, constants, mkdirSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import BetterSqlite from 'better-sqlite3';
import createKnex, { type Knex } from 'knex';
import { type Clock, systemClock } from '../clock';
import { ConfigError } from '../config';
import type { Connection, Database, DatabaseOptions, Work } from './database';
import { migrationSource, migrationsOf } from './migrations';
import { BUSY_WAIT_MS, isBusy, isTransient, unavailable } from './outages';

/** A reader waits in the driver, which stops the event loop: hardly at all. */
const READER_BUSY_MS = 50;
/** Savepoints in one commit; most of the gain is there by 16, and 64 keeps one batch below some 20 ms. */
const BATCH_LIMIT = 64;
/** Waiting verbs beyond which a request is refused at once rather than kept for seconds. */
const QUEUE_LIMIT = 2_048;

/** SQLite keeps booleans as 0 and 1; these columns come back as booleans on both engines. */
const BOOLEAN_COLUMNS = new Set([
  'confirmation_required',
  'accessibility_connected',
  'pinduoduo_installed',
  'late',
  'contradicting',
]);

/** The embedded engine: one writer behind a queue, readers beside it. */
export function openSqlite({
  dataDir,
  clock = systemClock,
  busyWaitMs = BUSY_WAIT_MS,
}: DatabaseOptions): Database {
  makeDataDir(dataDir);
  const filename = path.join(dataDir, 'cmbuyer.sqlite');
  const shared = {
    client: ImmediateSqlite as unknown as typeof Knex.Client,
    useNullAsDefault: true,
    compileSqlOnError: false,
    postProcessResponse: restoreBooleans,
  };
  const writer = createKnex({
    ...shared,
    connection: { filename },
    pool: { min: 1, max: 1, afterCreate: prepareSqliteConnection },
    migrations: { migrationSource },
  });
  const reader = createKnex({
    ...shared,
    connection: { filename, options: { readonly: true } },
    pool: { min: 0, max: 4, afterCreate: prepareSqliteReader },
  });
  let preparedReads: BetterSqlite.Database | undefined;
  const readConnection = sqliteConnection(reader, () => {
    preparedReads ??= new BetterSqlite(filename, { readonly: true, timeout: READER_BUSY_MS });
    return preparedReads;
  });
  const queue = new SqliteWriteQueue(writer, clock, busyWaitMs);

  return {
    engine: 'sqlite',
    read: { knex: reader, connection: readConnection },
    write: (verb) => queue.run(verb),
    snapshot: (read) =>
      reader.transaction(async (trx) => {
        const raw: BetterSqlite.Database = await trx.client.acquireConnection();
        return read({ knex: trx, connection: sqliteConnection(reader, () => raw) });
      }),
    now: async () => clock.now(),
    ...migrationsOf(writer, (run) => holdingMigrationLock(dataDir, () => waitingInTheDriver(writer, run))),
    async close() {
      await queue.drained();
      await reader.destroy();
      await writer.destroy();
      preparedReads?.close();
    },
  };
}

/** @throws ConfigError naming the variable when the directory cannot be made or written */
function makeDataDir(dataDir: string): void {
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    accessSync(dataDir, constants.W_OK);
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code;
    throw new ConfigError(
      `CMBUYER_DATA_DIR must be a directory that this user may write to (${reason}), for example CMBUYER_DATA_DIR=/var/lib/cmbuyer`,
    );
  }
}

const MIGRATION_WAIT_MS = 120_000;
/** A start or a migration waits this long for another process's write or recovery; it serves nobody meanwhile. */
const START_BUSY_MS = 10_000;

/** The lock of a file of its own: the operating system frees it when its process ends, however it ends. */
async function holdingMigrationLock<T>(dataDir: string, run: () => Promise<T>): Promise<T> {
  const lock = new BetterSqlite(path.join(dataDir, 'migration.lock'), { timeout: 0 });
  try {
    const deadline = Date.now() + MIGRATION_WAIT_MS;
    for (;;) {
      try {
        lock.exec('begin exclusive');
        break;
      } catch (error) {
        if (!isBusy(error) || Date.now() >= deadline) throw error;
        await sleep(50);
      }
    }
    return await run();
  } finally {
    lock.close();
  }
}

/** Knex's own statements go past the queue that waits for the lock: they wait in the driver. */
async function waitingInTheDriver<T>(writer: Knex, run: () => Promise<T>): Promise<T> {
  await writer.raw(`pragma busy_timeout = ${START_BUSY_MS}`);
  try {
    return await run();
  } finally {
    await writer.raw('pragma busy_timeout = 0');
  }
}

/** Whoever holds the one writer has waited for every lock already. */
async function keepInstant(): Promise<void> {}

/** Knex sends a plain BEGIN, which fails at its first write when another process wrote meanwhile; this takes the lock first. */
const KnexSqlite = require('knex/lib/dialects/better-sqlite3/index.js');
class ImmediateSqlite extends KnexSqlite {
  transaction(container: unknown, config: { readOnly?: boolean } | undefined, outer: unknown) {
    const transaction = super.transaction(container, config, outer);
    const readonly = this.connectionSettings?.options?.readonly;
    if (!outer && !readonly) {
      transaction.begin = function begin(connection: unknown) {
        return this.query(connection, 'BEGIN IMMEDIATE;');
      };
    }
    return transaction;
  }
}

function prepareSqliteConnection(
  raw: BetterSqlite.Database,
  done: (error: Error | null, raw: unknown) => void,
) {
  raw.pragma(`busy_timeout = ${START_BUSY_MS}`);
  raw.pragma('journal_mode = WAL');
  raw.pragma('busy_timeout = 0');
  raw.pragma('synchronous = FULL');
  raw.pragma('foreign_keys = ON');
  done(null, raw);
}

function prepareSqliteReader(raw: BetterSqlite.Database, done: (error: Error | null, raw: unknown) => void) {
  raw.pragma(`busy_timeout = ${READER_BUSY_MS}`);
  done(null, raw);
}

const preparedByConnection = new WeakMap<BetterSqlite.Database, Map<string, PreparedStatement>>();

interface PreparedStatement {
  statement: BetterSqlite.Statement;
  booleans: string[];
}

function sqliteConnection(builder: Knex, raw: () => BetterSqlite.Database): Connection {
  function prepared(name: string, sql: string): PreparedStatement {
    const connection = raw();
    let known = preparedByConnection.get(connection);
    if (!known) {
      known = new Map();
      preparedByConnection.set(connection, known);
    }
    let ready = known.get(name);
    if (!ready) {
      const statement = connection.prepare(sql);
      const columns = statement.reader ? statement.columns().map((column) => column.name) : [];
      ready = { statement, booleans: columns.filter((column) => BOOLEAN_COLUMNS.has(column)) };
      known.set(name, ready);
    }
    return ready;
  }
  return {
    engine: 'sqlite',
    builder,
    rows(name, sql, values) {
      const { statement, booleans } = prepared(name, sql);
      const rows = statement.all(...values.map(sqliteValue)) as Record<string, unknown>[];
      for (const column of booleans) for (const row of rows) row[column] = asBoolean(row[column]);
      return rows;
    },
    change: (name, sql, values) => prepared(name, sql).statement.run(...values.map(sqliteValue)).changes,
  };
}

function sqliteValue(value: unknown): unknown {
  return typeof value === 'boolean' ? Number(value) : value;
}

function asBoolean(value: unknown): unknown {
  return value === null ? null : value !== 0;
}

function restoreBooleans(result: unknown): unknown {
  const rows = Array.isArray(result) ? result : [result];
  for (const row of rows) {
    if (row === null || typeof row !== 'object') continue;
    for (const column of Object.keys(row)) {
      if (BOOLEAN_COLUMNS.has(column)) row[column] = asBoolean(row[column]);
    }
  }
  return result;
}

interface WaitingVerb {
  verb(work: Work): Promise<unknown>;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

type Outcome = { value: unknown } | { error: unknown };

/**
 * The queue in front of the one SQLite writer: verbs that wait together run one after another in one transaction, each
 * in its own savepoint, and all answers leave after the one commit. Nothing but the transaction is awaited inside.
 */
class SqliteWriteQueue {
  private readonly waiting: WaitingVerb[] = [];
  private draining: Promise<void> | undefined;
  private durable = false;

  constructor(
    private readonly writer: Knex,
    private readonly clock: Clock,
    private readonly busyWaitMs: number,
  ) {}

  run<T>(verb: (work: Work) => Promise<T>): Promise<T> {
    if (this.waiting.length >= QUEUE_LIMIT) return Promise.reject(unavailable());
    return new Promise<T>((resolve, reject) => {
      this.waiting.push({ verb, resolve: resolve as (value: unknown) => void, reject });
      this.draining ??= this.drain();
    });
  }

  async drained(): Promise<void> {
    while (this.draining) await this.draining;
  }

  private async drain(): Promise<void> {
    while (this.waiting.length > 0) {
      await new Promise((next) => setImmediate(next));
      const batch = this.waiting.splice(0, BATCH_LIMIT);
      try {
        const outcomes = await this.commit(batch);
        batch.forEach((waiter, index) => {
          const outcome = outcomes[index] as Outcome;
          if ('error' in outcome) waiter.reject(outcome.error);
          else waiter.resolve(outcome.value);
        });
      } catch (error) {
        for (const waiter of batch) waiter.reject(error);
      }
    }
    this.draining = undefined;
  }

  /** Waits for the lock without blocking the event loop: the driver's own waiting would stop every request. */
  private async commit(batch: WaitingVerb[]): Promise<Outcome[]> {
    const deadline = Date.now() + this.busyWaitMs;
    for (let delay = 2; ; delay = Math.min(delay * 2, 100)) {
      try {
        return await this.tryCommit(batch);
      } catch (error) {
        if (!isTransient(error)) throw error;
        if (!isBusy(error) || Date.now() >= deadline) throw unavailable(error);
        await sleep(delay * (0.5 + Math.random()));
      }
    }
  }

  private async tryCommit(batch: WaitingVerb[]): Promise<Outcome[]> {
    let failure: unknown;
    const outcomes = await this.writer
      .transaction(async (trx) => {
        try {
          const raw: BetterSqlite.Database = await trx.client.acquireConnection();
          if (!raw.inTransaction) {
            // Knex calls this even after a failed BEGIN; a harmless query brings the failure out.
            await trx.raw('select 1');
            throw unavailable();
          }
          return await this.runEach(batch, trx, raw);
        } catch (error) {
          failure = error;
          throw error;
        }
      })
      .catch(async (error) => {
        await this.rollBackLeftOpen();
        throw failure !== undefined && isTransient(failure) ? failure : error;
      });
    if (!this.durable) await this.assertDurable();
    return outcomes;
  }

  /** A COMMIT that fails may leave its transaction open: then the next one would commit what was reported as failed. */
  private async rollBackLeftOpen(): Promise<void> {
    const raw: BetterSqlite.Database = await this.writer.client.acquireConnection();
    try {
      if (raw.inTransaction) raw.exec('rollback');
    } finally {
      await this.writer.client.releaseConnection(raw);
    }
  }

  private async runEach(
    batch: WaitingVerb[],
    trx: Knex.Transaction,
    raw: BetterSqlite.Database,
  ): Promise<Outcome[]> {
    const connection = sqliteConnection(this.writer, () => raw);
    const outcomes: Outcome[] = [];
    for (const { verb } of batch) {
      connection.change('savepoint', 'savepoint verb', []);
      try {
        outcomes.push({
          value: await verb({ trx, now: this.clock.now(), connection, readClock: keepInstant }),
        });
      } catch (error) {
        // A full disk or an I/O error may have rolled back everything: then nobody's writes stand.
        if (!raw.inTransaction) throw error;
        connection.change('rollback_to', 'rollback to verb', []);
        outcomes.push({ error: isTransient(error) ? unavailable(error) : error });
      }
      connection.change('release', 'release verb', []);
    }
    return outcomes;
  }

  /** The driver falls back to synchronous=NORMAL by itself; an acknowledged fact must survive a power cut. */
  private async assertDurable(): Promise<void> {
    const raw: BetterSqlite.Database = await this.writer.client.acquireConnection();
    try {
      if (raw.pragma('synchronous', { simple: true }) !== 2) raw.pragma('synchronous = FULL');
      const level = raw.pragma('synchronous', { simple: true });
      const journal = raw.pragma('journal_mode', { simple: true });
      if (level !== 2 || journal !== 'wal')
        throw new Error(`SQLite runs with synchronous=${level}, journal=${journal}`);
      this.durable = true;
    } finally {
      await this.writer.client.releaseConnection(raw);
    }
  }
}
