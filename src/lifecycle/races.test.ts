import { v7 as uuidv7 } from 'uuid';
import { Refusal } from '../contract/errors';
import { expectInvariants } from '../testing/invariants';
import { makeUser, signInAdmin } from '../testing/people-and-devices';
import {
  type Claimed,
  claimedOf,
  heldOf,
  openPurchase,
  type Purchase,
  shifted,
  WISH,
} from '../testing/purchase';
import type { ClaimOutcome } from './claim-next-task';
import { createTask } from './create-task';
import type { LifecycleOutcome } from './held-task';
import { updateTask } from './update-task';

let purchase: Purchase;
let pools: [Purchase, Purchase];

async function open(...timings: Parameters<typeof openPurchase>): Promise<void> {
  purchase = await openPurchase(...timings);
  pools = [purchase, purchase.throughAnotherPool()];
}

afterEach(async () => {
  await expectInvariants(purchase.database);
  await purchase.close();
});

/** Lets all calls go at one moment, spread over both pools; answers come back in the order of the calls. */
async function atOnce<T>(calls: ((pool: Purchase) => Promise<T>)[]): Promise<PromiseSettledResult<T>[]> {
  let open: () => void = () => undefined;
  const barrier = new Promise<void>((resolve) => {
    open = resolve;
  });
  const running = calls.map(async (call, index) => {
    await barrier;
    return call(pools[index % 2]!);
  });
  open();
  return Promise.allSettled(running);
}

function times<T>(count: number, call: (pool: Purchase) => Promise<T>): Promise<PromiseSettledResult<T>[]> {
  return atOnce(Array.from({ length: count }, () => call));
}

function valuesOf<T>(results: PromiseSettledResult<T>[]): T[] {
  return results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
}

/** The codes of what was refused; anything else that failed fails the test. */
function codesOf(results: PromiseSettledResult<unknown>[]): string[] {
  return results.flatMap((result) => {
    if (result.status === 'fulfilled') return [];
    if (!(result.reason instanceof Refusal)) throw result.reason;
    return [result.reason.code];
  });
}

const isTask = (outcome: ClaimOutcome) => outcome !== undefined && 'held' in outcome;

