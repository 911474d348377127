import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import BetterSqlite from 'better-sqlite3';
import { v7 as uuidv7 } from 'uuid';
import { Refusal } from '../contract/errors';
import { allFacts } from '../testing/all-facts';
import { refusalOf } from '../testing/expect-refusal';
import { settableClock } from '../testing/settable-clock';
import { type Database, type DatabaseOptions, openDatabase, type Work } from './database';
import { findDevice, insertDevice, writeDeviceHeartbeat } from './devices';
import { param, statement } from './statements';
import { findUser, findUserByName, insertUser } from './users';

/** The SQLite engine's own promises; what holds on both engines is tested by the verbs on both. */

const clock = settableClock();
let dataDir: string;
let filename: string;
let database: Database;
const opened: { close(): unknown }[] = [];

function open(options: Partial<DatabaseOptions> = {}): Database {
  const another = openDatabase({ dataDir, clock, ...options });
  opened.push(another);
  return another;
}

/** Another process's connection to the same file. */
function openRaw(): BetterSqlite.Database {
  const raw = new BetterSqlite(filename, { timeout: 0 });
  opened.push(raw);
  return raw;
}

beforeEach(async () => {
  dataDir = mkdtempSync(path.join(tmpdir(), 'cmbuyer-test-'));
  filename = path.join(dataDir, 'cmbuyer.sqlite');
  database = open();
  await database.migrateUp();
});
afterEach(async () => {
  for (const one of opened.splice(0).reverse()) await one.close();
  rmSync(dataDir, { recursive: true, force: true });
});

const addUser = (username: string) => (work: Work) =>
  insertUser(work, { username, role: 'BUYER', password_hash: 'none' });
const names = (raw: BetterSqlite.Database) =>
  raw.prepare('select username from users order by 1').pluck().all();
const write = (username: string, through = database) => through.write(addUser(username));

const WAL_HEADER_BYTES = 32;
const WAL_FRAME_HEADER_BYTES = 24;

/** Counts the transactions in the write-ahead log: only a frame that ends one names the size of the database. */
function commits(): number {
  const wal = readFileSync(`${filename}-wal`);
  const pageBytes = wal.readUInt32BE(8);
  const salt = wal.subarray(16, 24);
  let count = 0;
  for (let at = WAL_HEADER_BYTES; at < wal.length; at += WAL_FRAME_HEADER_BYTES + pageBytes) {
    if (!wal.subarray(at + 8, at + 16).equals(salt)) break;
    if (wal.readUInt32BE(at + 4) !== 0) count += 1;
  }
  return count;
}

