import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Ask, beatTask, claim, fence, insist, newAsk, type Phone, report, Shop, start } from './shop';
import { type Answer, isReplay, verdictOf, type Wire } from './wire';

/**
 * Two server processes on one database, rivals at one moment. What the rounds need is seeded by hand, and a lease ends
 * where the round wants it to; only the race itself goes over the wire.
 */
jest.setTimeout(300_000);

const ROUNDS = Number(process.env.RACE_ROUNDS ?? 200);

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

const rounds = Array.from({ length: ROUNDS }, (_, round) => round);

/** The two servers, in turn: no side of a race always has the same process. */
function pairOf(round: number): [Wire, Wire] {
  return round % 2 === 0 ? wires : [wires[1], wires[0]];
}

/** All at once, yet each round another one goes first, by a few turns of the event loop. */
async function atOnce(round: number, calls: (() => Promise<Answer>)[]): Promise<Answer[]> {
  const answers = await Promise.all(
    calls.map(async (call, index) => {
      const turns = ((index + round) % calls.length) * (round % 5);
      for (let turn = 0; turn < turns; turn += 1) await nextTurn();
      return insist(call);
    }),
  );
  for (const answer of answers) if (answer.status >= 500) throw new Error(JSON.stringify(answer.json));
  return answers;
}

/** Both answers of one request that went to both servers: one did it, the other tells what came of it. */
function expectOneEffect(twins: Answer[]): void {
  expect(twins.map(isReplay).sort()).toEqual([false, true]);
  const [one, other] = twins.map(({ status, json }) => ({
    status,
    body: json && { ...json, server_time: 0, lease_expires_in_ms: 0, authorization: json.authorization?.id },
  }));
  expect(one).toEqual(other);
}

describe('claim against claim', () => {
  it('gives one task to one of two phones, and the same answer to both halves of a request sent twice', async () => {
    const tasks = await shop.seedDrafts(ROUNDS);
    const phones = await shop.seedPhones(ROUNDS + 1);
    let waiting = phones.pop() as Phone;
    for (const round of rounds) {
      const task_id = tasks[round] as string;
      const rivals = [waiting, phones[round] as Phone];
      const asks = rivals.map(newAsk);
      await shop.press(task_id);

      const [a, b] = pairOf(round);
      const answers = await atOnce(
        round,
        rivals.flatMap((phone, index) => [a, b].map((wire) => () => claim(wire, phone, asks[index] as Ask))),
      );
      const twins = [answers.slice(0, 2), answers.slice(2)];
      for (const pair of twins) expectOneEffect(pair);
      expect(twins.map(([one]) => verdictOf(one as Answer)).sort()).toEqual(['200', '204']);
      const winner = twins.findIndex(([one]) => one?.status === 200);
      expect(twins[winner]?.[0]?.json).toMatchObject({ task_id, claim_generation: 1, version: 3 });
      waiting = rivals[1 - winner] as Phone;
    }
    expect(await shop.rows('claims')).toHaveLength(ROUNDS);
  });

  it('gives ten phones ten tasks in one burst, and says "no task" to none', async () => {
    const bursts = Math.ceil(ROUNDS / 10);
    const tasks = await shop.seedPending(bursts * 10);
    const phones = await shop.seedPhones(bursts * 10);
    const served: string[] = [];
    for (let burst = 0; burst < bursts; burst += 1) {
      const crowd = phones.slice(burst * 10, burst * 10 + 10);
      const answers = await atOnce(
        0,
        crowd.map((phone, index) => {
          const ask = newAsk();
          return () => claim(wires[index % 2] as Wire, phone, ask);
        }),
      );
      expect(answers.map(verdictOf)).toEqual(Array(10).fill('200'));
      served.push(...answers.map(({ json }) => json.task_id));
    }
    expect(served.sort()).toEqual([...tasks].sort());
  });
});

