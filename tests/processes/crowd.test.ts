import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import BetterSqlite from 'better-sqlite3';
import { Client } from 'pg';
import { makeUser, PASSWORD } from '../../src/testing/people-and-devices';
import {
  beat,
  beatTask,
  claim,
  fence,
  type Held,
  insist,
  newAsk,
  type Phone,
  report,
  Shop,
  start,
  WISH,
} from './shop';
import { type Answer, verdictOf, type Wire } from './wire';

/** A whole shop floor on two processes, while a third program takes the database for itself now and then. */
jest.setTimeout(240_000);

const PHONES = 20;
const PURCHASES_EACH = 7;
const HOLDS = 3;
/** As long as a backup or a report may keep everybody from writing; servers wait longer than that. */
const HOLD_MS = 1_000;

let shop: Shop;
let wires: [Wire, Wire];

beforeAll(async () => {
  shop = await Shop.open();
  wires = await shop.serveTwo();
});
afterAll(() => shop.close());
afterEach(async () => {
  expect(await shop.findings()).toEqual([]);
});

/** The write lock of the whole database, or on PostgreSQL of what every move writes to; given back by the function that it returns. */
async function takeTheDatabase(): Promise<() => Promise<void>> {
  const { CMBUYER_DATABASE_URL: url, CMBUYER_DATA_DIR: dataDir } = shop.settings;
  if (url) {
    const client = new Client({ connectionString: url });
    await client.connect();
    await client.query('begin');
    await client.query('lock table task_events in exclusive mode');
    return async () => {
      await client.query('commit');
      await client.end();
    };
  }
  const raw = new BetterSqlite(path.join(dataDir as string, 'cmbuyer.sqlite'), { timeout: 0 });
  for (;;) {
    try {
      raw.exec('begin immediate');
      break;
    } catch {
      await sleep(1);
    }
  }
  return async () => {
    raw.exec('commit');
    raw.close();
  };
}

/** One purchase from the wish to the order number: eight calls, now through one process, now through the other. */
async function buy(phone: Phone, [here, there]: [Wire, Wire]): Promise<string> {
  const { headers } = shop.admin;
  const { key } = newAsk();
  const ok = async (send: () => Promise<Answer>) => {
    const answer = await insist(send);
    if (answer.status > 201) throw new Error(`${answer.status} ${JSON.stringify(answer.json)}`);
    return answer.json;
  };
  const created = await ok(() =>
    here.send('/api/v1/admin/tasks', { headers: { ...headers, 'idempotency-key': key }, body: WISH }),
  );
  await ok(() =>
    here.send(`/api/v1/admin/tasks/${created.id}/start-purchase`, {
      headers,
      body: { expected_task_version: 1 },
    }),
  );
  await ok(() => beat(there, phone));
  const ask = newAsk();
  const { task_id, claim_generation, version } = await ok(() => claim(there, phone, ask));
  const held: Held = { ...ask, phone, task_id, claim_generation, version };
  const started = await ok(() => start(here, held, key));
  const running = { ...held, execution_id: started.execution_id, version: started.version };
  await ok(() => beatTask(there, running));
  await ok(() => fence(here, running, key));
  const done = await ok(() => report(there, running, { outcome: 'ORDER_CREATED', order_no: task_id }, key));
  expect([done.status, done.version]).toEqual(['ORDERED', 6]);
  return task_id;
}

it('20 phones and their admin buy 140 times through two processes while a third one takes the database', async () => {
  const phones = await shop.seedPhones(PHONES);
  const buying = Promise.all(
    phones.map(async (phone, index) => {
      const bought: string[] = [];
      while (bought.length < PURCHASES_EACH) {
        const turn = (index + bought.length) % 2 === 0;
        bought.push(await buy(phone, turn ? wires : [wires[1], wires[0]]));
      }
      return bought;
    }),
  );
  for (let hold = 0; hold < HOLDS; hold += 1) {
    const giveBack = await takeTheDatabase();
    // Whoever only looks waits for no writer.
    for (const wire of wires) {
      for (const target of ['/healthz', '/readyz', '/admin/login', '/api/v1/admin/tasks']) {
        const headers = target === '/api/v1/admin/tasks' ? shop.admin.headers : {};
        const { status } = await wire.send(target, { headers });
        expect([target, status]).toEqual([target, 200]);
      }
    }
    await sleep(HOLD_MS);
    await giveBack();
  }
  const bought = (await buying).flat();
  expect(new Set(bought).size).toBe(PHONES * PURCHASES_EACH);
  expect(await shop.rows('tasks', { status: 'ORDERED' })).toHaveLength(PHONES * PURCHASES_EACH);
});

it('parallel guesses through two processes share one limit, which a third process knows too', async () => {
  await makeUser(shop.database, 'guessed', 'ADMIN');
  await makeUser(shop.database, 'another', 'ADMIN');
  const login = (wire: Wire, username: string, password: string) =>
    insist(() => wire.send('/api/v1/admin/login', { body: { username, password } }));
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, index) =>
      login(wires[index % 2] as Wire, 'guessed', `wrong password ${index}`),
    ),
  );
  const verdicts = answers.map(verdictOf).sort();
  expect(verdicts).toEqual([...Array(10).fill('INVALID_CREDENTIALS'), ...Array(50).fill('RATE_LIMITED')]);
  for (const { status, headers } of answers) {
    if (status === 429) expect(Number(headers['retry-after'])).toBeGreaterThan(0);
  }
  const third = await shop.serve();
  expect(verdictOf(await login(third, 'guessed', PASSWORD))).toBe('RATE_LIMITED');
  expect(verdictOf(await login(third, 'another', PASSWORD))).toBe('200');
});
