import { allFacts } from '../../src/testing/all-facts';
import { type Answer, type TestPhone, useTestApp } from '../../src/testing/start-test-app';
import {
  expectStatus,
  makeDraft,
  makePending,
  newClaimToken,
  newKey,
  sendHeartbeat,
  startPurchase,
} from './scenario';

const app = useTestApp();

let count = 0;
let phone: TestPhone;

beforeEach(async () => {
  count += 1;
  phone = await app().addPhone(`waiting-${count}`);
  expectStatus(await sendHeartbeat(app(), phone), 200);
});

interface Ask {
  key: string;
  claimToken: string;
  wait_seconds?: number;
  signal?: AbortSignal;
}

const newAsk = (wait_seconds?: number): Ask => ({ key: newKey(), claimToken: newClaimToken(), wait_seconds });

function send({ key, claimToken, wait_seconds, signal }: Ask, who: TestPhone = phone): Promise<Answer> {
  const body = { device_id: who.device_id, ...(wait_seconds !== undefined && { wait_seconds }) };
  return app().call('claimNextTask', { as: who, key, claimToken, body, signal });
}

/** Sends a claim and resolves once it looked for a task in vain and waits. */
async function sendAndWait(ask: Ask, who: TestPhone = phone): Promise<{ answer: Promise<Answer> }> {
  const write = jest.spyOn(app().database, 'write');
  const answer = send(ask, who);
  answer.catch(() => undefined);
  while (write.mock.results.length === 0) await new Promise((next) => setImmediate(next));
  await write.mock.results[0]!.value;
  write.mockRestore();
  return { answer };
}

const records = () =>
  app()
    .database.read.knex('idempotency_records')
    .where({ device_id: phone.device_id })
    .select('outcome', 'idempotency_key');
const claims = () => app().database.read.knex('claims').where({ device_id: phone.device_id }).select('*');

it('a waiting claim gets the task that is started meanwhile', async () => {
  const ask = newAsk(25);
  const { answer } = await sendAndWait(ask);
  const task = await makePending(app());
  const got = await answer;
  expect([got.status, got.json.task_id]).toEqual([200, task.id]);
  expect(got.headers['idempotent-replayed']).toBeUndefined();
  const again = await send({ ...ask, wait_seconds: 0 });
  expect([again.json.task_id, again.headers['idempotent-replayed']]).toEqual([task.id, 'true']);
});

it('records one outcome, at its end', async () => {
  const ask = newAsk(2);
  const before = await allFacts(app().database);
  const { answer } = await sendAndWait(ask);
  expect(await allFacts(app().database)).toBe(before);
  expect((await answer).status).toBe(204);
  expect(await records()).toEqual([{ outcome: 'NO_TASK', idempotency_key: ask.key }]);

  // "No task" stays the outcome of this key, at once and whatever the wait, though there is one by now.
  const task = await makePending(app());
  for (const wait_seconds of [undefined, 0, 25]) {
    const again = await send({ ...ask, wait_seconds });
    expect([again.status, again.headers['idempotent-replayed']]).toEqual([204, 'true']);
  }
  expect((await send(newAsk())).json.task_id).toBe(task.id);
});

it.each([
  [
    'no longer ready',
    async () => void expectStatus(await sendHeartbeat(app(), phone, { accessibility_connected: false }), 200),
    'DEVICE_NOT_READY',
  ],
  [
    'revoked',
    async () =>
      void expectStatus(
        await app().call('revokeDevice', { as: app().admin, path: { device_id: phone.device_id }, body: {} }),
        200,
      ),
    'TOKEN_REVOKED',
  ],
  [
    'without its buyer',
    async () =>
      void expectStatus(
        await app().call('updateUser', {
          as: app().admin,
          path: { user_id: phone.user.id },
          body: { status: 'DISABLED' },
        }),
        200,
      ),
    'TOKEN_REVOKED',
  ],
])('looks again before it claims: a phone %s gets nothing', async (_name, change, code) => {
  const draft = await makeDraft(app());
  const { answer } = await sendAndWait(newAsk(25));
  await change();
  const task = await startPurchase(app(), draft);
  expect((await answer).json.code).toBe(code);
  expect([await claims(), await records()]).toEqual([[], []]);

  const other = await app().addPhone(`other-${count}`);
  expectStatus(await sendHeartbeat(app(), other), 200);
  expect((await send(newAsk(), other)).json.task_id).toBe(task.id);
});

it('a key whose wait was refused may be tried again', async () => {
  const ask = newAsk(25);
  const { answer } = await sendAndWait(ask);
  expectStatus(await sendHeartbeat(app(), phone, { pinduoduo_installed: false }), 200);
  const task = await makePending(app());
  expect((await answer).json.readiness_reasons).toEqual(['PINDUODUO_NOT_INSTALLED']);
  expectStatus(await sendHeartbeat(app(), phone), 200);
  const again = await send(ask);
  expect([again.json.task_id, again.headers['idempotent-replayed']]).toEqual([task.id, undefined]);
});

it('of two that wait for one task, one gets it', async () => {
  const other = await app().addPhone(`rival-${count}`);
  expectStatus(await sendHeartbeat(app(), other), 200);
  const waiting = [await sendAndWait(newAsk(25)), await sendAndWait(newAsk(25), other)].map(
    ({ answer }) => answer,
  );
  const task = await makePending(app());
  const first = await Promise.race(waiting);
  expect([first.status, first.json.task_id]).toEqual([200, task.id]);
  // The other one still waits: the next task is its own.
  const next = await makePending(app());
  const ids = (await Promise.all(waiting)).map(({ json }) => json.task_id);
  expect(ids.sort()).toEqual([task.id, next.id].sort());
});

it('a client that hung up leaves no claim behind', async () => {
  const hangUp = new AbortController();
  const ask = newAsk(25);
  const lines = () =>
    app()
      .log.lines()
      .filter(({ operation }) => operation === 'claimNextTask').length;
  const before = lines();
  const { answer } = await sendAndWait({ ...ask, signal: hangUp.signal });
  hangUp.abort();
  await expect(answer).rejects.toThrow();
  while (lines() === before) await new Promise((next) => setTimeout(next, 5));

  const task = await makePending(app());
  expect([await claims(), await records()]).toEqual([[], []]);
  const again = await send(ask);
  expect([again.json.task_id, again.headers['idempotent-replayed']]).toEqual([task.id, undefined]);
});

it('whenever it hangs up, its key gives it the task', async () => {
  for (let round = 0; round < 12; round += 1) {
    const one = await app().addPhone(`flaky-${count}-${round}`);
    expectStatus(await sendHeartbeat(app(), one), 200);
    const draft = await makeDraft(app());
    const hangUp = new AbortController();
    const ask = newAsk(25);
    const { answer } = await sendAndWait({ ...ask, signal: hangUp.signal }, one);
    const started = startPurchase(app(), draft);
    // Somewhere between before the task is there and after the answer left.
    setTimeout(() => hangUp.abort(), round * 30);
    await answer.catch(() => undefined);
    await started;
    const got = await send({ ...ask, wait_seconds: 25 }, one);
    expect([got.status, got.json?.task_id]).toEqual([200, draft.id]);
  }
});

it('waits no longer than the contract allows', async () => {
  for (const wait_seconds of [26, -1, 0.5, 1e9]) {
    expect((await send({ ...newAsk(), wait_seconds })).json.code).toBe('INVALID_REQUEST');
  }
});
