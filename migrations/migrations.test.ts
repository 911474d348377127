import { readdirSync } from 'node:fs';
import path from 'node:path';
import { v7 as uuidv7 } from 'uuid';
import type { Database } from '../src/store/database';
import { allFacts } from '../src/testing/all-facts';
import { expectInvariants } from '../src/testing/invariants';
import { openPurchase, type Purchase } from '../src/testing/purchase';

/** Landed migrations keep their name for ever: a deployed database knows them by it. Append, never rename. */
const LANDED = ['0001-create-people-and-devices', '0002-create-task-facts'];

let purchase: Purchase;
let database: Database;

beforeEach(async () => {
  purchase = await openPurchase();
  database = purchase.database;
});
afterEach(() => purchase.close());

/** The shape of every table, index and constraint. */
async function schemaOf({ engine, read }: Database): Promise<unknown> {
  if (engine === 'sqlite') {
    return read
      .knex('sqlite_master')
      .select('type', 'name', 'tbl_name', 'sql')
      .whereNot('name', 'like', 'sqlite_%')
      .whereNot('tbl_name', 'like', 'knex_%')
      .orderBy(['type', 'name']);
  }
  const ofOurs = (column: string) => `${column} not like 'knex_%' order by 1, 2, 3`;
  return Promise.all(
    [
      `select table_name, column_name, data_type, is_nullable, datetime_precision from information_schema.columns
       where table_schema = 'public' and ${ofOurs('table_name')}`,
      `select tablename, indexname, indexdef from pg_indexes where schemaname = 'public' and ${ofOurs('tablename')}`,
      `select conrelid::regclass::text as its_table, conname, pg_get_constraintdef(oid) from pg_constraint
       where connamespace = 'public'::regnamespace and ${ofOurs('conrelid::regclass::text')}`,
    ].map(async (sql) => (await read.knex.raw(sql)).rows),
  );
}

async function tablesOf({ engine, read }: Database): Promise<string[]> {
  const names: string[] =
    engine === 'sqlite'
      ? await read
          .knex('sqlite_master')
          .where('type', 'table')
          .whereNot('name', 'like', 'sqlite_%')
          .pluck('name')
      : await read.knex('pg_tables').where('schemaname', 'public').pluck('tablename');
  return names.filter((name) => !name.startsWith('knex_')).sort();
}

/** Brings facts into every table, each with all of its children. */
async function fillEverything(): Promise<void> {
  const sha256 = await purchase.picture();
  const ordered = await purchase.ordered();
  const asked = await purchase.running(purchase.phone, { confirmation_required: true });
  const { confirmation_id, running } = await purchase.confirmation(asked, 'APPROVED');
  await purchase.report(await purchase.fence(running, { confirmation_id }), { outcome: 'UNKNOWN' });
  await purchase.poll(purchase.phone);
  const original = await purchase.pending({ external_ref: 'REQ-1' }, { reference_image_sha256: sha256 });
  const { task: copy } = await purchase.draft();
  await database.write(async (work) => {
    await work.trx('tasks').where('id', copy.id).update({ duplicated_from: original.task.id });
    const shared = {
      task_id: ordered.task_id,
      attempt_id: ordered.attempt_id,
      late: false,
      created_at: work.now,
    };
    await work.trx('evidence').insert({
      ...shared,
      id: uuidv7(),
      client_evidence_id: 'e-1',
      kind: 'ORDER_PAGE',
      image_sha256: sha256,
      received_sha256: sha256,
    });
    await work.trx('progress_events').insert({
      ...shared,
      id: uuidv7(),
      client_event_id: 'p-1',
      step: 'SEARCHING',
      content_sha256: sha256,
    });
    await work.trx('login_buckets').insert({ bucket: 'b', window_started_at: work.now, attempts: 1 });
    await work
      .trx('login_origins')
      .insert({ username_key: 'boss', address: '::1', last_success_at: work.now });
  });
}

describe('migrations', () => {
  it('are named by number, verb and noun, without gaps, in the order in which they run', () => {
    const files = readdirSync(__dirname).filter((file) => !file.endsWith('.test.ts'));
    const names = files.map((file) => path.basename(file, '.ts'));
    expect(names).toEqual([...names].sort());
    names.forEach((name, index) => {
      expect(name).toMatch(/^\d{4}-[a-z]+(-[a-z]+)+$/);
      expect(Number(name.slice(0, 4))).toBe(index + 1);
    });
    expect(names.slice(0, LANDED.length)).toEqual(LANDED);
  });

  it('are all applied, and applying them again does nothing', async () => {
    const { done, pending } = await database.migrationStatus();
    expect(done.slice(0, LANDED.length)).toEqual(LANDED);
    expect(pending).toEqual([]);
    expect(await database.migrateUp()).toEqual([]);
  });

  it('give the same schema up, down and up again', async () => {
    const first = await schemaOf(database);
    const { done } = await database.migrationStatus();
    const undone: string[] = [];
    for (let step = 0; step < done.length; step++) undone.push(...(await database.migrateDown()));
    expect(undone).toEqual([...done].reverse());
    expect(await tablesOf(database)).toEqual([]);
    expect(await database.migrateUp()).toEqual(done);
    expect(await schemaOf(database)).toEqual(first);
  });

  it('fill every table in this test, so that the next ones mean something', async () => {
    await fillEverything();
    const counts = await Promise.all(
      (await tablesOf(database)).map(async (table) => [
        table,
        Number((await database.read.knex(table).count({ count: '*' }).first())!.count) > 0,
      ]),
    );
    expect(counts.filter(([, filled]) => !filled)).toEqual([]);
    await expectInvariants(database);
  });

  it('undo the newest one over full tables, keep what is older, and bring its tables back', async () => {
    await fillEverything();
    const older = await Promise.all(
      ['users', 'devices', 'sessions', 'access_tokens', 'audit_events'].map((table) => purchase.rows(table)),
    );
    const tables = await tablesOf(database);
    expect(await database.migrateDown()).toEqual([LANDED.at(-1)]);
    expect(await tablesOf(database)).not.toContain('tasks');
    expect(await database.migrateUp()).toEqual([LANDED.at(-1)]);
    expect(await tablesOf(database)).toEqual(tables);
    const kept = await Promise.all(
      ['users', 'devices', 'sessions', 'access_tokens', 'audit_events'].map((table) => purchase.rows(table)),
    );
    expect(kept).toEqual(older);
    expect((await purchase.claimed()).version).toBe(3);
  });

  it('leave every row and reference as they are when there is nothing to apply', async () => {
    await fillEverything();
    const before = await allFacts(database);
    await database.migrateUp();
    expect(await allFacts(database)).toBe(before);
    if (database.engine === 'sqlite') {
      expect(await database.read.knex.raw('pragma foreign_key_check')).toEqual([]);
      expect(await database.read.knex.raw('pragma integrity_check')).toEqual([{ integrity_check: 'ok' }]);
    }
  });
});