describe('claim against revoke', () => {
  it('ends in a claim of a phone that was still welcome, or in none at all', async () => {
    const tasks = await shop.seedPending(ROUNDS);
    const phones = await shop.seedPhones(ROUNDS);
    const taken: string[] = [];
    const seen = new Set<string>();
    for (const round of rounds) {
      const [a, b] = pairOf(round);
      const phone = phones[round] as Phone;
      const ask = newAsk();
      const [claimed, revoked] = (await atOnce(round, [
        () => claim(a, phone, ask),
        () => revoke(b, phone),
      ])) as [Answer, Answer];
      expect(revoked.status).toBe(200);
      seen.add(verdictOf(claimed));
      const open = await shop.rows('claims', { device_id: phone.device_id });
      expect(open.map(({ task_id }) => task_id)).toEqual(
        claimed.status === 200 ? [claimed.json.task_id] : [],
      );
      if (claimed.status === 200) taken.push(claimed.json.task_id);
      // From here on it gets nothing through either process, not even what it was told before.
      for (const wire of wires) expect(verdictOf(await claim(wire, phone, ask))).toBe('TOKEN_REVOKED');
    }
    // A race that the same side always wins shows nothing.
    expect([...seen].sort()).toEqual(['200', 'TOKEN_REVOKED']);
    expect(taken).toEqual(tasks.slice(0, taken.length));
    // Nothing of this may be claimable in the rounds of another race.
    await shop.drain();
  });
});

function revoke(wire: Wire, { device_id }: Phone): Promise<Answer> {
  return wire.send(`/api/v1/admin/devices/${device_id}/revoke`, { headers: shop.admin.headers, body: {} });
}

describe('start against revoke', () => {
  it('ends in a started task, or in one that was never started', async () => {
    const held = await shop.seedHeld(await shop.seedPhones(ROUNDS), 'CLAIMED');
    const seen = new Set<string>();
    for (const [round, one] of held.entries()) {
      const [a, b] = pairOf(round);
      const [started, revoked] = (await atOnce(round, [() => start(a, one), () => revoke(b, one.phone)])) as [
        Answer,
        Answer,
      ];
      expect(revoked.status).toBe(200);
      seen.add(verdictOf(started));
      // A revocation takes nothing away from the queue and gives nothing back to it.
      expect(await shop.standing(one.task_id)).toEqual(
        started.status === 200 ? ['RUNNING', 4, 1] : ['CLAIMED', 3, 1],
      );
    }
    // A race that the same side always wins shows nothing.
    expect([...seen].sort()).toEqual(['200', 'TOKEN_REVOKED']);
  });
});

describe('heartbeat, expiry and takeover', () => {
  it('a claim that runs out goes to its start or to one new claim, never to two', async () => {
    const held = await shop.seedHeld(await shop.seedPhones(ROUNDS), 'CLAIMED');
    const rivals = await shop.seedPhones(ROUNDS);
    for (const [round, one] of held.entries()) {
      const [a, b] = pairOf(round);
      const rival = rivals[round] as Phone;
      const [own, theirs] = [newAsk(), newAsk()];
      await shop.endLease(one.task_id, (round % 8) * 4);
      const [started, again, taken] = (await atOnce(round, [
        () => start(a, one),
        () => claim(b, one.phone, own),
        () => claim(a, rival, theirs),
      ])) as [Answer, Answer, Answer];

      expect(['200', 'LEASE_EXPIRED', 'CLAIM_NOT_CURRENT']).toContain(verdictOf(started));
      expect(['200', '204', 'DEVICE_HAS_ACTIVE_TASK']).toContain(verdictOf(again));
      expect(['200', '204']).toContain(verdictOf(taken));
      const winners = [started, again, taken].filter(({ status }) => status === 200);
      expect(winners.length).toBeLessThanOrEqual(1);
      for (const { json } of winners) expect(json.task_id).toBe(one.task_id);
      const expected =
        started.status === 200
          ? ['RUNNING', 4, 1]
          : winners.length === 1
            ? ['CLAIMED', 4, 2]
            : ['CLAIMED', 3, 1];
      expect(await shop.standing(one.task_id)).toEqual(expected);
      expect(await shop.rows('claims', { task_id: one.task_id, closed_at: null })).toHaveLength(1);
      // Whoever lost is no candidate in the next round, and neither is this task.
      await shop.endLease(one.task_id, 600_000);
    }
  });

  it('a running task whose lease runs out stays with its phone, whoever asks for work', async () => {
    const held = await shop.seedHeld(await shop.seedPhones(ROUNDS), 'RUNNING');
    const [rival] = (await shop.seedPhones(1)) as [Phone];
    for (const [round, one] of held.entries()) {
      const [a, b] = pairOf(round);
      const asks = [newAsk(), newAsk()] as const;
      await shop.endLease(one.task_id, (round % 8) * 4);
      const [lived, also, none, busy] = (await atOnce(round, [
        () => beatTask(a, one, 'COMPARING'),
        () => beatTask(b, one, 'COMPARING'),
        () => claim(a, rival, asks[0]),
        () => claim(b, one.phone, asks[1]),
      ])) as [Answer, Answer, Answer, Answer];
      for (const answer of [lived, also]) expect(['200', 'LEASE_EXPIRED']).toContain(verdictOf(answer));
      expect([none, busy].map(verdictOf)).toEqual(['204', 'DEVICE_HAS_ACTIVE_TASK']);
      expect(await shop.standing(one.task_id)).toEqual(['RUNNING', 4, 1]);
      const [{ lease_expires_at }] = await shop.rows('claims', { task_id: one.task_id });
      const isRenewed = [lived, also].some(({ json }) => json.lease_expires_at === lease_expires_at);
      expect(isRenewed).toBe(lived.status === 200 || also.status === 200);
    }
  });
});

