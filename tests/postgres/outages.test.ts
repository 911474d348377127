import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { type PostgresServer, startPostgres } from '../../src/testing/postgres-server';
import {
  beat,
  beatTask,
  claim,
  fence,
  type Held,
  newAsk,
  OFFER,
  type Phone,
  report,
  Shop,
  start,
  WISH,
} from '../processes/shop';
import type { Answer, Wire } from '../processes/wire';

/**
 * Two server processes under load lose their database: sessions are killed, the server restarts, crashes or stops. What
 * was answered with a 2xx is in the database afterwards; everything else was a 503 that says when to come again.
 */
jest.setTimeout(240_000);

const KILLS = Number(process.env.OUTAGE_KILLS ?? 200);
const PHONES = 8;
const RECOVERS_WITHIN_MS = 10_000;
/** One process's pool, and the session that migrated. */
const SESSIONS_PER_PROCESS = 11;

let postgres: PostgresServer;
let folder: string;
let shop: Shop;
let wires: [Wire, Wire];
let onlooker: Client;
let load: Load;

beforeEach(async () => {
  postgres = await startPostgres();
  folder = mkdtempSync(path.join(tmpdir(), 'cmbuyer-outages-'));
  shop = await Shop.openOn(named('seeding'), folder);
  wires = await shop.serveTwo({ CMBUYER_DATABASE_URL: named('server') });
  onlooker = await look();
  load = new Load(await shop.seedPhones(PHONES));
});
afterEach(async () => {
  await onlooker.end();
  await shop.close();
  await postgres.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** The database under a name by which its sessions can be told apart. */
function named(name: string): string {
  return `${postgres.url}?application_name=${name}`;
}

async function look(): Promise<Client> {
  const client = new Client({ connectionString: named('onlooker') });
  // A lost session shows at its next query.
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** Something that a 2xx said, and how to find it in the database. */
interface Fact {
  sql: string;
  values: unknown[];
}

/** Phones and an admin that buy and buy, and never forget what they were told. */
class Load {
  readonly facts: Fact[] = [];
  readonly refused = new Map<Wire, number>();
  purchases = 0;
  private stopping = false;
  private readonly running: Promise<unknown>;

  constructor(phones: Phone[]) {
    this.running = Promise.all(phones.map((phone, index) => this.buy(phone, index)));
    this.running.catch(() => undefined);
  }

  async stop(): Promise<void> {
    this.stopping = true;
    await this.running;
  }

  /** How many purchases are complete; fails with what failed. */
  async untilPurchases(count: number): Promise<void> {
    while (this.purchases < count) await Promise.race([this.running, sleep(10)]);
  }

  async untilRefused(wire: Wire, count: number): Promise<void> {
    while ((this.refused.get(wire) ?? 0) < count) await Promise.race([this.running, sleep(10)]);
  }

  private async buy(phone: Phone, index: number): Promise<void> {
    for (let round = index; !this.stopping; round += 1) {
      const [here, there] = round % 2 === 0 ? wires : [wires[1], wires[0]];
      await this.startOne(here);
      await this.persist(
        there,
        () => beat(there, phone),
        ({ server_time }) =>
          fact(
            'select 1 from devices where device_id = $1 and last_heartbeat_at >= $2',
            phone.device_id,
            server_time,
          ),
      );

      const ask = newAsk();
      const claimed = await this.persist(
        here,
        () => claim(here, phone, ask),
        ({ task_id, claim_generation }) =>
          fact(
            'select 1 from claims where task_id = $1 and generation = $2 and device_id = $3',
            task_id,
            claim_generation,
            phone.device_id,
          ),
      );
      const { task_id, claim_generation, version } = claimed;
      const held: Held = { ...ask, phone, task_id, claim_generation, version };
      const key = newAsk().key;
      const started = await this.persist(
        there,
        () => start(there, held, key),
        ({ execution_id }) =>
          fact(`select 1 from attempts where task_id = $1 and execution_id = $2`, task_id, execution_id),
      );
      const running = { ...held, execution_id: started.execution_id, version: started.version };
      await this.persist(
        here,
        () => beatTask(here, running),
        ({ lease_expires_at }) =>
          fact(
            'select 1 from claims where task_id = $1 and lease_expires_at >= $2',
            task_id,
            lease_expires_at,
          ),
      );
      await this.persist(
        there,
        () => fence(there, running, key),
        ({ submission }) =>
          fact(
            'select 1 from order_submissions where task_id = $1 and id = $2 and total_cents = $3',
            task_id,
            submission.id,
            OFFER.total_cents,
          ),
      );
      const order_no = `P-${task_id}`;
      await this.persist(
        here,
        () => report(here, running, { outcome: 'ORDER_CREATED', order_no }, key),
        () =>
          fact(
            `select 1 from tasks join order_submissions on task_id = tasks.id where tasks.id = $1 and tasks.status = 'ORDERED' and order_no = $2`,
            task_id,
            order_no,
          ),
      );
      this.purchases += 1;
    }
  }

  /** An admin writes a wish and starts its purchase: there is always a task for whoever asks. */
  private async startOne(wire: Wire): Promise<void> {
    const { headers } = shop.admin;
    const { key } = newAsk();
    const created = await this.persist(
      wire,
      () => wire.send('/api/v1/admin/tasks', { headers: { ...headers, 'idempotency-key': key }, body: WISH }),
      ({ id }) => fact('select 1 from tasks join task_events on task_id = tasks.id where tasks.id = $1', id),
    );
    const pressed = () => fact(`select 1 from authorizations where task_id = $1`, created.id);
    let unsure = false;
    await this.persist(
      wire,
      async () => {
        const answer = await wire.send(`/api/v1/admin/tasks/${created.id}/start-purchase`, {
          headers,
          body: { expected_task_version: 1 },
        });
        // After a 503 it may have been started all the same, and be with a phone by now.
        if (unsure && answer.status === 409) return { ...answer, status: 200 };
        unsure ||= answer.status === 503;
        return answer;
      },
      pressed,
    );
  }

  /** The same request again and again until it is not a 503; its 2xx goes on record. */
  // biome-ignore lint/suspicious/noExplicitAny: the answer's body
  private async persist(wire: Wire, send: () => Promise<Answer>, factOf: (json: any) => Fact): Promise<any> {
    for (;;) {
      const { status, headers, json } = await send();
      if (status === 503) {
        if (!(Number(headers['retry-after']) >= 1)) throw new Error('a 503 without Retry-After');
        this.refused.set(wire, (this.refused.get(wire) ?? 0) + 1);
        await sleep(20);
        continue;
      }
      if (status !== 200 && status !== 201) {
        throw new Error(`${status} ${JSON.stringify(json)}\n${failuresOf()}`);
      }
      this.facts.push(factOf(json));
      return json;
    }
  }
}

function fact(sql: string, ...values: unknown[]): Fact {
  return { sql, values };
}

/** What the servers logged about answers that nobody should get. */
function failuresOf(): string {
  return shop.servers
    .flatMap(({ program }) => program.stdout.split('\n'))
    .filter((line) => line.includes('INTERNAL_ERROR'))
    .slice(-3)
    .join('\n');
}

/** Lines of the log that are no JSON: what reads it would stumble over them. */
function strayLines(): string[] {
  const lines = shop.servers.flatMap(({ program }) => program.stdout.split('\n'));
  return lines.filter((line) => line !== '' && !line.startsWith('{"')).slice(0, 3);
}

/** Every 2xx of the whole test, read again. */
async function expectNothingMissing(): Promise<void> {
  const client = await look();
  const missing: Fact[] = [];
  for (const one of load.facts)
    if ((await client.query(one.sql, one.values)).rowCount === 0) missing.push(one);
  await client.end();
  expect(missing).toEqual([]);
  expect(await shop.findings()).toEqual([]);
  expect(strayLines()).toEqual([]);
}

/** Both processes answer "ready" within the bound from now, by themselves. */
async function expectRecovery(): Promise<void> {
  const since = performance.now();
  for (const wire of wires) {
    while ((await wire.send('/readyz')).status !== 200) {
      if (performance.now() - since > RECOVERS_WITHIN_MS) throw new Error('not ready again in time');
      await sleep(50);
    }
  }
}

async function sessions(): Promise<number> {
  const { rows } = await onlooker.query(
    `select count(*)::int as open from pg_stat_activity where application_name = 'server'`,
  );
  return rows[0].open;
}

it('200 killed sessions in the middle of requests: nothing that was said is missing, and no connection leaks', async () => {
  await load.untilPurchases(PHONES);
  for (let killed = 0; killed < KILLS; ) {
    const { rows } = await onlooker.query(
      `select pg_terminate_backend(pid) from (select pid from pg_stat_activity
       where application_name = 'server' and state <> 'idle' order by random() limit 1) as victims`,
    );
    killed += rows.length;
    await sleep(5);
  }
  await expectRecovery();
  await load.untilPurchases(load.purchases + PHONES);
  await load.stop();

  // As many at once as would need every connection of a pool.
  const { headers } = shop.admin;
  for (const wire of wires) {
    const crowd = await Promise.all(
      Array.from({ length: 40 }, () => wire.send('/api/v1/admin/tasks', { headers })),
    );
    expect(crowd.map(({ status }) => status)).toEqual(Array(40).fill(200));
  }
  expect(await sessions()).toBeLessThanOrEqual(2 * SESSIONS_PER_PROCESS);
  await expectNothingMissing();
});

it.each([
  ['restarts', 'SIGINT'],
  ['crashes', 'SIGQUIT'],
] as const)('the database %s under load: both processes go on by themselves', async (_how, signal) => {
  await load.untilPurchases(PHONES);
  postgres.process.kill(signal);
  for (const wire of wires) await load.untilRefused(wire, 1);
  expect((await wires[0].send('/healthz')).status).toBe(200);
  await postgres.restart();
  await expectRecovery();
  await load.untilPurchases(load.purchases + PHONES);
  await load.stop();
  await expectNothingMissing();
});

it('the database stops answering for some seconds: waiting calls end well or with a 503', async () => {
  await load.untilPurchases(PHONES);
  const paused = await pause();
  // More than the connections that are there: some calls must ask for new ones, which nobody grants.
  const { headers } = shop.admin;
  const crowd = wires.flatMap((wire) =>
    Array.from({ length: 15 }, () => wire.send('/api/v1/admin/tasks', { headers })),
  );
  const first = await Promise.race(crowd);
  expect((await wires[0].send('/healthz')).status).toBe(200);
  paused.resume();
  await expectRecovery();
  const answers = [first, ...(await Promise.all(crowd))];
  expect(answers.filter(({ status }) => status !== 200 && status !== 503)).toEqual([]);
  expect(first.status).toBe(503);
  for (const { headers } of answers.filter(({ status }) => status === 503)) {
    expect(Number(headers['retry-after'])).toBeGreaterThanOrEqual(1);
  }
  await load.untilPurchases(load.purchases + PHONES);
  await load.stop();
  await expectNothingMissing();
});

/** Stops every process of the database server as it stands; nobody is told. */
async function pause(): Promise<{ resume(): void }> {
  const postmaster = postgres.process.pid as number;
  process.kill(postmaster, 'SIGSTOP');
  // No new session from here on; those that are there are stopped one by one, the one that tells comes last.
  const { rows } = await onlooker.query(
    'select pid, pid = pg_backend_pid() as mine from pg_stat_activity order by 2',
  );
  const stopped: number[] = [];
  for (const { pid } of rows) {
    process.kill(pid, 'SIGSTOP');
    stopped.push(pid);
  }
  return {
    resume() {
      for (const pid of [...stopped, postmaster]) process.kill(pid, 'SIGCONT');
    },
  };
}