describe('claimNextTask', () => {
  it('gives one task to 50 parallel calls of one device under different keys', async () => {
    await open();
    for (let i = 0; i < 10; i++) await purchase.pending();
    const results = await times(50, (pool) => pool.poll(purchase.phone));
    expect(valuesOf(results).filter(isTask)).toHaveLength(1);
    expect(codesOf(results)).toEqual(Array(49).fill('DEVICE_HAS_ACTIVE_TASK'));
    expect(await purchase.rows('claims')).toHaveLength(1);
  });

  it('gives ten devices ten different tasks in one burst, and no false "no task"', async () => {
    await open();
    const phones = [purchase.phone, ...(await purchase.addPhones(9))];
    for (let i = 0; i < 10; i++) await purchase.pending();
    const results = await atOnce(phones.map((phone) => (pool: Purchase) => pool.poll(phone)));
    const served = valuesOf(results).map((outcome) => heldOf(outcome).facts.task.id);
    expect(new Set(served).size).toBe(10);
    expect(await purchase.rows('idempotency_records', { outcome: 'NO_TASK' })).toEqual([]);
  });

  it('never leaves two holders when two devices race for an expiring lease, 200 times', async () => {
    await open({ claim_lease_seconds: 5, device_heartbeat_ttl_seconds: 900 });
    const phones = [purchase.phone, await purchase.addPhone()];
    await purchase.pending({}, { authorization_ttl_seconds: 30 * 86_400 });
    let holder = await purchase.claim(phones[0]);
    for (let round = 0; round < 200; round++) {
      if (round % 50 === 0) for (const phone of phones) await purchase.beat(phone);
      const rival = phones.find(({ device_id }) => device_id !== holder.phone.device_id)!;

      // One millisecond before its end the lease holds against the rival and its holder is busy.
      purchase.clock.set(shifted(holder.lease_expires_at, -1));
      const held = await atOnce([
        (pool) => pool.poll(rival),
        (pool) => pool.poll(holder.phone),
        (pool) => pool.poll(rival),
      ]);
      expect(valuesOf(held).filter(isTask)).toHaveLength(0);
      expect(codesOf(held)).toEqual(['DEVICE_HAS_ACTIVE_TASK']);

      // At its end both may have it, and one gets it.
      purchase.clock.set(holder.lease_expires_at);
      const racers = round % 2 === 0 ? [holder.phone, rival] : [rival, holder.phone];
      const requests = racers.map((phone) => purchase.claimRequest(phone));
      const raced = await atOnce(
        racers.map((phone, index) => (pool: Purchase) => pool.poll(phone, requests[index])),
      );
      expect(codesOf(raced)).toEqual([]);
      const outcomes = valuesOf(raced);
      expect(outcomes.filter(isTask)).toHaveLength(1);
      expect(await purchase.rows('claims', { closed_at: null })).toHaveLength(1);
      const winner = outcomes.findIndex(isTask);
      holder = claimedOf(racers[winner]!, requests[winner]!, heldOf(outcomes[winner]));
      expect(holder.claim_generation).toBe(round + 2);
    }
  });

  it('lets either the start or the takeover win at the edge of a lease, never both, 50 times', async () => {
    await open();
    const rival = await purchase.addPhone();
    for (let round = 0; round < 50; round++) {
      const claimed = await purchase.claimed();
      const before = round % 2;
      purchase.clock.set(shifted(claimed.lease_expires_at, -before));
      await purchase.beat(rival);
      const request = purchase.claimRequest(rival);
      const [started, taken] = await atOnce<unknown>([
        (pool) => pool.callStart(claimed.phone, purchase.startRequest(claimed)),
        (pool) => pool.poll(rival, request),
      ]);
      if (before === 1) {
        expect(started?.status).toBe('fulfilled');
        expect(valuesOf([taken!])).toEqual([{ noTask: true, replayed: false }]);
        const running = { ...claimed, version: 4, start_request: purchase.startRequest(claimed) };
        const { attempt } = await purchase.facts(claimed.task_id);
        await purchase.report(await purchase.fence({ ...running, execution_id: attempt!.execution_id! }));
      } else {
        expect(['LEASE_EXPIRED', 'CLAIM_NOT_CURRENT']).toContain(codesOf([started!])[0]);
        const won = heldOf(valuesOf([taken!])[0] as ClaimOutcome);
        await purchase.report(await purchase.fence(await purchase.start(claimedOf(rival, request, won))));
      }
    }
  });

  it('keeps one holder for each of ten tasks when 20 devices claim, lapse and claim again', async () => {
    await open({ claim_lease_seconds: 5, device_heartbeat_ttl_seconds: 900 });
    const phones = [purchase.phone, ...(await purchase.addPhones(19))];
    for (let i = 0; i < 10; i++) await purchase.pending();
    for (let round = 0; round < 10; round++) {
      const results = await atOnce(phones.map((phone) => (pool: Purchase) => pool.poll(phone)));
      const served = valuesOf(results)
        .filter(isTask)
        .map((outcome) => heldOf(outcome).facts.task.id);
      expect(new Set(served).size).toBe(10);
      expect(served).toHaveLength(10);
      expect(codesOf(results)).toEqual([]);
      await expectInvariants(purchase.database);
      purchase.clock.advance(5_000);
    }
  });
});

