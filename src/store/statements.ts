import type { Knex } from 'knex';
import { type Connection, connectionOf, type Engine, type Source } from './database';

/**
 * Statements that run on every request: each is written once with the Knex builder, with `param(name)` in place of
 * values, compiled once per engine and prepared once per connection. Everything else uses the builder directly.
 */
export interface Statement<P, R> {
  all(source: Source, params: P): Promise<R[]>;
  first(source: Source, params: P): Promise<R | undefined>;
  /** Runs a write and returns how many rows it changed. */
  run(source: Source, params: P): Promise<number>;
}

class Param {
  constructor(readonly name: string) {}
}

/** A marker for a value given at each run. */
export function param(name: string): Knex.Value {
  return new Param(name) as unknown as Knex.Value;
}

/** Markers for all columns of a row, for `insert(row)`. */
export function params(columns: readonly string[]): Record<string, Knex.Value> {
  return Object.fromEntries(columns.map((column) => [column, param(column)]));
}

interface Compiled {
  name: string;
  sql: string;
  bindings: unknown[];
}

export function statement<P extends object, R = never>(
  name: string,
  build: (knex: Knex, engine: Engine) => Knex.QueryBuilder,
): Statement<P, R> {
  const compiled = new Map<Engine, Compiled>();

  function compile(connection: Connection): Compiled {
    let known = compiled.get(connection.engine);
    if (!known) {
      const native = build(connection.builder, connection.engine).toSQL().toNative();
      known = { name: `cmbuyer_${name}`, sql: native.sql, bindings: native.bindings as unknown[] };
      compiled.set(connection.engine, known);
    }
    return known;
  }

  function values(known: Compiled, given: P): unknown[] {
    return known.bindings.map((binding) => {
      if (!(binding instanceof Param)) return binding;
      const value = (given as Record<string, unknown>)[binding.name];
      return value === undefined ? null : value;
    });
  }

  return {
    async all(source, given) {
      const connection = connectionOf(source);
      const known = compile(connection);
      return (await connection.rows(known.name, known.sql, values(known, given))) as R[];
    },
    async first(source, given) {
      return (await this.all(source, given))[0];
    },
    async run(source, given) {
      const connection = connectionOf(source);
      const known = compile(connection);
      return connection.change(known.name, known.sql, values(known, given));
    },
  };
}

/** A conditional write after a lock that changes another number of rows than one is a bug, never a client's fault. */
export function mustChangeOne(what: string, changed: number): void {
  if (changed !== 1) throw new Error(`${what} changed ${changed} rows instead of one`);
}

/** SQLite and PostgreSQL on a row that a unique index refused. */
const TAKEN = ['SQLITE_CONSTRAINT_UNIQUE', '23505'];

/** Whether a write failed because its value is taken: then the verb must end, for PostgreSQL goes no further. */
export function isTaken(error: unknown): boolean {
  return TAKEN.includes(String((error as { code?: unknown } | undefined)?.code));
}
