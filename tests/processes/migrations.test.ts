import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import BetterSqlite from 'better-sqlite3';
import { Client } from 'pg';
import { openDatabase } from '../../src/store/database';
import { migrationSource } from '../../src/store/migrations';
import { type EmptyDatabase, openEmptyDatabase } from '../../src/testing/open-empty-database';
import { cleanUp, Program, run, type Serving, serve } from '../process/program';
import { Wire } from './wire';

/** Processes that start at once, and processes that die while they migrate. */
jest.setTimeout(120_000);

const preload = path.join(__dirname, 'preload/kill-at-statement.cjs');
const PROCESSES = 4;
const KILLS = 10;

let empty: EmptyDatabase;
let settings: Record<string, string>;

beforeEach(async () => {
  empty = await openEmptyDatabase();
  settings = { CMBUYER_DATA_DIR: empty.dataDir, CMBUYER_DATABASE_URL: empty.url ?? '' };
});
afterEach(async () => {
  await cleanUp();
  await empty.drop();
});

/** What is on record as applied, in the order in which it was applied. */
async function applied(): Promise<string[]> {
  const database = openDatabase({ url: empty.url, dataDir: empty.dataDir });
  try {
    return (await database.migrationStatus()).done;
  } finally {
    await database.close();
  }
}

async function expectReady({ address }: Serving): Promise<void> {
  const wire = new Wire(address);
  expect((await wire.send('/readyz')).status).toBe(200);
  wire.close();
}

/** Which migrations a process says that it applied. */
function appliedBy({ program }: Serving): string[] {
  const line = program.stdout.split('\n').find((text) => text.includes('"migrated"'));
  return line === undefined ? [] : JSON.parse(line).applied;
}

it('four processes start at once on an empty database: one migrates, all serve', async () => {
  const all = await migrationSource.getMigrations();
  const servers = await Promise.all(Array.from({ length: PROCESSES }, () => serve(settings)));
  for (const server of servers) await expectReady(server);
  expect(servers.map(appliedBy).filter(({ length }) => length > 0)).toEqual([all]);
  expect(await applied()).toEqual(all);
  // One of them made the first admin, and told its password.
  const told = servers.filter(({ program }) => program.stderr.includes('First start'));
  expect(told).toHaveLength(1);
});

it('killed at any statement of its start, it leaves what the next start finishes', async () => {
  const all = await migrationSource.getMigrations();
  const counting = { ...settings, NODE_OPTIONS: `--require ${JSON.stringify(preload)}` };
  const whole = await run(['migrate', 'up'], { ...counting, KILL_AT: '100000' });
  const statements = Number(/(\d+) statements/.exec(whole.stderr)?.[1]);
  expect(statements).toBeGreaterThan(50);

  let unfinished = 0;
  for (let kill = 0; kill < KILLS; kill += 1) {
    await empty.renew();
    const killAt = 1 + Math.floor(((kill + Math.random()) * statements) / KILLS);
    const killed = await run(['migrate', 'up'], { ...counting, KILL_AT: String(killAt) });
    expect(killed.signal).toBe('SIGKILL');
    if ((await applied()).length < all.length) unfinished += 1;

    const next = await run(['migrate', 'up'], settings);
    expect([killAt, next.code, next.stderr]).toEqual([killAt, 0, '']);
    expect(await applied()).toEqual(all);
  }
  expect(unfinished).toBeGreaterThan(KILLS / 2);
  await expectReady(await serve(settings));
});

it('a database that a newer version migrated stops the start with one line', async () => {
  expect((await run(['migrate', 'up'], settings)).code).toBe(0);
  const database = openDatabase({ url: empty.url, dataDir: empty.dataDir });
  await database.write(({ trx }) =>
    trx('knex_migrations').insert({ name: '9999-from-the-future', batch: 9, migration_time: new Date(0) }),
  );
  await database.close();
  for (const command of [['serve'], ['migrate', 'up']]) {
    const { code, stdout, stderr } = await run(command, settings);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(
      /^cmbuyer: the database was migrated by a newer version \(9999-from-the-future\).*\n$/,
    );
  }
});

describe('while something else holds on to the database', () => {
  if (process.env.TEST_DATABASE_URL) {
    it('a process killed in the middle of a migration is followed by the next start', async () => {
      const all = await migrationSource.getMigrations();
      const other = new Client({ connectionString: empty.url });
      await other.connect();
      // A migration waits for this name, when the one before it has made its tables.
      await other.query('begin');
      await other.query('create table tasks (id integer)');
      const killed = new Program(['migrate', 'up'], settings);
      await untilWaiting('relation|transactionid');
      killed.kill('SIGKILL');
      expect((await killed.ended).signal).toBe('SIGKILL');
      expect(await applied()).toEqual([]);

      // Its session is still there and still holds what it held; the next start waits for it.
      const next = serve(settings);
      await untilWaiting('advisory');
      await other.query('rollback');
      await other.end();
      await expectReady(await next);
      expect(await applied()).toEqual(all);
    });
  } else {
    it('a start waits for a writer of another process, on an empty file and on a full one', async () => {
      for (const fill of [false, true]) {
        if (fill) await expectReady(await serve(settings));
        mkdirSync(empty.dataDir, { recursive: true });
        const other = new BetterSqlite(path.join(empty.dataDir, 'cmbuyer.sqlite'));
        other.pragma('journal_mode = WAL');
        other.exec('begin immediate');
        const starting = serve(settings);
        await untilMigrating();
        await sleep(500);
        other.exec('commit');
        other.close();
        await expectReady(await starting);
      }
    });
  }
});

/** Until a session of this database waits for a lock of that kind; a transaction would always see what it saw first. */
async function untilWaiting(kind: string): Promise<void> {
  const watcher = new Client({ connectionString: empty.url });
  await watcher.connect();
  for (;;) {
    const { rows } = await watcher.query(
      `select 1 from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock' and wait_event ~ $1`,
      [kind],
    );
    if (rows.length > 0) break;
    await sleep(5);
  }
  await watcher.end();
}

/** Until some process holds the file whose lock says that it migrates. */
async function untilMigrating(): Promise<void> {
  const lock = path.join(empty.dataDir, 'migration.lock');
  for (;;) {
    if (existsSync(lock) && isHeld(lock)) return;
    await sleep(5);
  }
}

function isHeld(file: string): boolean {
  const probe = new BetterSqlite(file, { timeout: 0, readonly: true });
  try {
    probe.prepare('select count(*) from sqlite_master').get();
    return false;
  } catch {
    return true;
  } finally {
    probe.close();
  }
}
