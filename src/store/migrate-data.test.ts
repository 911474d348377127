import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import BetterSqlite from 'better-sqlite3';
import { ConfigError } from '../config';
import { allFacts } from '../testing/all-facts';
import { makeEveryFact } from '../testing/every-fact';
import { expectInvariants } from '../testing/invariants';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { openPurchase, Purchase } from '../testing/purchase';
import { checkDatabase, describeReport } from './check-facts';
import { type Database, openDatabase } from './database';
import { describeCopy, migrateData } from './migrate-data';

const SERVER = process.env.TEST_DATABASE_URL;

let folder: string;
/** An SQLite file in which every table is filled; tests take copies of it. */
let full: string;
/** The people in it, to go on with them elsewhere. */
let people: Pick<Purchase, 'admin' | 'phone' | 'timings'>;
let copies = 0;

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'cmbuyer-test-'));
  full = path.join(folder, 'full.sqlite');
  delete process.env.TEST_DATABASE_URL;
  const purchase = await openPurchase();
  await makeEveryFact(purchase);
  await purchase.database.read.knex.raw(`vacuum into '${full}'`);
  people = purchase;
  await purchase.close();
  if (SERVER !== undefined) process.env.TEST_DATABASE_URL = SERVER;
  bend(full, 'pragma journal_mode = wal');
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A data directory of its own, with the full database as somebody changed it by hand. */
function dataDirWith(...changes: string[]): string {
  copies += 1;
  const dataDir = mkdtempSync(path.join(folder, `data-${copies}-`));
  const file = path.join(dataDir, 'cmbuyer.sqlite');
  copyFileSync(full, file);
  bend(file, ...changes);
  return dataDir;
}

function bend(file: string, ...changes: string[]): void {
  const raw = new BetterSqlite(file);
  raw.pragma('foreign_keys = off');
  raw.pragma('ignore_check_constraints = on');
  for (const change of changes) raw.exec(change);
  raw.close();
}

async function factsIn(dataDir: string): Promise<string> {
  const database = openDatabase({ dataDir });
  try {
    return await allFacts(database);
  } finally {
    await database.close();
  }
}

const digestOf = (file: string) => createHash('sha256').update(readFileSync(file)).digest('hex');

describe('migrateData', () => {
  it('refuses a target that is not PostgreSQL', async () => {
    const target = openDatabase({ dataDir: dataDirWith() });
    await expect(migrateData(full, target)).rejects.toThrow(/^CMBUYER_DATABASE_URL must name the PostgreSQL/);
    await target.close();
  });
});