describe('20 identical requests', () => {
  /** One did it, nineteen got its answer, and every answer agrees. */
  function expectOneEffect(outcomes: { replayed: boolean }[], factOf: (outcome: never) => unknown): void {
    expect(outcomes).toHaveLength(20);
    expect(outcomes.filter(({ replayed }) => !replayed)).toHaveLength(1);
    expect(new Set(outcomes.map((outcome) => JSON.stringify(factOf(outcome as never)))).size).toBe(1);
  }
  const eventTypes = async (task_id: string) => (await purchase.events(task_id)).map(({ type }) => type);
  const standingOf = ({ held }: LifecycleOutcome) => [
    held.facts.task.status,
    held.facts.task.version,
    held.attempt.execution_id,
    held.claim.lease_expires_at,
    held.facts.submission?.id,
  ];

  beforeEach(() => open());

  it('claim once', async () => {
    const { task } = await purchase.pending();
    await purchase.pending();
    const request = purchase.claimRequest(purchase.phone);
    const outcomes = valuesOf(await times(20, (pool) => pool.poll(purchase.phone, request)));
    expectOneEffect(outcomes as LifecycleOutcome[], standingOf);
    expect(await eventTypes(task.id)).toEqual(['task.created', 'task.purchase_started', 'task.claimed']);
    expect(await purchase.rows('claims')).toHaveLength(1);
  });

  it('find no task once', async () => {
    const request = purchase.claimRequest(purchase.phone);
    const outcomes = valuesOf(await times(20, (pool) => pool.poll(purchase.phone, request)));
    expectOneEffect(outcomes as LifecycleOutcome[], () => 'no task');
    expect(await purchase.rows('idempotency_records', { outcome: 'NO_TASK' })).toHaveLength(1);
  });

  it('start once', async () => {
    const claimed = await purchase.claimed();
    const request = purchase.startRequest(claimed);
    const outcomes = valuesOf(await times(20, (pool) => pool.callStart(claimed.phone, request)));
    expectOneEffect(outcomes, standingOf);
    expect((await eventTypes(claimed.task_id)).filter((type) => type === 'task.started')).toHaveLength(1);
  });

  it('fence once', async () => {
    const running = await purchase.running();
    const request = purchase.fenceRequest(running);
    const outcomes = valuesOf(await times(20, (pool) => pool.callFence(running.phone, request)));
    expectOneEffect(outcomes, standingOf);
    expect(await purchase.rows('order_submissions')).toHaveLength(1);
    expect(await purchase.standing(running.task_id)).toEqual(['SUBMITTING', 5]);
  });

  it('report once', async () => {
    const submitting = await purchase.submitting();
    const request = purchase.resultRequest(submitting);
    const outcomes = valuesOf(await times(20, (pool) => pool.callResult(submitting.phone, request)));
    expectOneEffect(outcomes, standingOf);
    expect(await purchase.rows('submission_reports')).toHaveLength(1);
    expect((await eventTypes(submitting.task_id)).at(-1)).toBe('task.order_created');
    expect(await purchase.standing(submitting.task_id)).toEqual(['ORDERED', 6]);
  });

  it('create one task', async () => {
    const request = { idempotency_key: uuidv7(), wish: { ...WISH, external_ref: 'REQ-1' } };
    const outcomes = valuesOf(
      await times(20, (pool) => pool.act(pool.admin, (work) => createTask(work, pool.admin, request))),
    );
    expectOneEffect(outcomes, ({ facts }: { facts: { task: { id: string } } }) => facts.task.id);
    expect(await purchase.rows('tasks')).toHaveLength(1);
    expect(await purchase.rows('task_events')).toHaveLength(1);
  });

  it('start one purchase, without a key', async () => {
    const { task } = await purchase.draft();
    const results = await times(20, (pool) => pool.press(task.id, 1));
    expect(codesOf(results)).toEqual([]);
    expect(new Set(valuesOf(results).map(({ authorization }) => authorization!.id)).size).toBe(1);
    expect(await purchase.rows('authorizations')).toHaveLength(1);
    expect(await purchase.standing(task.id)).toEqual(['PENDING', 2]);
  });
});

describe('one key for two bodies', () => {
  beforeEach(() => open());

  it('lets one body of createTask win and refuses IDEMPOTENCY_KEY_REUSED to the other', async () => {
    const idempotency_key = uuidv7();
    const bodies = Array.from({ length: 20 }, (_, index) => ({
      idempotency_key,
      wish: { ...WISH, quantity: 1 + (index % 2) },
    }));
    const results = await atOnce(
      bodies.map(
        (body) => (pool: Purchase) => pool.act(pool.admin, (work) => createTask(work, pool.admin, body)),
      ),
    );
    expect(valuesOf(results)).toHaveLength(10);
    expect(codesOf(results)).toEqual(Array(10).fill('IDEMPOTENCY_KEY_REUSED'));
    expect(await purchase.rows('tasks')).toHaveLength(1);
  });

  it('lets one token of claimNextTask win and refuses IDEMPOTENCY_KEY_REUSED to the other', async () => {
    await purchase.pending();
    const [a, b] = [purchase.claimRequest(purchase.phone), purchase.claimRequest(purchase.phone)];
    const requests = Array.from({ length: 20 }, (_, index) => ({
      ...(index % 2 === 0 ? a : b),
      idempotency_key: a!.idempotency_key,
    }));
    const results = await atOnce(
      requests.map((request) => (pool: Purchase) => pool.poll(purchase.phone, request)),
    );
    expect(valuesOf(results)).toHaveLength(10);
    expect(codesOf(results)).toEqual(Array(10).fill('IDEMPOTENCY_KEY_REUSED'));
    expect(await purchase.rows('claims')).toHaveLength(1);
  });

  it('fences once for 20 different keys', async () => {
    const running = await purchase.running();
    const results = await times(20, (pool) => pool.callFence(running.phone, purchase.fenceRequest(running)));
    expect(valuesOf(results)).toHaveLength(1);
    expect(codesOf(results)).toEqual(Array(19).fill('INVALID_TASK_STATE'));
    expect(await purchase.rows('order_submissions')).toHaveLength(1);
  });

  it('creates one task for 20 keys of two admins with one external reference', async () => {
    const second = await makeUser(purchase.database, 'boss-2', 'ADMIN');
    const admins = [purchase.admin, (await signInAdmin(purchase.database, second)).actor];
    const results = await atOnce(
      Array.from({ length: 20 }, (_, index) => (pool: Purchase) => {
        const admin = admins[(index >> 1) % 2]!;
        const request = { idempotency_key: uuidv7(), wish: { ...WISH, external_ref: 'REQ-1' } };
        return pool.act(admin, (work) => createTask(work, admin, request));
      }),
    );
    expect(codesOf(results)).toEqual(Array(19).fill('DUPLICATE_EXTERNAL_REF'));
    expect(await purchase.rows('tasks')).toHaveLength(1);
  });

  it('lets one of two admins give one external reference to two drafts, 20 times', async () => {
    const second = await makeUser(purchase.database, 'boss-2', 'ADMIN');
    const admins = [purchase.admin, (await signInAdmin(purchase.database, second)).actor];
    for (let round = 0; round < 20; round++) {
      const drafts = [await purchase.draft(), await purchase.draft()];
      const results = await atOnce(
        drafts.map(({ task }, index) => (pool: Purchase) => {
          const wish = { ...WISH, external_ref: `REQ-${round}` };
          const edit = { task_id: task.id, expected_task_version: 1, wish };
          return pool.act(admins[index]!, (work) => updateTask(work, admins[index]!, edit));
        }),
      );
      expect(codesOf(results)).toEqual(['DUPLICATE_EXTERNAL_REF']);
    }
  });
});

