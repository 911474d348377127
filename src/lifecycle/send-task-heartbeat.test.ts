import { v7 as uuidv7 } from 'uuid';
import type { DeviceActor } from '../contract/actor';
import type { ErrorCode } from '../contract/generated/types.gen';
import { expectRefusal } from '../testing/expect-refusal';
import { expectInvariants } from '../testing/invariants';
import { openPurchase, type Purchase, type Running, shifted } from '../testing/purchase';
import type { TaskHeartbeat } from './send-task-heartbeat';

let purchase: Purchase;

beforeEach(async () => {
  purchase = await openPurchase();
});
afterEach(async () => {
  await expectInvariants(purchase.database);
  await purchase.close();
});

const beat = (running: Running, over: Partial<TaskHeartbeat> = {}) =>
  purchase.callHeartbeat(running.phone, purchase.heartbeatOf(running, over));

describe('sendTaskHeartbeat', () => {
  it.each(['RUNNING', 'WAITING_CONFIRMATION', 'SUBMITTING'])(
    'renews the run lease of a %s task and leaves no event and no version',
    async (status) => {
      const running = await purchase.running();
      if (status === 'WAITING_CONFIRMATION') await purchase.confirmation(running, 'REQUESTED');
      if (status === 'SUBMITTING') await purchase.fence(running);
      const standing = await purchase.standing(running.task_id);
      const events = await purchase.events(running.task_id);

      purchase.clock.advance(30_000);
      const held = await beat(running, { step: 'PRODUCT_PAGE' });

      const now = purchase.clock.now();
      expect(held.claim.lease_expires_at).toBe(shifted(now, 90_000));
      const facts = await purchase.facts(running.task_id);
      expect(facts.claim?.lease_expires_at).toBe(shifted(now, 90_000));
      expect(facts.attempt).toMatchObject({ step: 'PRODUCT_PAGE', last_seen_at: now });
      expect(standing[0]).toBe(status);
      expect(await purchase.standing(running.task_id)).toEqual(standing);
      expect(await purchase.events(running.task_id)).toEqual(events);
    },
  );

  it('may be sent a hundred times: the task stays with its phone and is never queued again', async () => {
    const running = await purchase.running();
    const other = await purchase.addPhone();
    for (let sent = 0; sent < 100; sent++) {
      purchase.clock.advance(45_000);
      await beat(running, { step: `STEP_${sent}` });
      if (sent % 20 === 0) {
        await purchase.beat(other);
        expect(await purchase.poll(other)).toEqual({ noTask: true, replayed: false });
      }
    }
    expect(await purchase.standing(running.task_id)).toEqual(['RUNNING', 4]);
    expect(await purchase.events(running.task_id)).toHaveLength(4);
  });

  it('renews a run lease beyond the end of the authorization', async () => {
    const { authorization } = await purchase.pending({}, { authorization_ttl_seconds: 60 });
    const running = await purchase.start(await purchase.claim());
    purchase.clock.set(authorization!.expires_at);
    expect((await beat(running)).claim.lease_expires_at).toBe(shifted(authorization!.expires_at, 90_000));
  });

  it('is accepted while a cancel is requested: that is how the phone learns of it', async () => {
    const running = await purchase.running();
    await purchase.cancelRequested(running);
    expect((await beat(running)).attempt.cancel_requested_at).toBe(purchase.clock.now());
  });

  it('renews until 1 ms before lease_expires_at', async () => {
    const running = await purchase.running();
    purchase.clock.set(shifted(running.lease_expires_at, -1));
    expect((await beat(running)).claim.lease_expires_at).toBe(shifted(running.lease_expires_at, 89_999));
  });

  it.each([
    ['now equals lease_expires_at', 0],
    ['now is 1 ms after lease_expires_at', 1],
  ])('refuses LEASE_EXPIRED when %s', async (_when, after) => {
    const running = await purchase.running();
    purchase.clock.set(shifted(running.lease_expires_at, after));
    await expectRefusal(purchase.database, 'LEASE_EXPIRED', () => beat(running));
  });

  it.each(['UNKNOWN', 'NOT_SUBMITTED'] as const)(
    'refuses INVALID_TASK_STATE after the result %s',
    async (outcome) => {
      const submitting = await purchase.submitting();
      await purchase.report(submitting, { outcome });
      await expectRefusal(purchase.database, 'INVALID_TASK_STATE', () => beat(submitting));
    },
  );

  it('refuses CLAIM_NOT_CURRENT when it was under way while the order was reported', async () => {
    const submitting = await purchase.submitting();
    await purchase.report(submitting);
    await expectRefusal(purchase.database, 'CLAIM_NOT_CURRENT', () => beat(submitting));
  });

  it('refuses EXECUTION_MISMATCH for a claim that was never started', async () => {
    const claimed = await purchase.claimed();
    await expectRefusal(purchase.database, 'EXECUTION_MISMATCH', () =>
      beat({ ...claimed, execution_id: uuidv7(), start_request: purchase.startRequest(claimed) }),
    );
  });

  // -------------------------------------------------------------------------------------- fixed order

  interface Fault {
    code: ErrorCode;
    arrange?(running: Running, other: DeviceActor): Promise<void>;
    bend?(heartbeat: TaskHeartbeat): TaskHeartbeat;
  }
  /** In the documented order; a closed claim and a wrong state have tests of their own above. */
  const faults: Fault[] = [
    { code: 'TASK_NOT_FOUND', bend: (heartbeat) => ({ ...heartbeat, task_id: uuidv7() }) },
    { code: 'CLAIM_TOKEN_MISMATCH', bend: (heartbeat) => ({ ...heartbeat, token_hash: 'f'.repeat(64) }) },
    { code: 'CLAIM_NOT_CURRENT', arrange: (running) => purchase.canceled(running) },
    { code: 'GENERATION_MISMATCH', bend: (heartbeat) => ({ ...heartbeat, claim_generation: 9 }) },
    { code: 'EXECUTION_MISMATCH', bend: (heartbeat) => ({ ...heartbeat, execution_id: uuidv7() }) },
    {
      code: 'INVALID_TASK_STATE',
      async arrange(running) {
        if ((await purchase.facts(running.task_id)).claim?.closed_at !== null) return;
        await purchase.report(await purchase.fence(running), { outcome: 'UNKNOWN' });
      },
    },
    { code: 'LEASE_EXPIRED', arrange: async () => purchase.clock.advance(3_600_000) },
  ];
  /** Neighbours are enough: the guards stand in one row. */
  const pairs = faults.slice(1).map((second, index) => [faults[index]!, second] as const);

  async function refuse(present: Fault[]): Promise<void> {
    const running = await purchase.running();
    const other = await purchase.addPhone();
    for (const fault of present) await fault.arrange?.(running, other);
    const heartbeat = present.reduce(
      (bent, fault) => fault.bend?.(bent) ?? bent,
      purchase.heartbeatOf(running),
    );
    await expectRefusal(purchase.database, present[0]!.code, () =>
      purchase.callHeartbeat(running.phone, heartbeat),
    );
  }

  it.each(faults.map((fault) => [fault.code, fault] as const))('refuses %s alone', (_code, fault) =>
    refuse([fault]),
  );
  it.each(pairs.map(([first, second]) => [first.code, second.code, first, second] as const))(
    'refuses %s before %s',
    (_first, _second, first, second) => refuse([first, second]),
  );
});
