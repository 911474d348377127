import { randomBytes } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { sendDeviceHeartbeat } from '../../src/access/send-device-heartbeat';
import { createTask } from '../../src/lifecycle/create-task';
import { startPurchase } from '../../src/lifecycle/start-purchase';
import { type Database, openDatabase } from '../../src/store/database';
import { makeDevice, makeUser, signInAdmin, signInDevice } from '../../src/testing/people-and-devices';
import { cleanUp, freshDataDir, post, serve } from './program';

// Starts many processes; on a busy machine that takes a while.
jest.setTimeout(180_000);
afterAll(cleanUp);

const ROUNDS = 10;
const PHONES = 6;
const TIMINGS = {
  claim_lease_seconds: 600,
  run_lease_seconds: 90,
  device_heartbeat_ttl_seconds: 900,
  authorization_ttl_seconds: 86_400,
};

const REPORT = {
  app_version: '1',
  android_version: '14',
  accessibility_connected: true,
  pinduoduo_installed: true,
};
const WISH = { quantity: 1, max_unit_price_cents: 100, max_total_cents: 100, confirmation_required: false };

interface Phone {
  device_id: string;
  authorization: string;
  key: string;
  claimToken: string;
}

interface Claimed {
  status: number;
  replayed: boolean;
  task_id: string;
  claim_generation: number;
}

/** Ready phones, and as many tasks that wait for them. */
async function seed(database: Database): Promise<Phone[]> {
  await database.migrateUp();
  const { actor } = await signInAdmin(database, await makeUser(database, 'admin', 'ADMIN'));
  const buyer = await makeUser(database, 'buyer', 'BUYER');
  return Promise.all(
    Array.from({ length: ROUNDS * PHONES }, async (_, index): Promise<Phone> => {
      const device_id = `device-${index + 1000}`;
      await makeDevice(database, actor, buyer, device_id);
      const device = await signInDevice(database, buyer, device_id);
      await database.write(async (work) => {
        await sendDeviceHeartbeat(work, device.actor, REPORT, TIMINGS);
        const wish = { ...WISH, title: `Wish ${index}` };
        const { facts } = await createTask(work, actor, { idempotency_key: uuidv7(), wish });
        await startPurchase(work, actor, { task_id: facts.task.id, expected_task_version: 1 }, TIMINGS);
      });
      const claimToken = randomBytes(32).toString('base64url');
      return { device_id, authorization: `Bearer ${device.raw}`, key: uuidv7(), claimToken };
    }),
  );
}

async function claimWith(
  address: string,
  { device_id, authorization, key, claimToken }: Phone,
): Promise<Claimed> {
  const headers = { authorization, 'idempotency-key': key, 'x-claim-token': claimToken };
  const answer = await post(address, '/api/v1/device/claim-next', { device_id }, headers);
  const { task_id, claim_generation } = (await answer.json()) as Claimed;
  const replayed = answer.headers.get('idempotent-replayed') === 'true';
  return { status: answer.status, replayed, task_id, claim_generation };
}

it('killed in a burst of claims it did each one whole or not at all, and its key finishes it once', async () => {
  const dataDir = freshDataDir();
  const settings = { CMBUYER_DATA_DIR: dataDir, CMBUYER_DEVICE_HEARTBEAT_TTL_SECONDS: '900' };
  const database = openDatabase({ dataDir });
  const phones = await seed(database);
  const taken = new Map<string, string>();
  let server = await serve(settings);
  let interrupted = 0;

  for (let round = 0; round < ROUNDS; round += 1) {
    const burst = phones.slice(round * PHONES, (round + 1) * PHONES);
    const calls = burst.map((phone) => claimWith(server.address, phone).catch(() => undefined));
    // Killed at another moment each round: as soon as one is answered, or some milliseconds after they were sent.
    if (round % 2 === 0) await Promise.race(calls);
    else await new Promise((next) => setTimeout(next, (round - 1) * 3));
    server.program.kill('SIGKILL');
    const answers = await Promise.all(calls);
    await server.program.ended;

    const open = await database.read.knex('claims').whereIn(
      'device_id',
      burst.map(({ device_id }) => device_id),
    );
    server = await serve(settings);
    for (const [index, phone] of burst.entries()) {
      const before = answers[index];
      const wasCommitted = open.some(({ device_id }) => device_id === phone.device_id);
      // An answer never leaves before its commit.
      if (before) expect([before.status, wasCommitted]).toEqual([200, true]);
      else interrupted += 1;

      const again = await claimWith(server.address, phone);
      expect([again.status, again.replayed, again.claim_generation]).toEqual([200, wasCommitted, 1]);
      if (before) expect(again.task_id).toBe(before.task_id);
      expect(taken.get(again.task_id)).toBeUndefined();
      taken.set(again.task_id, phone.device_id);
    }
  }

  expect(interrupted).toBeGreaterThan(0);
  expect(taken.size).toBe(ROUNDS * PHONES);
  const { knex } = database.read;
  const claims = await knex('claims').select('task_id', 'device_id', 'generation', 'closed_at');
  expect(claims).toHaveLength(ROUNDS * PHONES);
  for (const { task_id, device_id, generation, closed_at } of claims) {
    expect([taken.get(task_id), generation, closed_at]).toEqual([device_id, 1, null]);
  }
  expect(await knex('attempts').where({ status: 'CLAIMED' }).pluck('task_id')).toHaveLength(ROUNDS * PHONES);
  expect(await knex('tasks').whereNot({ status: 'CLAIMED' }).pluck('id')).toEqual([]);
  const events = await knex('task_events').where({ type: 'task.claimed' }).pluck('task_id');
  expect(events.sort()).toEqual([...taken.keys()].sort());
  await database.close();
  server.program.kill('SIGTERM');
  expect((await server.program.ended).code).toBe(0);
});
