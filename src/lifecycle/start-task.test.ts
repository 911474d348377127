import { v7 as uuidv7 } from 'uuid';
import type { DeviceActor } from '../contract/actor';
import type { ErrorCode } from '../contract/generated/types.gen';
import { allFacts } from '../testing/all-facts';
import { expectRefusal } from '../testing/expect-refusal';
import { expectInvariants } from '../testing/invariants';
import { type Claimed, openPurchase, type Purchase, shifted } from '../testing/purchase';
import type { StartRequest } from './start-task';

let purchase: Purchase;

beforeEach(async () => {
  purchase = await openPurchase();
});
afterEach(async () => {
  await expectInvariants(purchase.database);
  await purchase.close();
});

describe('startTask', () => {
  it('begins: RUNNING, an execution id, a run lease in place of the claim lease, one event', async () => {
    const claimed = await purchase.claimed();
    purchase.clock.advance(5_000);
    const running = await purchase.start(claimed);

    const now = purchase.clock.now();
    expect(running).toMatchObject({ version: 4, lease_expires_at: shifted(now, 90_000) });
    expect(await purchase.facts(claimed.task_id)).toMatchObject({
      task: { status: 'RUNNING', version: 4, lease_expires_at: null, authorization_expires_at: null },
      authorization: { status: 'ACTIVE' },
      claim: { id: claimed.claim_id, lease_expires_at: shifted(now, 90_000), closed_at: null },
      attempt: {
        status: 'ORDERING',
        execution_id: running.execution_id,
        started_at: now,
        last_seen_at: now,
        ended_at: null,
      },
    });
    expect(await purchase.lastEvent(claimed.task_id)).toEqual({
      type: 'task.started',
      from_status: 'CLAIMED',
      to_status: 'RUNNING',
      version: 4,
      actor: ['DEVICE', claimed.phone.user_id, claimed.phone.device_id],
      attempt_id: claimed.attempt_id,
      detail: { claim_generation: 1, execution_id: running.execution_id },
    });
    expect(await purchase.events(claimed.task_id)).toHaveLength(4);
  });

  it('gives a run lease that may outlive the authorization', async () => {
    const { authorization } = await purchase.pending({}, { authorization_ttl_seconds: 60 });
    const claimed = await purchase.claim();
    purchase.clock.set(shifted(authorization!.expires_at, -1));
    const running = await purchase.start(claimed);
    expect(running.lease_expires_at).toBe(shifted(authorization!.expires_at, 89_999));
  });

  it('starts until 1 ms before lease_expires_at', async () => {
    const claimed = await purchase.claimed();
    purchase.clock.set(shifted(claimed.lease_expires_at, -1));
    expect((await purchase.start(claimed)).version).toBe(4);
  });

  it.each([
    ['now equals lease_expires_at', 0],
    ['now is 1 ms after lease_expires_at', 1],
  ])('refuses LEASE_EXPIRED when %s', async (_when, after) => {
    const claimed = await purchase.claimed();
    purchase.clock.set(shifted(claimed.lease_expires_at, after));
    await expectRefusal(purchase.database, 'LEASE_EXPIRED', () => purchase.start(claimed));
  });

  it('refuses LEASE_EXPIRED at the end of the authorization that capped the lease', async () => {
    const { authorization } = await purchase.pending({}, { authorization_ttl_seconds: 60 });
    const claimed = await purchase.claim();
    purchase.clock.set(authorization!.expires_at);
    await expectRefusal(purchase.database, 'LEASE_EXPIRED', () => purchase.start(claimed));
  });

  // -------------------------------------------------------------------------------------- fixed order

  interface Situation {
    claimed: Claimed;
    other: DeviceActor;
    taken?: Claimed;
  }
  interface Fault {
    code: ErrorCode;
    arrange?(situation: Situation): Promise<void>;
    request?(request: StartRequest): StartRequest;
  }
  let spentKey: string;

  /** In the documented order. What is arranged for a later fault keeps what an earlier one arranged. */
  const faults: Fault[] = [
    { code: 'IDEMPOTENCY_KEY_REUSED', request: (request) => ({ ...request, idempotency_key: spentKey }) },
    { code: 'TASK_NOT_FOUND', request: (request) => ({ ...request, task_id: uuidv7() }) },
    { code: 'CLAIM_TOKEN_MISMATCH', request: (request) => ({ ...request, token_hash: 'f'.repeat(64) }) },
    {
      code: 'CLAIM_NOT_CURRENT',
      async arrange(situation) {
        situation.taken = await purchase.takenOver(situation.claimed, situation.other);
      },
    },
    {
      code: 'GENERATION_MISMATCH',
      request: (request) => ({ ...request, claim_generation: request.claim_generation + 1 }),
    },
    {
      code: 'INVALID_TASK_STATE',
      arrange: async ({ claimed, taken }) => void (await purchase.start(taken ?? claimed)),
    },
    { code: 'LEASE_EXPIRED', arrange: async () => purchase.clock.advance(3_600_000) },
    {
      code: 'VERSION_CONFLICT',
      request: (request) => ({ ...request, expected_version: request.expected_version + 7 }),
    },
  ];
  /** Neighbours are enough: the guards stand in one row. */
  const pairs = faults.slice(1).map((second, index) => [faults[index]!, second] as const);

  async function refuse(present: Fault[]): Promise<void> {
    spentKey = (await purchase.ordered()).start_request.idempotency_key;
    const situation: Situation = { other: await purchase.addPhone(), claimed: await purchase.claimed() };
    for (const fault of present) await fault.arrange?.(situation);
    const request = present.reduce(
      (bent, fault) => fault.request?.(bent) ?? bent,
      purchase.startRequest(situation.claimed),
    );
    await expectRefusal(purchase.database, present[0]!.code, () =>
      purchase.callStart(situation.claimed.phone, request),
    );
  }

  it.each(faults.map((fault) => [fault.code, fault] as const))('refuses %s alone', (_code, fault) =>
    refuse([fault]),
  );
  it.each(pairs.map(([first, second]) => [first.code, second.code, first, second] as const))(
    'refuses %s before %s',
    (_first, _second, first, second) => refuse([first, second]),
  );

  // ------------------------------------------------------------------------------------------ ownership

  it('refuses TASK_NOT_FOUND alike for a task that does not exist and one that another pair holds', async () => {
    const claimed = await purchase.claimed();
    const other = await purchase.addPhone();
    const theirs = await expectRefusal(purchase.database, 'TASK_NOT_FOUND', () =>
      purchase.callStart(other, purchase.startRequest(claimed)),
    );
    const nobodys = await expectRefusal(purchase.database, 'TASK_NOT_FOUND', () =>
      purchase.callStart(other, purchase.startRequest(claimed, { task_id: uuidv7() })),
    );
    expect(theirs.extra).toEqual(nobodys.extra);
  });

  it('refuses CLAIM_TOKEN_MISMATCH for the token of the pair on another task, and of another pair on this', async () => {
    const old = await purchase.ordered();
    const other = await purchase.addPhone();
    const claimed = await purchase.claimed();
    await expectRefusal(purchase.database, 'CLAIM_TOKEN_MISMATCH', () =>
      purchase.start(claimed, { token_hash: old.token_hash }),
    );
    const taken = await purchase.takenOver(claimed, other);
    await expectRefusal(purchase.database, 'CLAIM_TOKEN_MISMATCH', () =>
      purchase.start(claimed, { token_hash: taken.token_hash }),
    );
  });

  it('tells how the task stands only while the claim is open', async () => {
    const claimed = await purchase.claimed();
    const stale = await expectRefusal(purchase.database, 'VERSION_CONFLICT', () =>
      purchase.start(claimed, { expected_version: 2 }),
    );
    expect(stale.extra.current).toEqual({ task_id: claimed.task_id, status: 'CLAIMED', version: 3 });
    await purchase.takenOver(claimed, await purchase.addPhone());
    const closed = await expectRefusal(purchase.database, 'CLAIM_NOT_CURRENT', () => purchase.start(claimed));
    expect(closed.extra.current).toBeUndefined();
  });

  // --------------------------------------------------------------------------------------------- replay

  it('replays the same fact and writes nothing', async () => {
    const running = await purchase.running();
    const before = await allFacts(purchase.database);
    const { held, replayed } = await purchase.callStart(running.phone, running.start_request);
    expect(replayed).toBe(true);
    expect(held.attempt.execution_id).toBe(running.execution_id);
    expect(held.facts.task).toMatchObject({ status: 'RUNNING', version: 4 });
    expect(await allFacts(purchase.database)).toBe(before);
  });

  it('replays while the claim is open: with a lease run out, after the fence, after an uncertain result', async () => {
    const running = await purchase.running();
    const again = async () =>
      (await purchase.callStart(running.phone, running.start_request)).held.facts.task;
    purchase.clock.set(running.lease_expires_at);
    expect((await again()).status).toBe('RUNNING');
    purchase.clock.advance(-1);
    const submitting = await purchase.fence(running);
    expect((await again()).status).toBe('SUBMITTING');
    await purchase.report(submitting, { outcome: 'UNKNOWN' });
    expect((await again()).status).toBe('NEEDS_MANUAL');
  });

  it.each(['ordered', 'canceled'])(
    'refuses CLAIM_NOT_CURRENT as a replay once the task is %s',
    async (end) => {
      const running = await purchase.running();
      if (end === 'ordered') await purchase.report(await purchase.fence(running));
      else await purchase.canceled(running);
      await expectRefusal(purchase.database, 'CLAIM_NOT_CURRENT', () =>
        purchase.callStart(running.phone, running.start_request),
      );
    },
  );

  it.each([['claim_generation'], ['expected_version'], ['token_hash'], ['task_id']] as const)(
    'refuses IDEMPOTENCY_KEY_REUSED under the same key with another %s',
    async (field) => {
      const running = await purchase.running();
      const other = {
        claim_generation: 9,
        expected_version: 9,
        token_hash: 'e'.repeat(64),
        task_id: uuidv7(),
      };
      await expectRefusal(purchase.database, 'IDEMPOTENCY_KEY_REUSED', () =>
        purchase.callStart(running.phone, { ...running.start_request, [field]: other[field] }),
      );
    },
  );

  it('records no refusal: the same key starts once its fault is gone', async () => {
    const claimed = await purchase.claimed();
    const key = uuidv7();
    purchase.clock.set(claimed.lease_expires_at);
    await expectRefusal(purchase.database, 'LEASE_EXPIRED', () =>
      purchase.start(claimed, { idempotency_key: key }),
    );
    purchase.clock.advance(-1);
    expect((await purchase.start(claimed, { idempotency_key: key })).version).toBe(4);
  });

  it('refuses a second start under another key with INVALID_TASK_STATE', async () => {
    const running = await purchase.running();
    await expectRefusal(purchase.database, 'INVALID_TASK_STATE', () =>
      purchase.start(running, { expected_version: 4 }),
    );
  });
});
