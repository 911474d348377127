import { v7 as uuidv7 } from 'uuid';
import type { ErrorCode } from '../contract/generated/types.gen';
import { allFacts } from '../testing/all-facts';
import { expectRefusal } from '../testing/expect-refusal';
import { expectInvariants } from '../testing/invariants';
import { OFFER, openPurchase, type Purchase, type Running, shifted, WISH } from '../testing/purchase';
import type { FenceRequest } from './fence-submission';

let purchase: Purchase;

beforeEach(async () => {
  purchase = await openPurchase();
});
afterEach(async () => {
  await expectInvariants(purchase.database);
  await purchase.close();
});

/** A running task whose authorization ends before its run lease. */
async function runningOnShortPermission(): Promise<{ running: Running; expires_at: string }> {
  const { authorization } = await purchase.pending({}, { authorization_ttl_seconds: 60 });
  return { running: await purchase.start(await purchase.claim()), expires_at: authorization!.expires_at };
}

describe('fenceSubmission', () => {
  it('fences submission, attempt and authorization together, renews the lease, leaves one event', async () => {
    const running = await purchase.running();
    purchase.clock.advance(10_000);
    const submitting = await purchase.fence(running);

    const now = purchase.clock.now();
    expect(submitting).toMatchObject({ version: 5, lease_expires_at: shifted(now, 90_000) });
    expect(await purchase.facts(running.task_id)).toMatchObject({
      task: { status: 'SUBMITTING', version: 5, ended_at: null },
      authorization: { id: running.authorization_id, status: 'FENCED', closed_at: null },
      claim: { closed_at: null, lease_expires_at: shifted(now, 90_000) },
      attempt: { status: 'FENCED', ended_at: null },
      submission: {
        id: submitting.submission_id,
        attempt_id: running.attempt_id,
        authorization_id: running.authorization_id,
        confirmation_id: null,
        status: 'FENCED',
        ...OFFER,
        fenced_at: now,
        order_no: null,
      },
    });
    expect(await purchase.lastEvent(running.task_id)).toEqual({
      type: 'task.submission_fenced',
      from_status: 'RUNNING',
      to_status: 'SUBMITTING',
      version: 5,
      actor: ['DEVICE', running.phone.user_id, running.phone.device_id],
      attempt_id: running.attempt_id,
      detail: OFFER,
    });
    expect(await purchase.events(running.task_id)).toHaveLength(5);
  });

  describe('lease and authorization', () => {
    it('fences until 1 ms before lease_expires_at', async () => {
      const running = await purchase.running();
      purchase.clock.set(shifted(running.lease_expires_at, -1));
      expect((await purchase.fence(running)).version).toBe(5);
    });

    it.each([
      ['now equals lease_expires_at', 0],
      ['now is 1 ms after lease_expires_at', 1],
    ])('refuses LEASE_EXPIRED when %s', async (_when, after) => {
      const running = await purchase.running();
      purchase.clock.set(shifted(running.lease_expires_at, after));
      await expectRefusal(purchase.database, 'LEASE_EXPIRED', () => purchase.fence(running));
    });

    it('fences until 1 ms before the authorization expires', async () => {
      const { running, expires_at } = await runningOnShortPermission();
      purchase.clock.set(shifted(expires_at, -1));
      expect((await purchase.fence(running)).version).toBe(5);
    });

    it.each([
      ['now equals its expires_at', 0],
      ['now is 1 ms after its expires_at', 1],
    ])('refuses AUTHORIZATION_EXPIRED when %s', async (_when, after) => {
      const { running, expires_at } = await runningOnShortPermission();
      purchase.clock.set(shifted(expires_at, after));
      await expectRefusal(purchase.database, 'AUTHORIZATION_EXPIRED', () => purchase.fence(running));
    });
  });

  describe('the offer', () => {
    it.each([
      ['at both limits', {}],
      ['below both limits', { unit_price_cents: 1, total_cents: 1 }],
    ])('fences an offer %s', async (_what, offer) => {
      expect((await purchase.fence(await purchase.running(), offer)).version).toBe(5);
    });

    it.each([
      ['OFFER_MISMATCH', 'one piece fewer', { quantity: 1 }],
      ['OFFER_MISMATCH', 'one piece more', { quantity: 3 }],
      ['PRICE_LIMIT_EXCEEDED', 'one cent more a piece', { unit_price_cents: 5_001 }],
      ['PRICE_LIMIT_EXCEEDED', 'one cent more in total', { total_cents: 9_001 }],
    ] as const)('refuses %s for %s', async (code, _what, offer) => {
      const running = await purchase.running();
      await expectRefusal(purchase.database, code, () => purchase.fence(running, offer));
    });

    it('checks the wish that the authorization froze, not what a hand changed in the row since', async () => {
      const running = await purchase.running();
      const write = (changes: object) =>
        purchase.database.write((work) => work.trx('tasks').where('id', running.task_id).update(changes));
      await write({ max_total_cents: 1, quantity: 9 });
      expect((await purchase.fence(running)).version).toBe(5);
      await write({ max_total_cents: WISH.max_total_cents, quantity: WISH.quantity });
    });
  });

  describe('confirmation', () => {
    it('fences for exactly the offer that a person approved', async () => {
      const start = await purchase.running(undefined, { confirmation_required: true });
      const { confirmation_id, running } = await purchase.confirmation(start, 'APPROVED');
      const submitting = await purchase.fence(running, { confirmation_id });
      expect((await purchase.facts(running.task_id)).submission).toMatchObject({
        id: submitting.submission_id,
        confirmation_id,
      });
    });

    it('needs the id of an approved confirmation even where the task asks for none', async () => {
      const { running } = await purchase.confirmation(await purchase.running(), 'APPROVED');
      await expectRefusal(purchase.database, 'CONFIRMATION_STALE', () => purchase.fence(running));
    });

    it('refuses CONFIRMATION_REQUIRED where the task asks for one and nobody was asked', async () => {
      const running = await purchase.running(undefined, { confirmation_required: true });
      await expectRefusal(purchase.database, 'CONFIRMATION_REQUIRED', () => purchase.fence(running));
      await expectRefusal(purchase.database, 'CONFIRMATION_REQUIRED', () =>
        purchase.fence(running, { confirmation_id: uuidv7() }),
      );
    });

    it('refuses CONFIRMATION_STALE for an id where nobody was asked', async () => {
      const running = await purchase.running();
      await expectRefusal(purchase.database, 'CONFIRMATION_STALE', () =>
        purchase.fence(running, { confirmation_id: uuidv7() }),
      );
    });

    it('refuses CONFIRMATION_STALE for a rejected one', async () => {
      const { confirmation_id, running } = await purchase.confirmation(await purchase.running(), 'REJECTED');
      await expectRefusal(purchase.database, 'CONFIRMATION_STALE', () =>
        purchase.fence(running, { confirmation_id }),
      );
    });

    it('refuses CONFIRMATION_STALE for an approved one that is not the latest', async () => {
      const first = await purchase.confirmation(await purchase.running(), 'APPROVED');
      const second = await purchase.confirmation(first.running, 'REJECTED');
      for (const confirmation_id of [first.confirmation_id, second.confirmation_id]) {
        await expectRefusal(purchase.database, 'CONFIRMATION_STALE', () =>
          purchase.fence(second.running, { confirmation_id }),
        );
      }
    });

    it.each([[{ unit_price_cents: 4_999 }], [{ total_cents: 8_999 }]])(
      'refuses OFFER_MISMATCH when an approved offer has other numbers: %p',
      async (offer) => {
        const { confirmation_id, running } = await purchase.confirmation(
          await purchase.running(),
          'APPROVED',
        );
        await expectRefusal(purchase.database, 'OFFER_MISMATCH', () =>
          purchase.fence(running, { ...offer, confirmation_id }),
        );
      },
    );

    it('refuses INVALID_TASK_STATE while a person is still asked', async () => {
      const { confirmation_id, running } = await purchase.confirmation(await purchase.running(), 'REQUESTED');
      await expectRefusal(purchase.database, 'INVALID_TASK_STATE', () =>
        purchase.fence(running, { confirmation_id }),
      );
    });
  });

  // -------------------------------------------------------------------------------------- fixed order

  interface Fault {
    code: ErrorCode;
    arrange?(running: Running): Promise<unknown>;
    bend?(request: FenceRequest): FenceRequest;
  }
  let spentKey: string;

  /** In the documented order. The task asks for a confirmation; without a fault of its own it has an approved one. */
  const faults: Fault[] = [
    { code: 'IDEMPOTENCY_KEY_REUSED', bend: (request) => ({ ...request, idempotency_key: spentKey }) },
    { code: 'TASK_NOT_FOUND', bend: (request) => ({ ...request, task_id: uuidv7() }) },
    { code: 'CLAIM_TOKEN_MISMATCH', bend: (request) => ({ ...request, token_hash: 'f'.repeat(64) }) },
    { code: 'CLAIM_NOT_CURRENT', arrange: (running) => purchase.canceled(running) },
    { code: 'GENERATION_MISMATCH', bend: (request) => ({ ...request, claim_generation: 9 }) },
    { code: 'EXECUTION_MISMATCH', bend: (request) => ({ ...request, execution_id: uuidv7() }) },
    {
      code: 'INVALID_TASK_STATE',
      async arrange(running) {
        if ((await purchase.facts(running.task_id)).claim?.closed_at !== null) return;
        await purchase.confirmation(running, 'REQUESTED');
      },
    },
    { code: 'LEASE_EXPIRED', arrange: async () => purchase.clock.advance(3_600_000) },
    { code: 'CANCEL_REQUESTED', arrange: (running) => purchase.cancelRequested(running) },
    { code: 'VERSION_CONFLICT', bend: (request) => ({ ...request, expected_version: 77 }) },
    {
      code: 'AUTHORIZATION_EXPIRED',
      arrange: (running) =>
        purchase.database.write((work) =>
          work.trx('authorizations').where('id', running.authorization_id).update({ expires_at: work.now }),
        ),
    },
    { code: 'OFFER_MISMATCH', bend: (request) => ({ ...request, quantity: 3 }) },
    { code: 'PRICE_LIMIT_EXCEEDED', bend: (request) => ({ ...request, total_cents: 9_001 }) },
    {
      code: 'CONFIRMATION_STALE',
      bend: ({ confirmation_id: _id, ...request }) => request,
    },
  ];
  /** Neighbours are enough: the guards stand in one row. */
  const pairs = faults.slice(1).map((second, index) => [faults[index]!, second] as const);

  async function refuse(present: Fault[]): Promise<void> {
    spentKey = (await purchase.ordered()).fence_request.idempotency_key;
    const asked = await purchase.running(purchase.phone, { confirmation_required: true });
    const { running, confirmation_id } = await purchase.confirmation(asked, 'APPROVED');
    for (const fault of present) await fault.arrange?.(running);
    const request = present.reduce(
      (bent, fault) => fault.bend?.(bent) ?? bent,
      purchase.fenceRequest(running, { confirmation_id }),
    );
    await expectRefusal(purchase.database, present[0]!.code, () =>
      purchase.callFence(running.phone, request),
    );
  }

  it.each(faults.map((fault) => [fault.code, fault] as const))('refuses %s alone', (_code, fault) =>
    refuse([fault]),
  );
  it.each(pairs.map(([first, second]) => [first.code, second.code, first, second] as const))(
    'refuses %s before %s',
    (_first, _second, first, second) => refuse([first, second]),
  );

  it('refuses PRICE_LIMIT_EXCEEDED before CONFIRMATION_REQUIRED', async () => {
    const running = await purchase.running(undefined, { confirmation_required: true });
    await expectRefusal(purchase.database, 'PRICE_LIMIT_EXCEEDED', () =>
      purchase.fence(running, { total_cents: 9_001 }),
    );
  });

  it('refuses EXECUTION_MISMATCH for a claim that was never started', async () => {
    const claimed = await purchase.claimed();
    const start_request = purchase.startRequest(claimed);
    await expectRefusal(purchase.database, 'EXECUTION_MISMATCH', () =>
      purchase.fence({ ...claimed, execution_id: uuidv7(), start_request }),
    );
  });

  it('refuses CANCEL_REQUESTED: a phone that is asked to stop can no longer fence', async () => {
    const running = await purchase.running();
    await purchase.cancelRequested(running);
    const refusal = await expectRefusal(purchase.database, 'CANCEL_REQUESTED', () => purchase.fence(running));
    expect(refusal.extra.current).toEqual({ task_id: running.task_id, status: 'RUNNING', version: 4 });
  });

  // --------------------------------------------------------------------------------------------- replay

  it('replays the same fact while SUBMITTING with a live lease, and writes nothing', async () => {
    const submitting = await purchase.submitting();
    purchase.clock.set(shifted(submitting.lease_expires_at, -1));
    const before = await allFacts(purchase.database);
    const { held, replayed } = await purchase.callFence(submitting.phone, submitting.fence_request);
    expect(replayed).toBe(true);
    expect(held.facts.submission?.id).toBe(submitting.submission_id);
    expect(held.facts.task).toMatchObject({ status: 'SUBMITTING', version: 5 });
    expect(held.claim.lease_expires_at).toBe(submitting.lease_expires_at);
    expect(await allFacts(purchase.database)).toBe(before);
  });

  it('is no second permit: a replay is refused LEASE_EXPIRED at and after the end of the lease', async () => {
    const submitting = await purchase.submitting();
    for (const after of [0, 1]) {
      purchase.clock.set(shifted(submitting.lease_expires_at, after));
      await expectRefusal(purchase.database, 'LEASE_EXPIRED', () =>
        purchase.callFence(submitting.phone, submitting.fence_request),
      );
    }
  });

  it('replays after the authorization has run out: the fence was before that', async () => {
    const { running, expires_at } = await runningOnShortPermission();
    purchase.clock.set(shifted(expires_at, -1));
    const submitting = await purchase.fence(running);
    purchase.clock.set(expires_at);
    expect((await purchase.callFence(submitting.phone, submitting.fence_request)).replayed).toBe(true);
  });

  it.each(['ORDER_CREATED', 'UNKNOWN', 'NOT_SUBMITTED'] as const)(
    'refuses INVALID_TASK_STATE as a replay once the result %s is in, with the lease live or not',
    async (outcome) => {
      const submitting = await purchase.submitting();
      await purchase.report(submitting, { outcome });
      for (const later of [0, 3_600_000]) {
        purchase.clock.advance(later);
        const refusal = await expectRefusal(purchase.database, 'INVALID_TASK_STATE', () =>
          purchase.callFence(submitting.phone, submitting.fence_request),
        );
        expect(refusal.extra.current).toEqual({
          task_id: submitting.task_id,
          status: outcome === 'ORDER_CREATED' ? 'ORDERED' : 'NEEDS_MANUAL',
          version: 6,
        });
      }
    },
  );

  it.each([[{ total_cents: 8_000 }], [{ confirmation_id: '018f3a5c-7e10-7a00-8000-000000000001' }]])(
    'refuses IDEMPOTENCY_KEY_REUSED under the same key with %p',
    async (change) => {
      const submitting = await purchase.submitting();
      await expectRefusal(purchase.database, 'IDEMPOTENCY_KEY_REUSED', () =>
        purchase.callFence(submitting.phone, { ...submitting.fence_request, ...change }),
      );
    },
  );

  it('refuses a second fence under another key with INVALID_TASK_STATE', async () => {
    const submitting = await purchase.submitting();
    await expectRefusal(purchase.database, 'INVALID_TASK_STATE', () => purchase.fence(submitting));
    expect(await purchase.rows('order_submissions')).toHaveLength(1);
  });

  it('records no refusal: the same key fences once the offer is right', async () => {
    const running = await purchase.running();
    const key = { idempotency_key: uuidv7() };
    await expectRefusal(purchase.database, 'PRICE_LIMIT_EXCEEDED', () =>
      purchase.fence(running, { ...key, total_cents: 9_001 }),
    );
    expect((await purchase.fence(running, key)).version).toBe(5);
  });
});