describe('at the end of a task', () => {
  beforeEach(() => open());

  it('a result, a heartbeat and a rival claim at one moment end in ORDERED once, 50 times', async () => {
    const rival = await purchase.addPhone();
    for (let round = 0; round < 50; round++) {
      const submitting = await purchase.submitting();
      const calls: ((pool: Purchase) => Promise<unknown>)[] = [
        (pool) => pool.callResult(submitting.phone, purchase.resultRequest(submitting)),
        (pool) => pool.callHeartbeat(submitting.phone, purchase.heartbeatOf(submitting)),
        (pool) => pool.poll(rival),
      ];
      for (let turn = 0; turn < round % 3; turn++) calls.push(calls.shift()!);
      const results = await atOnce(calls);
      for (const code of codesOf(results)) expect(code).toBe('CLAIM_NOT_CURRENT');
      expect(await purchase.standing(submitting.task_id)).toEqual(['ORDERED', 6]);
      expect((await purchase.facts(submitting.task_id)).claim).toMatchObject({ closed_status: 'ORDERED' });
    }
  });

  it('two different results at one moment move the task once and keep both reports, 30 times', async () => {
    for (let round = 0; round < 30; round++) {
      const submitting = await purchase.submitting();
      const results = await atOnce([
        (pool) => pool.callResult(submitting.phone, purchase.resultRequest(submitting)),
        (pool) =>
          pool.callResult(submitting.phone, purchase.resultRequest(submitting, { outcome: 'NOT_SUBMITTED' })),
      ]);
      expect(codesOf(results)).toEqual([]);
      const [status, version] = await purchase.standing(submitting.task_id);
      expect(['ORDERED', 'NEEDS_MANUAL']).toContain(status);
      expect(version).toBe(6);
      const reports = await purchase.rows('submission_reports', { task_id: submitting.task_id });
      expect(reports).toHaveLength(2);
      expect(reports.filter(({ contradicting }) => contradicting)).toHaveLength(status === 'ORDERED' ? 1 : 0);
    }
  });

  it('an edit and a start of a purchase at one moment: one of them wins, 30 times', async () => {
    for (let round = 0; round < 30; round++) {
      const { task } = await purchase.draft();
      const wish = { ...WISH, quantity: 7 };
      const edit = { task_id: task.id, expected_task_version: 1, wish };
      const results = await atOnce<unknown>([
        (pool) => pool.press(task.id, 1),
        (pool) => pool.act(pool.admin, (work) => updateTask(work, pool.admin, edit)),
      ]);
      expect(valuesOf(results)).toHaveLength(1);
      expect(codesOf(results)).toEqual(['VERSION_CONFLICT']);
    }
  });

  it('a whole burst of phones works ten tasks to ten orders', async () => {
    const phones = [purchase.phone, ...(await purchase.addPhones(9))];
    for (let i = 0; i < 10; i++) await purchase.pending();
    const ordered = valuesOf(
      await atOnce(
        phones.map((phone) => async (pool: Purchase) => {
          const claimed: Claimed = await pool.claim(phone);
          return pool.report(await pool.fence(await pool.start(claimed)));
        }),
      ),
    );
    expect(new Set(ordered.map(({ task_id }) => task_id)).size).toBe(10);
    for (const { task_id } of ordered) expect(await purchase.standing(task_id)).toEqual(['ORDERED', 6]);
  });
});