describe('write', () => {
  it('shares one commit among all writes that wait together', async () => {
    const before = commits();
    await Promise.all(Array.from({ length: 30 }, (_, index) => write(`user-${index}`)));
    expect(commits()).toBe(before + 1);
    expect(names(openRaw())).toHaveLength(30);
  });

  it('takes at most 64 writes into one commit', async () => {
    const before = commits();
    await Promise.all(Array.from({ length: 65 }, (_, index) => write(`user-${index}`)));
    expect(commits()).toBe(before + 2);
  });

  it('takes what came during a commit into the next one', async () => {
    const before = commits();
    const late: Promise<unknown>[] = [];
    await database.write(async (work) => {
      for (let index = 0; index < 5; index++) late.push(write(`late-${index}`));
      return addUser('early')(work);
    });
    await Promise.all(late);
    expect(commits()).toBe(before + 2);
  });

  it('runs verbs one after another, in the order in which they came', async () => {
    const log: string[] = [];
    await Promise.all(
      ['a', 'b', 'c'].map((name) =>
        database.write(async (work) => {
          log.push(`${name} begins`);
          await addUser(`user-${name}`)(work);
          await findUserByName(work, 'user-a');
          log.push(`${name} ends`);
        }),
      ),
    );
    expect(log).toEqual(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends']);
  });

  it('rolls back only what the refused verb wrote, and lets its neighbours stand', async () => {
    const results = await Promise.allSettled([
      write('before'),
      database.write(async (work) => {
        await addUser('refused-1')(work);
        await work
          .trx('users')
          .insert({ ...(await addUser('refused-2')(work))!, id: uuidv7(), username_key: 'x' });
        throw new Refusal('VERSION_CONFLICT');
      }),
      write('after'),
    ]);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect((results[1] as PromiseRejectedResult).reason).toMatchObject({ code: 'VERSION_CONFLICT' });
    expect(names(openRaw())).toEqual(['after', 'before']);
  });

  it('lets a failing statement fail its own verb only', async () => {
    await write('taken');
    const taken = await findUserByName(database.read, 'taken');
    const results = await Promise.allSettled([
      write('before'),
      database.write((work) => work.trx('users').insert({ ...taken, id: uuidv7() })),
      write('after'),
    ]);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(names(openRaw())).toEqual(['after', 'before', 'taken']);
  });

  it('answers only after the commit: not before another connection sees the fact', async () => {
    const other = openRaw();
    let seenInside: unknown[] | undefined;
    const seenOutside = await Promise.all(
      ['one', 'two', 'three'].map((name) =>
        database
          .write(async (work) => {
            await addUser(name)(work);
            seenInside = names(other);
          })
          .then(() => names(other)),
      ),
    );
    expect(seenInside).toEqual([]);
    for (const seen of seenOutside) expect(seen).toEqual(['one', 'three', 'two']);
  });

  it('fails every verb of a commit that fails, keeps nothing of them, and works on', async () => {
    const results = await Promise.allSettled([
      write('first'),
      database.write(async (work) => {
        // A violation that shows at the commit only.
        await work.trx.raw('pragma defer_foreign_keys = on');
        await insertDevice(work, { device_id: 'phone-0001', label: 'Phone', user_id: uuidv7() });
      }),
      write('third'),
    ]);
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(names(openRaw())).toEqual([]);

    await write('later');
    expect(names(openRaw())).toEqual(['later']);
    expect(openRaw().prepare('select count(*) from devices').pluck().get()).toBe(0);
  });

  it('gives each verb the instant at which it runs', async () => {
    const instants = await Promise.all([
      database.write(async ({ now }) => {
        clock.advance(1);
        return now;
      }),
      database.write(async ({ now }) => now),
    ]);
    expect(Date.parse(instants[1]) - Date.parse(instants[0])).toBe(1);
  });

  it('refuses SERVICE_UNAVAILABLE at once when too many writes wait already', async () => {
    const results = await Promise.allSettled(
      Array.from({ length: 2_050 }, () => database.write(async () => undefined)),
    );
    const refused = results.filter(({ status }) => status === 'rejected') as PromiseRejectedResult[];
    expect(refused).toHaveLength(2);
    for (const { reason } of refused) {
      expect(reason).toMatchObject({ code: 'SERVICE_UNAVAILABLE', extra: { retryAfterSeconds: 1 } });
    }
  });

  it('finishes the writes that wait before it closes', async () => {
    const closing = open();
    const pending = Promise.all([write('one', closing), write('two', closing)]);
    await Promise.all([closing.close(), pending]);
    expect(names(openRaw())).toEqual(['one', 'two']);
  });
});

describe('a write lock held by another process', () => {
  it('is waited for without blocking the event loop', async () => {
    const other = openRaw();
    other.exec('begin immediate');
    other
      .prepare(
        `insert into users (id, username, username_key, role, status, password_hash, created_at, updated_at)
         values (?, 'theirs', 'theirs', 'BUYER', 'ACTIVE', 'none', ?, ?)`,
      )
      .run(uuidv7(), clock.now(), clock.now());

    let answered = false;
    const waiting = write('ours').then(() => {
      answered = true;
    });
    for (let turn = 0; turn < 200; turn++) {
      await nextTurn();
      if (turn % 50 === 0) await findUserByName(database.read, 'anyone');
    }
    expect(answered).toBe(false);

    other.exec('commit');
    await waiting;
    expect(names(other)).toEqual(['ours', 'theirs']);
  });

  it('runs no verb before it is free, and each verb once', async () => {
    const other = openRaw();
    other.exec('begin immediate');
    let runs = 0;
    const waiting = database.write(async () => {
      runs += 1;
    });
    for (let turn = 0; turn < 200; turn++) await nextTurn();
    expect(runs).toBe(0);
    other.exec('rollback');
    await waiting;
    expect(runs).toBe(1);
  });

  it('is refused SERVICE_UNAVAILABLE past the bound, with nothing changed, and the next write works', async () => {
    const impatient = open({ busyWaitMs: 0 });
    const other = openRaw();
    const before = await allFacts(database);
    other.exec('begin immediate');
    const refusals = await Promise.all([
      refusalOf(write('one', impatient)),
      refusalOf(write('two', impatient)),
    ]);
    for (const refusal of refusals) {
      expect(refusal).toMatchObject({ code: 'SERVICE_UNAVAILABLE', extra: { retryAfterSeconds: 1 } });
    }
    other.exec('rollback');
    expect(await allFacts(database)).toBe(before);

    await write('three', impatient);
    expect(names(other)).toEqual(['three']);
  });

  it('does not keep anybody from reading', async () => {
    await write('known');
    const other = openRaw();
    other.exec('begin immediate');
    expect((await findUserByName(database.read, 'known'))?.username).toBe('known');
    expect(await database.read.knex('users').pluck('username')).toEqual(['known']);
    expect(await database.snapshot((reader) => reader.knex('users').pluck('username'))).toEqual(['known']);
    other.exec('rollback');
  });
});

describe('connections', () => {
  const pragma = (work: Work, name: string) =>
    (work.trx.raw(`pragma ${name}`) as unknown as Promise<Record<string, unknown>[]>).then(
      (rows) => Object.values(rows[0]!)[0],
    );

  it('write with synchronous=FULL, WAL and foreign keys, from the first write on', async () => {
    const fresh = open();
    for (let turn = 0; turn < 2; turn++) {
      const settings = await fresh.write((work) =>
        Promise.all(
          ['synchronous', 'journal_mode', 'foreign_keys', 'busy_timeout'].map((name) => pragma(work, name)),
        ),
      );
      expect(settings).toEqual([2, 'wal', 1, 0]);
    }
  });

  it('refuse a row whose parent does not exist', async () => {
    await expect(
      database.write((work) =>
        insertDevice(work, { device_id: 'phone-0001', label: 'x', user_id: uuidv7() }),
      ),
    ).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT_FOREIGNKEY' });
  });

  it('read without any means to write, and without blocking for long', async () => {
    await expect(database.read.knex('users').delete()).rejects.toMatchObject({ code: 'SQLITE_READONLY' });
    const remove = statement<object>('test_delete_users', (knex) => knex('users').delete());
    await expect(remove.run(database.read, {})).rejects.toMatchObject({ code: 'SQLITE_READONLY' });
    const [prepared] = await database.read.connection.rows('test_busy_timeout', 'pragma busy_timeout', []);
    expect(prepared).toEqual({ timeout: 50 });
    expect(await database.read.knex.raw('pragma busy_timeout')).toEqual([{ timeout: 50 }]);
  });
});

describe('snapshot', () => {
  it('shows one state, whatever is committed meanwhile, by builder and by statement', async () => {
    await write('first');
    const seen = await database.snapshot(async (reader) => {
      const before = await reader.knex('users').pluck('username');
      await write('second');
      const byBuilder = await reader.knex('users').pluck('username');
      const byStatement = await findUserByName(reader, 'second');
      return [before, byBuilder, byStatement];
    });
    expect(seen).toEqual([['first'], ['first'], undefined]);
    expect(await database.read.knex('users').pluck('username')).toEqual(['first', 'second']);
  });

  it('may be held by several readers at once', async () => {
    await write('first');
    const seen = await Promise.all(
      Array.from({ length: 12 }, () => database.snapshot((reader) => reader.knex('users').pluck('username'))),
    );
    expect(seen).toEqual(Array(12).fill(['first']));
  });
});

describe('values', () => {
  async function addDevice(): Promise<void> {
    await database.write(async (work) => {
      const user = (await addUser('buyer')(work))!;
      const device = (await insertDevice(work, {
        device_id: 'phone-0001',
        label: 'Phone',
        user_id: user.id,
      }))!;
      await writeDeviceHeartbeat(work, device, {
        app_version: '1',
        android_version: '14',
        accessibility_connected: true,
        pinduoduo_installed: false,
      });
    });
  }

  it('are booleans again from statements, from the builder and inside a transaction', async () => {
    await addDevice();
    const expected = { accessibility_connected: true, pinduoduo_installed: false };
    expect(await findDevice(database.read, 'phone-0001')).toMatchObject(expected);
    expect(await database.read.knex('devices').first()).toMatchObject(expected);
    expect(await database.read.knex('devices').select('*')).toMatchObject([expected]);
    await database.write(async (work) => {
      expect(await findDevice(work, 'phone-0001')).toMatchObject(expected);
      expect(await work.trx('devices').first()).toMatchObject(expected);
    });
    expect(openRaw().prepare('select accessibility_connected as it from devices').get()).toEqual({ it: 1 });
  });

  it('stay null where a boolean is not known', async () => {
    await addDevice();
    await database.write((work) => work.trx('devices').update({ accessibility_connected: null }));
    expect((await findDevice(database.read, 'phone-0001'))?.accessibility_connected).toBeNull();
    expect((await database.read.knex('devices').first()).accessibility_connected).toBeNull();
  });

  it('are instants of 24 characters, in the file and in every row', async () => {
    await addDevice();
    const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
    const device = await findDevice(database.read, 'phone-0001');
    for (const value of [device?.created_at, device?.last_heartbeat_at]) expect(value).toMatch(instant);
    expect(openRaw().prepare('select typeof(created_at) as type from devices').get()).toEqual({
      type: 'text',
    });
  });

  it('never show in an error, neither from a statement nor from the builder', async () => {
    await write('taken');
    const taken = (await findUserByName(database.read, 'taken'))!;
    const secret = 'a-secret-nobody-may-read';
    const row = { ...taken, id: uuidv7(), password_hash: secret };
    const insert = statement<object>('test_insert_user', (knex) =>
      knex('users').insert(
        Object.fromEntries(Object.keys(taken).map((column) => [column, param(column)])) as object,
      ),
    );
    const errors = await Promise.all([
      database.write((work) => insert.run(work, row)).catch((error: unknown) => error),
      database.write((work) => work.trx('users').insert(row)).catch((error: unknown) => error),
      database.read
        .knex('no_such_table')
        .where('secret', secret)
        .catch((error: unknown) => error),
    ]);
    for (const error of errors) {
      // The driver makes its errors in whichever test loaded it first, so instanceof says nothing here.
      expect(error).toHaveProperty('message', expect.any(String));
      const { message, stack, ...rest } = error as Error;
      expect(`${message} ${stack} ${JSON.stringify(rest)}`).not.toContain(secret);
    }
  });

  it('treat text as text: nothing that a person types becomes SQL', async () => {
    const username = `x'); drop table users; --`;
    const user = (await write(username))!;
    expect((await findUser(database.read, user.id))?.username).toBe(username);
  });
});

describe('migrations', () => {
  it('are applied once and named in order', async () => {
    expect(await database.migrateUp()).toEqual([]);
    const { done, pending } = await database.migrationStatus();
    expect(done).toEqual([...done].sort());
    expect(pending).toEqual([]);
  });
});
