import { EventEmitter, once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { claimNextTask } from '../../src/lifecycle/claim-next-task';
import { hashSecret } from '../../src/store/credentials';
import { claim, newAsk, type Phone, Shop, TIMINGS } from '../processes/shop';
import { type Answer, verdictOf, type Wire } from '../processes/wire';

/** Claims beside a transaction that holds a task and does not end: held by hand, released when the test says so. */
jest.setTimeout(120_000);

let shop: Shop;
let wires: [Wire, Wire];
let holder: Client;

beforeAll(async () => {
  shop = await Shop.open();
  wires = await shop.serveTwo();
});
afterAll(() => shop.close());
beforeEach(async () => {
  holder = new Client({ connectionString: shop.settings.CMBUYER_DATABASE_URL });
  await holder.connect();
});
afterEach(async () => {
  await holder.end();
  expect(await shop.findings()).toEqual([]);
  await shop.drain();
});

/** What another transaction does to a task's row before it commits. */
async function hold(...tasks: string[]): Promise<void> {
  await holder.query('begin');
  await holder.query('select id from tasks where id = any($1) for update', [tasks]);
}

/** A claim by the real verb whose transaction stays open. */
async function openClaim({ actor, device_id }: Phone) {
  const { key, token } = newAsk();
  const request = { idempotency_key: key, device_id, token_hash: hashSecret(token) };
  const end = new EventEmitter();
  const claimed = new EventEmitter();
  const isClaimed = once(claimed, 'claimed');
  const done = shop.database.write(async (work) => {
    const outcome = await claimNextTask(work, actor, request, TIMINGS);
    claimed.emit('claimed', outcome);
    await once(end, 'commit');
  });
  expect((await isClaimed)[0]).toMatchObject({ replayed: false, held: expect.anything() });
  return {
    async commit() {
      end.emit('commit');
      await done;
    },
    async rollBack() {
      end.emit('error', new Error('given up'));
      await expect(done).rejects.toThrow('given up');
    },
  };
}

/** How often a phone was told "no task", and so its key is used up. */
async function saidNoTask(): Promise<number> {
  return (await shop.rows('idempotency_records', { outcome: 'NO_TASK' })).length;
}

/** Until that many sessions of the servers wait for a lock. */
async function untilWaiting(count: number): Promise<void> {
  for (;;) {
    // Not through the holder: a transaction would always see what it saw first.
    const { rows } = await shop.database.read.knex.raw(
      `select count(*)::int as waiting from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock'`,
    );
    if (rows[0].waiting >= count) return;
    await sleep(5);
  }
}

const claimThrough = (index: number, phone: Phone, ask = newAsk()) =>
  claim(wires[index % 2] as Wire, phone, ask);

/** Each phone asks, through one server or the other. All answers come while the tasks are still held. */
async function claimAll(phones: Phone[]): Promise<Answer[]> {
  return Promise.all(phones.map((phone, index) => claimThrough(index, phone)));
}

it('a phone gets the next task at once while another claim is not committed', async () => {
  const [first, second] = (await shop.seedPending(2)) as [string, string];
  const [phone] = (await shop.seedPhones(1)) as [Phone];
  await hold(first);
  const [answer] = (await claimAll([phone])) as [Answer];
  expect([verdictOf(answer), answer.json?.task_id]).toEqual(['200', second]);
  await holder.query('rollback');
});

it('20 phones get 20 tasks while five others are held: none waits, none is told "no task"', async () => {
  const tasks = await shop.seedPending(25);
  const phones = await shop.seedPhones(20);
  // Early, in the middle and late in the queue.
  const held = [0, 1, 7, 12, 24].map((index) => tasks[index] as string);
  await hold(...held);
  const answers = await claimAll(phones);
  expect(answers.map(verdictOf)).toEqual(Array(20).fill('200'));
  const served = answers.map(({ json }) => json.task_id);
  expect(served.sort()).toEqual(tasks.filter((task) => !held.includes(task)).sort());
  await holder.query('rollback');
});

it('a phone gets the next claim that has run out at once while another takeover is not committed', async () => {
  const held = await shop.seedHeld(await shop.seedPhones(3), 'CLAIMED');
  for (const { task_id } of held) await shop.endLease(task_id, -1_000);
  const [first, ...others] = held.map(({ task_id }) => task_id) as [string, ...string[]];
  const phones = await shop.seedPhones(2);
  await hold(first);
  const answers = await claimAll(phones);
  expect(answers.map(verdictOf)).toEqual(['200', '200']);
  expect(answers.map(({ json }) => json.task_id).sort()).toEqual(others.sort());
  await holder.query('rollback');
});

it('a claim that has run out goes before a younger task that waits, also while the head of the queue is held', async () => {
  const [first, second] = (await shop.seedHeld(await shop.seedPhones(2), 'CLAIMED')).map(
    ({ task_id }) => task_id,
  ) as [string, string];
  for (const task_id of [first, second]) await shop.endLease(task_id, -1_000);
  const [younger] = (await shop.seedPending(1)) as [string];
  const phones = await shop.seedPhones(2);
  await hold(first);
  const [one, two] = phones as [Phone, Phone];
  expect((await claimThrough(0, one)).json?.task_id).toBe(second);
  expect((await claimThrough(1, two)).json?.task_id).toBe(younger);
  await holder.query('rollback');
});

it('with only the held task left a phone waits, and takes it when the holder gives it up', async () => {
  const [only] = (await shop.seedPending(1)) as [string];
  const [phone] = (await shop.seedPhones(1)) as [Phone];
  await hold(only);
  const answer = claimThrough(0, phone);
  await untilWaiting(1);
  await holder.query('rollback');
  expect([verdictOf(await answer), (await answer).json?.task_id]).toEqual(['200', only]);
});

it.each([
  ['commits', Array(20).fill('204')],
  ['rolls back', ['200', ...Array(19).fill('204')]],
])(
  'with only one task left, in a claim that is not committed, 20 phones wait until it %s',
  async (end, expected) => {
    await shop.seedPending(1);
    const phones = await shop.seedPhones(21);
    const before = await saidNoTask();
    const other = await openClaim(phones.pop() as Phone);
    const answers = claimAll(phones);
    await untilWaiting(1);
    expect(await saidNoTask()).toBe(before);
    await (end === 'commits' ? other.commit() : other.rollBack());
    expect((await answers).map(verdictOf).sort()).toEqual(expected);
  },
);

it('nobody is told "no task" while one can be claimed, whatever is held for how long', async () => {
  const total = 60;
  const tasks = await shop.seedPending(total);
  const phones = await shop.seedPhones(20);
  let done = false;
  // Somebody else holds the head of the queue again and again.
  const holding = (async () => {
    while (!done) {
      await holder.query('begin');
      await holder.query(
        `select id from tasks where status = 'PENDING' order by created_at, id limit 3 for update skip locked`,
      );
      await sleep(20);
      await holder.query('rollback');
    }
  })();

  const taken: string[] = [];
  /** What waited still when a phone was told "no task". */
  const left: number[] = [];
  await Promise.all(
    phones.map(async (first, index) => {
      for (let phone = first; ; [phone] = (await shop.seedPhones(1)) as [Phone]) {
        const answer = await claimThrough(index, phone);
        if (answer.status === 204) {
          left.push((await shop.rows('tasks', { status: 'PENDING' })).length);
          return;
        }
        expect(verdictOf(answer)).toBe('200');
        taken.push(answer.json.task_id);
      }
    }),
  );
  done = true;
  await holding;
  expect(taken.sort()).toEqual([...tasks].sort());
  expect(left.filter((count) => count > 0)).toEqual([]);
});
