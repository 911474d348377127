import { claim, insist, newAsk, type Phone, Shop } from './shop';
import { type Answer, isReplay, verdictOf, type Wire } from './wire';

/** A phone waits at one process for what an admin does through the other; phones that hang up meanwhile. */
jest.setTimeout(180_000);

const WAIT_SECONDS = 25;
/** From the moment in which a task can be claimed. */
const WAKES_WITHIN_MS = 1_000;

let shop: Shop;
let a: Wire;
let b: Wire;

beforeAll(async () => {
  shop = await Shop.open();
  [a, b] = await shop.serveTwo();
});
afterAll(() => shop.close());
afterEach(async () => {
  expect(await shop.findings()).toEqual([]);
});

function press(wire: Wire, task_id: string): Promise<Answer> {
  return wire.send(`/api/v1/admin/tasks/${task_id}/start-purchase`, {
    headers: shop.admin.headers,
    body: { expected_task_version: 1 },
  });
}

/** How many requests of a kind a server has answered. */
function answered(index: number, operation: string): number {
  return shop.servers[index]?.program.stdout.split(`"operation":"${operation}"`).length ?? 0;
}

/** A claim that waits: it is not answered while a later call on the same server is. */
async function waitingClaim(wire: Wire, phone: Phone, ask = newAsk(), signal?: AbortSignal) {
  const answer = claim(wire, phone, ask, { wait_seconds: WAIT_SECONDS, signal });
  const first = await Promise.race([
    answer.then(
      () => 'answered',
      () => 'failed',
    ),
    wire.send('/api/v1/device/me', { headers: phone.headers }).then(() => 'waits'),
  ]);
  expect(first).toBe('waits');
  return { ask, answer };
}

it('a claim that waits at one process wakes within a second of a start through the other', async () => {
  const phones = await shop.seedPhones(5);
  const drafts = await shop.seedDrafts(5);
  for (const [index, phone] of phones.entries()) {
    const [waits, starts] = index % 2 === 0 ? [a, b] : [b, a];
    const { answer } = await waitingClaim(waits, phone);
    const pressed = await press(starts, drafts[index] as string);
    const since = performance.now();
    expect(pressed.status).toBe(200);
    const got = await answer;
    expect(performance.now() - since).toBeLessThan(WAKES_WITHIN_MS);
    expect([got.status, got.json.task_id]).toEqual([200, drafts[index]]);
  }
});

it('of ten that wait at both processes each gets one of ten tasks, and nobody gets two', async () => {
  const phones = await shop.seedPhones(10);
  const drafts = await shop.seedDrafts(10);
  const waiting = await Promise.all(
    phones.map((phone, index) => waitingClaim(index % 2 === 0 ? a : b, phone)),
  );
  for (const [index, draft] of drafts.entries()) {
    expect((await press(index % 2 === 0 ? b : a, draft)).status).toBe(200);
  }
  const answers = await Promise.all(waiting.map(({ answer }) => answer));
  expect(answers.map(verdictOf)).toEqual(Array(10).fill('200'));
  expect(answers.map(({ json }) => json.task_id).sort()).toEqual([...drafts].sort());
});

it('a claim that has run out wakes a waiting phone too', async () => {
  const [held] = await shop.seedHeld(await shop.seedPhones(1), 'CLAIMED');
  const [phone] = (await shop.seedPhones(1)) as [Phone];
  const { answer } = await waitingClaim(a, phone);
  await shop.endLease(held?.task_id as string, 0);
  const got = await answer;
  expect([got.status, got.json.task_id, got.json.claim_generation]).toEqual([200, held?.task_id, 2]);
});

it('a phone that hung up before there was a task holds none', async () => {
  const [gone, next] = (await shop.seedPhones(2)) as [Phone, Phone];
  const [draft] = (await shop.seedDrafts(1)) as [string];
  const hangUp = new AbortController();
  const before = answered(0, 'claimNextTask');
  const { ask, answer } = await waitingClaim(a, gone, newAsk(), hangUp.signal);
  hangUp.abort();
  await expect(answer).rejects.toThrow();
  while (answered(0, 'claimNextTask') === before) await new Promise((turn) => setTimeout(turn, 5));

  await shop.press(draft);
  expect(await shop.rows('claims', { device_id: gone.device_id })).toEqual([]);
  const got = await claim(b, next, newAsk());
  expect([got.status, got.json.task_id]).toEqual([200, draft]);
  // Its key was never used up.
  expect(verdictOf(await claim(b, gone, ask))).toBe('204');
});

it('whenever a phone hangs up, it holds nothing that its key does not give it again through either process', async () => {
  const rounds = 40;
  const phones = await shop.seedPhones(rounds);
  const tasks = await shop.seedDrafts(rounds);
  const seen = { held: 0, empty: 0 };
  for (const [round, phone] of phones.entries()) {
    const [here, there] = round % 2 === 0 ? [a, b] : [b, a];
    const task = tasks[round] as string;
    const ask = newAsk();
    const hangUp = new AbortController();
    await shop.press(task);
    const wait_seconds = round % 3 === 0 ? WAIT_SECONDS : undefined;
    const call = claim(here, phone, ask, { wait_seconds, signal: hangUp.signal });
    // Some time before, while or after the claim commits.
    setTimeout(() => hangUp.abort(), Math.random() * 25);
    const heard = await call.catch(() => undefined);

    const again = await insist(() => claim(there, phone, ask));
    expect([again.status, again.json?.task_id]).toEqual([200, task]);
    if (heard) expect([heard.json.task_id, isReplay(again)]).toEqual([task, true]);
    else if (isReplay(again)) seen.held += 1;
    else seen.empty += 1;
    const claims = await shop.rows('claims', { device_id: phone.device_id });
    expect(claims.map(({ task_id, generation }) => [task_id, generation])).toEqual([[task, 1]]);
  }
  // Some were cut off after their claim was committed: those are what this is about.
  expect(seen.held).toBeGreaterThan(0);
});