/** There is a PostgreSQL to copy into when the suite runs on that engine. */
function describeCopying(): void {
  let opened: TestDatabase;
  let target: Database;

  beforeEach(async () => {
    opened = await openTestDatabase();
    target = opened.database;
  });
  afterEach(() => opened.close());

  /** One line, for people, and nothing in the target. */
  async function expectRefused(from: string, message: RegExp): Promise<void> {
    const before = await allFacts(target);
    const refused = await migrateData(from, target).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(ConfigError);
    expect((refused as ConfigError).message).toMatch(message);
    expect((refused as ConfigError).message).not.toContain('\n');
    expect(await allFacts(target)).toBe(before);
  }

  it('brings every row of every table over, as the program reads it', async () => {
    const dataDir = dataDirWith();
    const before = digestOf(path.join(dataDir, 'cmbuyer.sqlite'));

    const copied = await migrateData(dataDir, target);

    expect(copied.filter(({ rows }) => rows === 0)).toEqual([]);
    expect(copied).toHaveLength(19);
    expect(digestOf(path.join(dataDir, 'cmbuyer.sqlite'))).toBe(before);
    expect(await allFacts(target)).toBe(await factsIn(dataDir));
    expect(describeReport(await checkDatabase(target))).toEqual([
      `${copied.reduce((sum, { rows }) => sum + rows, 0)} facts checked, nothing wrong`,
    ]);
  });

  it('lets the same people go on, with numbers that continue', async () => {
    const dataDir = dataDirWith('delete from progress_events');
    await migrateData(dataDir, target);
    const { admin, phone, timings } = people;
    opened.clock.set('2026-03-02T09:00:00.000Z');
    const purchase = new Purchase(target, opened.clock, admin, phone, timings, opened);

    const last = (await purchase.rows('task_events')).reduce((most, { seq }) => Math.max(most, seq), 0);
    const ordered = await purchase.claim().then((claimed) => purchase.start(claimed));
    const events = await purchase.events(ordered.task_id);

    expect(events.slice(-2).map(({ seq }) => seq)).toEqual([last + 1, last + 2]);
    const { rows } = await target.read.knex.raw('select last_value, is_called from progress_events_seq_seq');
    expect(rows).toEqual([{ last_value: 2, is_called: false }]);
    await expectInvariants(target);
  });

  it('brings over what needs many batches, and tasks that refer to later ones', async () => {
    const dataDir = dataDirWith(
      `with recursive n (i) as (values (1) union all select i + 1 from n where i < 1501)
       insert into audit_events (id, occurred_at, actor_type, action, target_type, target_id, detail)
       select printf('01900000-0000-7000-8000-%012d', i), '2026-03-02T08:00:00.000Z', 'SYSTEM', 'a', 'USER', i, '{"a":"\\u00e9"}' from n`,
      'update tasks set duplicated_from = (select max(id) from tasks) where id = (select min(id) from tasks)',
    );
    await migrateData(dataDir, target);
    expect(await allFacts(target)).toBe(await factsIn(dataDir));
  });

  it('is a command that prints what it copied', async () => {
    const { connectionString } = target.read.knex.client.config.connection;
    const dataDir = dataDirWith();
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ['--import', 'tsx', path.join(__dirname, '..', 'main.ts'), 'migrate-data', '--from', dataDir],
      {
        encoding: 'utf8',
        env: { ...process.env, CMBUYER_DATABASE_URL: connectionString, CMBUYER_DATA_DIR: dataDir },
      },
    );
    expect([status, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^tasks +16$/m);
    expect(stdout).toMatch(/^\d+ rows copied; counts, references and digests agree$/m);
    expect(stdout).toContain(`stay where they are, in ${dataDir}/images`);
    expect(await allFacts(target)).toBe(await factsIn(dataDir));
  });

  it('takes an empty database, with nothing to number', async () => {
    const dataDir = mkdtempSync(path.join(folder, 'empty-'));
    const source = openDatabase({ dataDir });
    await source.migrateUp();
    await source.close();
    const copied = await migrateData(dataDir, target);
    expect(copied.map(({ rows }) => rows)).toEqual(copied.map(() => 0));
  });

  it('takes what a killed server left in its write-ahead log', async () => {
    const dataDir = dataDirWith();
    const file = path.join(dataDir, 'cmbuyer.sqlite');
    const server = new BetterSqlite(file);
    server.exec(`update users set display_name = 'from the log'`);
    const left = mkdtempSync(path.join(folder, 'killed-'));
    for (const end of ['', '-wal']) copyFileSync(file + end, path.join(left, `cmbuyer.sqlite${end}`));
    server.close();

    await migrateData(left, target);
    expect(await target.read.knex('users').distinct('display_name')).toEqual([
      { display_name: 'from the log' },
    ]);
  });

  it('refuses the second time, and changes nothing', async () => {
    const dataDir = dataDirWith();
    await migrateData(dataDir, target);
    await expectRefused(dataDir, /^the target is not empty \(it has \w+\); give a new database/);
  });

  it('lets one of two at once win', async () => {
    const both = [migrateData(dataDirWith(), target), migrateData(dataDirWith(), opened.openAnother())];
    const outcomes = await Promise.allSettled(both);
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    const [lost] = outcomes.filter((outcome) => outcome.status === 'rejected');
    expect(lost!.reason.message).toMatch(/^the target is (not empty|in use)/);
    expect(await allFacts(target)).toBe(await factsIn(dataDirWith()));
  });

  it('refuses a target without tables, or with other ones', async () => {
    await target.migrateDown();
    await expectRefused(full, /^the source is migrated to 0002-\S+, the target to 0001-/);
    while ((await target.migrateDown()).length > 0);
    await expectRefused(full, /^the target has no tables yet; run "cmbuyer migrate up"/);
  });

  it('refuses a source that is not there, is no database, or is none of ours', async () => {
    await expectRefused(path.join(folder, 'nowhere'), /^--from: there is no \S+nowhere$/);
    const text = path.join(folder, 'text.sqlite');
    writeFileSync(text, 'buy earphones\n'.repeat(100));
    await expectRefused(text, /^--from: \S+text\.sqlite cannot be opened and locked \(SQLITE_NOTADB\)$/);
    const other = path.join(folder, 'other.sqlite');
    bend(other, 'create table t (x)');
    await expectRefused(other, /^--from: this is no cmbuyer database$/);
  });

  it('refuses a source that a server has open, even an idle one', async () => {
    const dataDir = dataDirWith();
    const server = openDatabase({ dataDir });
    await server.migrateUp();
    await expectRefused(dataDir, /^--from: \S+ is in use; stop the server/);
    await server.close();
    await migrateData(dataDir, target);
  });

  it('keeps every server off the source while it copies', async () => {
    const dataDir = dataDirWith();
    const raw = new BetterSqlite(path.join(dataDir, 'cmbuyer.sqlite'), { timeout: 0 });
    const isLocked = () => {
      try {
        raw.prepare('select 1 from users').get();
        return false;
      } catch (error) {
        return (error as { code: string }).code === 'SQLITE_BUSY';
      }
    };
    let copying: Promise<unknown> | undefined;
    await opened.openAnother().write(async ({ trx }) => {
      await trx('users').select('id');
      copying = migrateData(dataDir, target);
      while (!isLocked()) await sleep(5);
    });
    await copying;
    expect(isLocked()).toBe(false);
    raw.close();
  });

  it.each<[string, string, RegExp]>([
    [
      'a reference to nothing',
      `update tasks set created_by = '01900000-0000-7000-8000-000000000000' where status = 'DRAFT'`,
      /^tasks: the target refuses a row \(23503\); nothing was copied, run "cmbuyer check"/,
    ],
    ['a number that is none', 'update images set width = 1.5', /^images: the target refuses a row \(22P02\)/],
    [
      'an instant in another spelling',
      `update users set created_at = '2026-03-02 08:00:00Z' where username = 'boss'`,
      /^users: what arrived differs from what was sent; nothing was copied/,
    ],
    [
      'a truth that is neither',
      'update devices set pinduoduo_installed = 2',
      /^--from: devices.pinduoduo_installed holds something other than 0 and 1/,
    ],
    [
      'a column of its own',
      'alter table users add column nickname text',
      /^the table users has other columns in the source than in the target$/,
    ],
  ])('refuses %s and leaves the target empty', async (_what, change, message) => {
    await expectRefused(dataDirWith(change), message);
    expect(await allFacts(target)).toBe('');
    await migrateData(dataDirWith(), target);
  });
}
if (SERVER !== undefined) describe('migrateData into PostgreSQL', describeCopying);

