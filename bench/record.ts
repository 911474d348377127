import { isDeepStrictEqual } from 'node:util';
import BetterSqlite from 'better-sqlite3';
import pino from 'pino';
import { readConfig } from '../src/config';
import { startServer } from '../src/serve';
import { Line, STEPS, type Step } from './phones';
import { READY_SECONDS, type SeededPhone, seed } from './seed';

/** Where a bound value comes from when a statement is run again for another phone and task. */
export type Value =
  | { literal: unknown }
  | { phone: keyof SeededPhone }
  /** A value made up or read earlier in the cycle. */
  | { slot: number }
  /** The step's instant and so many milliseconds. */
  | { afterNowMs: number }
  /** A text that holds such values. */
  | { text: (string | { slot: number })[] };

export interface Operation {
  sql: string;
  on: 'writer' | 'reader';
  /** Whether it answers rows. */
  reads: boolean;
  values: Value[];
  /** Rows read or changed, in the recording and in every run. */
  rows: number;
  /** Columns of the first row that later statements bind. */
  keeps: { column: string; slot: number }[];
}

/** Values that server or phone made up, by kind, so that a run makes up the same kind. */
export type Fresh = 'uuid-v4' | 'uuid-v7' | 'sha256';

/** One cycle as the server's own statements. */
export interface Script {
  steps: Record<Step, Operation[]>;
  fresh: { slot: number; kind: Fresh }[];
  slots: number;
}

interface Recorded {
  sql: string;
  on: 'writer' | 'reader';
  reads: boolean;
  values: unknown[];
  rows: number;
  first: Record<string, unknown> | undefined;
}

type RecordedCycle = Record<Step, { startedAt: number; statements: Recorded[] }>;

/** Each verb's savepoint inside a shared commit: needless where each step has a commit of its own. */
const SAVEPOINTS = /^(savepoint|release|rollback to) verb$/;

/**
 * Runs the server in this process, listens to its SQLite connections while two phones buy one thing each, and makes one
 * script of what was executed: sign-in check, reads, writes, begin and commit.
 * @throws Error when two equal cycles executed different statements
 */
export async function recordCycle(dataDir: string): Promise<Script> {
  const phones = await seed(dataDir, 3, 3);
  const tape = new Tape();
  const config = readConfig({
    CMBUYER_DATA_DIR: dataDir,
    CMBUYER_PORT: '0',
    CMBUYER_DEVICE_HEARTBEAT_TTL_SECONDS: String(READY_SECONDS),
  });
  const server = await startServer(config, { log: pino({ level: 'silent' }) });
  const line = new Line([Number(new URL(server.address).port)], 1);
  try {
    // The first cycle prepares statements and is not kept.
    const scripts: Script[] = [];
    for (const phone of phones) scripts.push(compile(await tape.record(line, phone), phone));
    const [, first, second] = scripts as [Script, Script, Script];
    if (!isDeepStrictEqual(first, second)) throw new Error('two equal cycles ran different statements');
    return second;
  } finally {
    line.close();
    await server.close();
    tape.stop();
  }
}

type Prepare = typeof BetterSqlite.prototype.prepare;
type Run = (...values: unknown[]) => unknown;

/** Notes every statement that any connection of this process runs. */
class Tape {
  private readonly prepare: Prepare = BetterSqlite.prototype.prepare;
  private notes: Recorded[] | undefined;

  constructor() {
    const { prepare } = this;
    const note = (statement: BetterSqlite.Statement, sql: string, values: unknown[], result: unknown) =>
      this.note(statement, sql, values, result);
    BetterSqlite.prototype.prepare = function listening(this: BetterSqlite.Database, sql: string) {
      const statement = prepare.call(this, sql) as BetterSqlite.Statement;
      for (const method of ['all', 'get', 'run', 'iterate'] as const) {
        const run = statement[method].bind(statement) as Run;
        const noted: Run = (...values) => {
          const result = run(...values);
          note(statement, sql, values, result);
          return result;
        };
        Object.defineProperty(statement, method, { value: noted });
      }
      return statement;
    } as Prepare;
  }

