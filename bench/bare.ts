import { randomBytes, randomUUID } from 'node:crypto';
import BetterSqlite from 'better-sqlite3';
import { v7 as uuidv7 } from 'uuid';
import { STEPS, type Step } from './phones';
import type { Fresh, Operation, Script, Value } from './record';
import type { SeededPhone } from './seed';

type Slots = unknown[];

interface Ready {
  operation: Operation;
  statement: BetterSqlite.Statement;
}

/** The script's statements on better-sqlite3 and nothing else: prepared once, one commit for each step. */
export class BareCycles {
  private readonly writer: BetterSqlite.Database;
  private readonly reader: BetterSqlite.Database;
  private readonly steps: Record<Step, Ready[]>;

  constructor(
    file: string,
    private readonly script: Script,
  ) {
    this.writer = new BetterSqlite(file);
    this.writer.pragma('journal_mode = WAL');
    this.writer.pragma('foreign_keys = ON');
    this.reader = new BetterSqlite(file, { readonly: true });
    const ready = (operation: Operation): Ready => ({
      operation,
      statement: this[operation.on].prepare(operation.sql),
    });
    const { steps } = script;
    this.steps = {
      claim: steps.claim.map(ready),
      start: steps.start.map(ready),
      heartbeat: steps.heartbeat.map(ready),
      fence: steps.fence.map(ready),
      result: steps.result.map(ready),
    };
  }

  /**
   * Runs `cycles` whole cycles, each phone one at a time and all phones step by step; answers the milliseconds that
   * they took and adds each step's own to `times`. What a phone or server makes up is made up before.
   */
  run(phones: SeededPhone[], cycles: number, times?: Record<Step, number[]>): number {
    // Before every round: after the first write of a connection the driver falls back to NORMAL by itself.
    this.writer.pragma('synchronous = FULL');
    const made = Array.from({ length: cycles }, () => this.makeUp());
    const started = performance.now();
    for (let done = 0; done < cycles; done += phones.length) {
      const wave = made.slice(done, done + phones.length);
      for (const step of STEPS) {
        for (const [index, slots] of wave.entries()) {
          const begun = performance.now();
          this.runStep(step, phones[index] as SeededPhone, slots);
          times?.[step].push(performance.now() - begun);
        }
      }
    }
    return performance.now() - started;
  }

  /** @throws Error when the file is not as durable as the server's */
  close(): void {
    const level = this.writer.pragma('synchronous', { simple: true });
    const journal = this.writer.pragma('journal_mode', { simple: true });
    this.reader.close();
    this.writer.close();
    if (level !== 2 || journal !== 'wal') throw new Error(`bare ran with synchronous=${level}, ${journal}`);
  }

  private makeUp(): Slots {
    const slots: Slots = new Array(this.script.slots).fill(undefined);
    for (const { slot, kind } of this.script.fresh) slots[slot] = FRESH[kind]();
    return slots;
  }

  private runStep(step: Step, phone: SeededPhone, slots: Slots): void {
    const now = Date.now();
    for (const { operation, statement } of this.steps[step]) {
      const values = operation.values.map((value) => bound(value, phone, slots, now));
      if (operation.reads) {
        const rows = statement.all(...values) as Record<string, unknown>[];
        mustBe(operation, rows.length);
        for (const { column, slot } of operation.keeps) slots[slot] = rows[0]?.[column];
      } else {
        mustBe(operation, statement.run(...values).changes);
      }
    }
  }
}

const FRESH: Record<Fresh, () => string> = {
  'uuid-v4': () => randomUUID(),
  'uuid-v7': () => uuidv7(),
  sha256: () => randomBytes(32).toString('hex'),
};

function bound(value: Value, phone: SeededPhone, slots: Slots, now: number): unknown {
  if ('literal' in value) return value.literal;
  if ('slot' in value) return slots[value.slot];
  if ('phone' in value) return phone[value.phone];
  if ('afterNowMs' in value) return new Date(now + value.afterNowMs).toISOString();
  return value.text.map((piece) => (typeof piece === 'string' ? piece : slots[piece.slot])).join('');
}

function mustBe(operation: Operation, rows: number): void {
  if (rows !== operation.rows) {
    throw new Error(`${rows} rows instead of ${operation.rows} in the recording: ${operation.sql}`);
  }
}