describe('fence against fence', () => {
  it('lets one of two keys through, once, and tells both halves of a request the same', async () => {
    const held = await shop.seedHeld(await shop.seedPhones(ROUNDS), 'RUNNING');
    for (const [round, one] of held.entries()) {
      const keys = [newAsk().key, newAsk().key];
      const answers = await atOnce(
        round,
        keys.flatMap((key) => pairOf(round).map((wire) => () => fence(wire, one, key))),
      );
      const twins = [answers.slice(0, 2), answers.slice(2)];
      expect(twins.map((pair) => pair.map(verdictOf).join()).sort()).toEqual([
        '200,200',
        'INVALID_TASK_STATE,INVALID_TASK_STATE',
      ]);
      expectOneEffect(twins.find(([first]) => first?.status === 200) as Answer[]);
      expect(await shop.rows('order_submissions', { task_id: one.task_id })).toHaveLength(1);
      expect(await shop.standing(one.task_id)).toEqual(['SUBMITTING', 5, 1]);
    }
  });
});

describe('result against result', () => {
  it('keeps every report, and moves the task by one of them', async () => {
    const held = await shop.seedHeld(await shop.seedPhones(ROUNDS), 'SUBMITTING');
    for (const [round, one] of held.entries()) {
      const results = [
        { outcome: 'ORDER_CREATED', order_no: 'P-1' },
        { outcome: 'UNKNOWN' },
        { outcome: 'ORDER_CREATED', order_no: 'P-2' },
      ];
      const [a, b] = pairOf(round);
      const answers = await atOnce(
        round,
        results.flatMap((result, index) => {
          const { key } = newAsk();
          const twice = index === 0 ? [a, b] : [index === 1 ? b : a];
          return twice.map((wire) => () => report(wire, one, result, key));
        }),
      );
      expect(answers.map(verdictOf)).toEqual(['200', '200', '200', '200']);
      expect(answers.slice(0, 2).map(isReplay).sort()).toEqual([false, true]);

      const reports = await shop.rows('submission_reports', { task_id: one.task_id });
      const decisive = reports.filter(({ late }) => !late);
      expect([reports.length, decisive.length]).toEqual([3, 1]);
      const ordered = decisive[0].outcome === 'ORDER_CREATED';
      expect(await shop.standing(one.task_id)).toEqual([ordered ? 'ORDERED' : 'NEEDS_MANUAL', 6, 1]);
      const [submission] = await shop.rows('order_submissions', { task_id: one.task_id });
      expect([submission.status, submission.order_no]).toEqual(
        ordered ? ['SUBMITTED', decisive[0].order_no] : ['RECONCILIATION_REQUIRED', null],
      );
      const events = await shop.rows('task_events', { task_id: one.task_id });
      const moves = events.filter(({ from_status, to_status }) => from_status !== to_status);
      expect(moves.map(({ version }) => version).sort()).toEqual([1, 2, 3, 4, 5, 6]);
    }
  });
});