  stop(): void {
    BetterSqlite.prototype.prepare = this.prepare;
  }

  async record(line: Line, phone: SeededPhone): Promise<RecordedCycle> {
    const cycle = {} as RecordedCycle;
    await line.run([phone], 1, {
      before: (step) => {
        this.notes = [];
        cycle[step] = { startedAt: Date.now(), statements: this.notes };
      },
      after: () => {
        this.notes = undefined;
      },
    });
    return cycle;
  }

  private note(statement: BetterSqlite.Statement, sql: string, given: unknown[], result: unknown): void {
    if (!this.notes) return;
    // Knex binds one array, our own statements bind a list: the driver takes both.
    const values = given.length === 1 && Array.isArray(given[0]) ? given[0] : given;
    const answer = Array.isArray(result) ? result : undefined;
    if (statement.reader && !answer) throw new Error(`a statement was read in a way not foreseen: ${sql}`);
    this.notes.push({
      sql,
      on: statement.database.readonly ? 'reader' : 'writer',
      reads: statement.reader,
      values: [...values],
      rows: answer ? answer.length : (result as BetterSqlite.RunResult).changes,
      first: answer?.[0] && { ...answer[0] },
    });
  }
}

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-([47])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const SHA256 = /^[0-9a-f]{64}$/;

/** Replaces what belongs to the recorded phone and task by where it came from. */
function compile(cycle: RecordedCycle, phone: SeededPhone): Script {
  const phoneKeys = Object.keys(phone) as (keyof SeededPhone)[];
  const ofPhone = new Map(phoneKeys.map((key) => [phone[key], key]));
  const readBy = new Map<string, { operation: Operation; column: string }>();
  const slotOf = new Map<string, number>();
  const fresh: Script['fresh'] = [];
  const steps = {} as Script['steps'];

  function slotFor(value: string): number {
    const slot = slotOf.size;
    slotOf.set(value, slot);
    return slot;
  }

  function freshKind(value: string): Fresh | undefined {
    const version = UUID.exec(value)?.[1];
    if (version !== undefined) return version === '4' ? 'uuid-v4' : 'uuid-v7';
    return SHA256.test(value) ? 'sha256' : undefined;
  }

  function sourceOf(value: unknown, startedAt: number): Value {
    if (typeof value !== 'string') return { literal: value };
    const key = ofPhone.get(value);
    if (key !== undefined) return { phone: key };
    const known = slotOf.get(value);
    if (known !== undefined) return { slot: known };
    const read = readBy.get(value);
    if (read) {
      const slot = slotFor(value);
      read.operation.keeps.push({ column: read.column, slot });
      return { slot };
    }
    // Every duration is whole seconds, and no step takes half of one.
    if (INSTANT.test(value)) {
      return { afterNowMs: Math.round((Date.parse(value) - startedAt) / 1000) * 1000 };
    }
    const kind = freshKind(value);
    if (kind) {
      const slot = slotFor(value);
      fresh.push({ slot, kind });
      return { slot };
    }
    for (const [part, slot] of slotOf) {
      if (!value.includes(part)) continue;
      const pieces = value.split(part).flatMap((piece) => [{ slot }, piece]);
      return { text: pieces.slice(1) };
    }
    return { literal: value };
  }

  for (const step of STEPS) {
    const { startedAt, statements } = cycle[step];
    steps[step] = statements
      .filter(({ sql }) => !SAVEPOINTS.test(sql))
      .map(({ sql, on, reads, values, rows, first }) => {
        const bound = values.map((value) => sourceOf(value, startedAt));
        const operation: Operation = { sql, on, reads, values: bound, rows, keeps: [] };
        for (const [column, value] of Object.entries(first ?? {})) {
          const isOwn = typeof value === 'string' && (INSTANT.test(value) || freshKind(value) !== undefined);
          if (isOwn && !readBy.has(value)) readBy.set(value, { operation, column });
        }
        return operation;
      });
  }
  return { steps, fresh, slots: slotOf.size };
}
