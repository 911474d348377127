import { tmpdir } from 'node:os';
import { Client } from 'pg';
import { CHECK_PATIENCE_MS } from '../../src/store/check-facts';
import { type Database, openDatabase, type Work } from '../../src/store/database';
import { isTransient } from '../../src/store/outages';
import { insertUser } from '../../src/store/users';
import { openTestDatabase, type TestDatabase } from '../../src/testing/open-test-database';
import { type PostgresServer, startPostgres } from '../../src/testing/postgres-server';

/** A server that stops answering in the middle of a transaction: its sessions are stopped by hand. */
jest.setTimeout(60_000);

let server: PostgresServer;
let opened: TestDatabase;
let database: Database;
let onlooker: Client;
const given = process.env.TEST_DATABASE_URL;

beforeAll(async () => {
  server = await startPostgres();
  process.env.TEST_DATABASE_URL = server.url;
});
afterAll(async () => {
  if (given === undefined) delete process.env.TEST_DATABASE_URL;
  else process.env.TEST_DATABASE_URL = given;
  await server.stop();
});

beforeEach(async () => {
  opened = await openTestDatabase();
  database = openDatabase({ url: opened.url, dataDir: tmpdir(), silenceMs: 300, busyWaitMs: 0 });
  onlooker = new Client({ connectionString: opened.url });
  await onlooker.connect();
});
afterEach(async () => {
  // A stopped session would keep its database from being dropped.
  speakAgain();
  await onlooker.end();
  await database.close();
  await opened.close();
});

const stopped: number[] = [];

function silence(pid: number): void {
  process.kill(pid, 'SIGSTOP');
  stopped.push(pid);
}

function speakAgain(): void {
  for (const pid of stopped.splice(0)) process.kill(pid, 'SIGCONT');
}

const addUser = (username: string) => (work: Work) =>
  insertUser(work, { username, role: 'BUYER', password_hash: 'none' });

async function names(): Promise<string[]> {
  const { rows } = await onlooker.query('select username from users order by username');
  return rows.map(({ username }) => username);
}

async function sessionOf(work: Work): Promise<number> {
  const { rows } = await work.trx.raw('select pg_backend_pid() as pid');
  return rows[0].pid;
}

it('what a verb wrote before its session fell silent is never committed by a later one', async () => {
  const silenced = database.write(async (work) => {
    await addUser('half-done')(work);
    silence(await sessionOf(work));
    await addUser('never-written')(work);
  });
  await expect(silenced).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
  speakAgain();
  for (let write = 0; write < 12; write += 1) await database.write(addUser(`later-${write}`));
  expect((await names()).filter((name) => !name.startsWith('later-'))).toEqual([]);
});

it('a read whose session fell silent fails like any other outage, and the next one works', async () => {
  const silenced = database.snapshot(async ({ knex }) => {
    silence((await knex.raw('select pg_backend_pid() as pid')).rows[0].pid);
    return knex('users').select('id');
  });
  expect(isTransient(await silenced.catch((error: unknown) => error))).toBe(true);
  expect(await database.read.knex('users').pluck('username')).toEqual([]);
});

it('a session that is idle for longer than that is kept', async () => {
  const pid = await database.write(sessionOf);
  await new Promise((passed) => setTimeout(passed, 1_000));
  expect(await database.write(sessionOf)).toBe(pid);
});

it('sessions are bounded: a lock, a statement, an idle transaction; and they count in UTC', async () => {
  const shown = async (name: string) =>
    Object.values((await database.read.knex.raw(`show ${name}`)).rows[0])[0];
  expect(await shown('lock_timeout')).toBe('5s');
  expect(await shown('statement_timeout')).toBe('15s');
  expect(await shown('idle_in_transaction_session_timeout')).toBe('10s');
  expect(await shown('timezone')).toBe('UTC');
});

it('a verb that keeps its transaction open and idle loses it, and says so', async () => {
  await expect(
    database.write(async (work) => {
      await work.trx.raw('set local idle_in_transaction_session_timeout = 200');
      await addUser('idle')(work);
      while (
        ((await onlooker.query(`select 1 from pg_stat_activity where state = 'idle in transaction'`))
          .rowCount ?? 0) > 0
      );
      await addUser('too-late')(work);
    }),
  ).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
  expect(await names()).toEqual([]);
  await database.write(addUser('next'));
  expect(await names()).toEqual(['next']);
});

it('is told from a long look by how long the opener was ready to wait', async () => {
  const look = (through: Database) => through.snapshot(({ knex }) => knex.raw('select pg_sleep(0.6)'));
  await expect(look(database)).rejects.toThrow();
  const patient = openDatabase({ url: opened.url, dataDir: tmpdir(), silenceMs: CHECK_PATIENCE_MS });
  try {
    await look(patient);
  } finally {
    await patient.close();
  }
});