describe('cmbuyer migrate-data', () => {
  it('says in one line what it lacks, and ends with 1', () => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ['--import', 'tsx', path.join(__dirname, '..', 'main.ts'), 'migrate-data', '--from', full],
      {
        encoding: 'utf8',
        env: { ...process.env, CMBUYER_DATABASE_URL: '', CMBUYER_DATA_DIR: dataDirWith() },
      },
    );
    expect([status, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(
      /^cmbuyer: CMBUYER_DATABASE_URL must name the PostgreSQL database to fill[^\n]*\n$/,
    );
  });
});

describe('describeCopy', () => {
  const copied = [
    { name: 'images', rows: 2 },
    { name: 'tasks', rows: 1200 },
  ];

  it('counts, and says what to do with the pictures and the old file', () => {
    expect(describeCopy(copied, '/old/cmbuyer.sqlite', { dataDir: '/new' })).toEqual([
      'images          2',
      'tasks        1200',
      '1202 rows copied; counts, references and digests agree',
      'Now copy the 2 pictures, which are files: cp -a /old/images/. /new/images/',
      'Set /old/cmbuyer.sqlite aside, so that no server starts on it by mistake; keep it until you are sure.',
    ]);
  });

  it.each<[string, { dataDir: string; bucket?: string }, string]>([
    ['the directory stays', { dataDir: '/old' }, 'The 2 pictures stay where they are, in /old/images.'],
    [
      'they are kept in a bucket',
      { dataDir: '/old', bucket: 'shop' },
      'The 2 pictures must be in the bucket shop: copy /old/images there, unless they were there before.',
    ],
  ])('where %s', (_what, pictures, line) => {
    expect(describeCopy(copied, '/old/cmbuyer.sqlite', pictures)).toContain(line);
  });

  it('where there are none', () => {
    const none = [{ name: 'images', rows: 0 }];
    expect(describeCopy(none, '/old/cmbuyer.sqlite', { dataDir: '/new' })).toContain(
      'There are no pictures.',
    );
  });
});
