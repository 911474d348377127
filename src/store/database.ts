import type { Knex } from 'knex';
import type { Clock, Instant } from '../clock';
import type { Migrations } from './migrations';
import { openPostgres } from './postgres';
import { openSqlite } from './sqlite';

export type Engine = 'sqlite' | 'postgres';

/** A connection as prepared statements see it. Synchronous on SQLite, hence the unions. */
export interface Connection {
  readonly engine: Engine;
  /** Compiles statements; never runs them. */
  readonly builder: Knex;
  rows(name: string, sql: string, values: unknown[]): unknown[] | Promise<unknown[]>;
  change(name: string, sql: string, values: unknown[]): number | Promise<number>;
}

/** One open write transaction and its instant: all that a verb may touch. */
export interface Work {
  readonly trx: Knex.Transaction;
  now: Instant;
  readonly connection: Connection;
  /** Reads the database's clock again after a wait for a lock, so that a lease is judged by when it could be judged. */
  readClock(): Promise<void>;
}

/** Committed facts, read without a lock. */
export interface Reader {
  readonly knex: Knex;
  readonly connection: Connection;
}

export type Source = Work | Reader;

export interface Database extends Migrations {
  readonly engine: Engine;
  readonly read: Reader;
  /**
   * Runs a verb in a write transaction and resolves after the commit; whatever it throws leaves nothing written.
   * @throws Refusal SERVICE_UNAVAILABLE when the engine stays busy, is full or is out of reach: nothing was changed.
   */
  write<T>(verb: (work: Work) => Promise<T>): Promise<T>;
  /** Runs several reads on one consistent state. */
  snapshot<T>(read: (reader: Reader) => Promise<T>): Promise<T>;
  /** The one clock of all processes on this database. */
  now(): Promise<Instant>;
  close(): Promise<void>;
}

export interface DatabaseOptions {
  /** Empty: an SQLite file `cmbuyer.sqlite` in `dataDir`. */
  url?: string;
  dataDir: string;
  /** Given by tests only; otherwise PostgreSQL's own clock decides there. */
  clock?: Clock;
  /** Given by tests only: how long a write waits for another process's lock, in place of `BUSY_WAIT_MS`. */
  busyWaitMs?: number;
  /** How long a PostgreSQL session may not answer before it is given up, in place of `SILENCE_MS`: for long looks, and tests. */
  silenceMs?: number;
}

export function connectionOf(source: Source): Connection {
  return source.connection;
}

/** The Knex builder on a source, for statements that are not hot. */
export function queryOn(source: Source): Knex {
  return 'trx' in source ? source.trx : source.knex;
}

export function openDatabase(options: DatabaseOptions): Database {
  return options.url ? openPostgres(options.url, options) : openSqlite(options);
}

/** Where an engine can pass over rows that others hold, it does; SQLite has one writer and nobody to pass over. */
export function passingOver(query: Knex.QueryBuilder, engine: Engine): Knex.QueryBuilder {
  return engine === 'postgres' ? query.forUpdate().skipLocked() : query;
}
