import { v7 as uuidv7 } from 'uuid';
import { allFacts } from '../testing/all-facts';
import { expectRefusal } from '../testing/expect-refusal';
import { expectInvariants } from '../testing/invariants';
import { type Claimed, claimedOf, heldOf, openPurchase, type Purchase, shifted } from '../testing/purchase';
import { claimNextTask } from './claim-next-task';

const DAY_MS = 86_400_000;

let purchase: Purchase;

beforeEach(async () => {
  purchase = await openPurchase();
});
afterEach(async () => {
  await expectInvariants(purchase.database);
  await purchase.close();
});

/** Sent again, byte for byte. */
const again = (claimed: Claimed) => purchase.poll(claimed.phone, claimed.request);
const noTaskRecords = () => purchase.rows('idempotency_records', { outcome: 'NO_TASK' });

describe('claimNextTask', () => {
  it('hands out a waiting task: claim, attempt, generation, version and one event', async () => {
    const { task, authorization } = await purchase.pending();
    const claimed = await purchase.claim();

    const now = purchase.clock.now();
    const facts = await purchase.facts(task.id);
    expect(facts.task).toMatchObject({
      status: 'CLAIMED',
      version: 3,
      claim_generation: 1,
      updated_at: now,
      ended_at: null,
      lease_expires_at: shifted(now, 600_000),
      authorization_expires_at: authorization!.expires_at,
    });
    expect(facts.claim).toMatchObject({
      id: claimed.claim_id,
      generation: 1,
      authorization_id: authorization!.id,
      user_id: purchase.phone.user_id,
      device_id: purchase.phone.device_id,
      token_hash: claimed.token_hash,
      claimed_at: now,
      lease_expires_at: shifted(now, 600_000),
      closed_at: null,
      closed_status: null,
      closed_version: null,
    });
    expect(facts.attempt).toMatchObject({
      claim_id: claimed.claim_id,
      generation: 1,
      status: 'CLAIMED',
      execution_id: null,
      started_at: null,
      ended_at: null,
    });
    expect(facts.authorization?.status).toBe('ACTIVE');
    expect(await purchase.lastEvent(task.id)).toEqual({
      type: 'task.claimed',
      from_status: 'PENDING',
      to_status: 'CLAIMED',
      version: 3,
      actor: ['DEVICE', purchase.phone.user_id, purchase.phone.device_id],
      attempt_id: claimed.attempt_id,
      detail: { claim_generation: 1 },
    });
    expect(await purchase.events(task.id)).toHaveLength(3);
  });

  it('never lets the claim lease outlive the authorization', async () => {
    const { authorization } = await purchase.pending({}, { authorization_ttl_seconds: 60 });
    const claimed = await purchase.claim();
    expect(claimed.lease_expires_at).toBe(authorization!.expires_at);
  });

  describe('order', () => {
    it('serves the earliest created first, however late it was started', async () => {
      const old = await purchase.draft();
      purchase.clock.advance(1);
      await purchase.pending();
      await purchase.press(old.task.id, 1);
      expect((await purchase.claim()).task_id).toBe(old.task.id);
    });

    it('serves the smallest id first under one instant', async () => {
      const ids: string[] = [];
      for (let i = 0; i < 5; i++) ids.push((await purchase.pending()).task.id);
      const served: string[] = [];
      for (const phone of await purchase.addPhones(5)) served.push((await purchase.claim(phone)).task_id);
      expect(served).toEqual([...ids].sort());
    });

    it('sees neither drafts nor tasks whose authorization has run out, to the millisecond', async () => {
      await purchase.draft();
      const { authorization } = await purchase.pending({}, { authorization_ttl_seconds: 60 });
      purchase.clock.set(authorization!.expires_at);
      await purchase.beat(purchase.phone);
      expect(await purchase.poll(purchase.phone)).toEqual({ noTask: true, replayed: false });

      purchase.clock.set(shifted(authorization!.expires_at, -1));
      expect((await purchase.claim()).lease_expires_at).toBe(authorization!.expires_at);
    });

    it.each([
      ['an older lapsed task before a newer waiting one', 0, 1],
      ['an older waiting task before a newer lapsed one', 1, 0],
    ])('serves %s', async (_what, lapsed, waiting) => {
      const drafts = [];
      for (let i = 0; i < 2; i++) {
        drafts.push((await purchase.draft()).task.id);
        purchase.clock.advance(1);
      }
      await purchase.press(drafts[lapsed]!, 1);
      const claimed = await purchase.claim();
      await purchase.press(drafts[waiting]!, 1);
      purchase.clock.set(claimed.lease_expires_at);
      expect((await purchase.claim(await purchase.addPhone())).task_id).toBe(drafts[0]);
    });
  });

  describe('takeover', () => {
    it('waits for the lease: at 1 ms before its end there is no task, at its end there is', async () => {
      const other = await purchase.addPhone();
      const claimed = await purchase.claimed();
      purchase.clock.set(shifted(claimed.lease_expires_at, -1));
      await purchase.beat(other);
      expect(await purchase.poll(other)).toEqual({ noTask: true, replayed: false });

      purchase.clock.set(claimed.lease_expires_at);
      expect((await purchase.claim(other)).task_id).toBe(claimed.task_id);
    });

    it('ends the old claim and attempt with the new one in one event that names both', async () => {
      const other = await purchase.addPhone();
      const old = await purchase.claimed();
      const taken = await purchase.takenOver(old, other);

      const now = purchase.clock.now();
      expect(taken).toMatchObject({ task_id: old.task_id, claim_generation: 2, version: 4 });
      const [oldClaim] = await purchase.rows('claims', { id: old.claim_id });
      expect(oldClaim).toMatchObject({ closed_at: now, closed_status: 'CLAIMED', closed_version: 4 });
      const [oldAttempt] = await purchase.rows('attempts', { id: old.attempt_id });
      expect(oldAttempt).toMatchObject({ status: 'ABANDONED', ended_at: now, execution_id: null });
      const facts = await purchase.facts(old.task_id);
      expect(facts).toMatchObject({
        task: {
          status: 'CLAIMED',
          version: 4,
          claim_generation: 2,
          lease_expires_at: taken.lease_expires_at,
        },
        authorization: { id: old.authorization_id, status: 'ACTIVE' },
        claim: { device_id: other.device_id, closed_at: null },
        attempt: { status: 'CLAIMED', ended_at: null },
      });
      expect(await purchase.lastEvent(old.task_id)).toEqual({
        type: 'task.taken_over',
        from_status: 'CLAIMED',
        to_status: 'CLAIMED',
        version: 4,
        actor: ['DEVICE', other.user_id, other.device_id],
        attempt_id: taken.attempt_id,
        detail: {
          claim_generation: 2,
          abandoned_attempt_id: old.attempt_id,
          abandoned_generation: 1,
        },
      });
      expect(await purchase.events(old.task_id)).toHaveLength(4);
    });

    it.each(['RUNNING', 'WAITING_CONFIRMATION', 'SUBMITTING', 'NEEDS_MANUAL'])(
      'never happens to a %s task, however long its phone is silent',
      async (status) => {
        const running = await purchase.running();
        if (status === 'WAITING_CONFIRMATION') await purchase.confirmation(running, 'REQUESTED');
        if (status === 'SUBMITTING' || status === 'NEEDS_MANUAL') {
          const submitting = await purchase.fence(running);
          if (status === 'NEEDS_MANUAL') await purchase.report(submitting, { outcome: 'UNKNOWN' });
        }
        const [stands, version] = await purchase.standing(running.task_id);
        expect(stands).toBe(status);
        purchase.clock.advance(60 * 60_000);
        const other = await purchase.addPhone();
        expect(await purchase.poll(other)).toEqual({ noTask: true, replayed: false });
        expect(await purchase.standing(running.task_id)).toEqual([status, version]);
      },
    );
  });

  describe('affinity', () => {
    it('gives a device its own expired claim again, although an older task waits', async () => {
      const older = await purchase.draft();
      purchase.clock.advance(1);
      const own = await purchase.claimed();
      await purchase.press(older.task.id, 1);
      purchase.clock.set(own.lease_expires_at);
      const anew = await purchase.claim();
      expect(anew).toMatchObject({ task_id: own.task_id, claim_generation: 2 });
      expect((await purchase.lastEvent(own.task_id)).type).toBe('task.taken_over');
    });

    it('shows each of ten claims that were never started, and then yields to another phone', async () => {
      let own = await purchase.claimed();
      for (let round = 2; round <= 10; round++) {
        purchase.clock.set(own.lease_expires_at);
        own = await purchase.claim();
        expect(own.claim_generation).toBe(round);
      }
      expect(
        (await purchase.events(own.task_id)).filter(({ type }) => type === 'task.taken_over'),
      ).toHaveLength(9);
      purchase.clock.advance(1);
      await purchase.pending();
      purchase.clock.set(own.lease_expires_at);
      const other = await purchase.claim(await purchase.addPhone());
      expect(other).toMatchObject({ task_id: own.task_id, claim_generation: 11 });
    });
  });

  describe('lapse', () => {
    it('puts back an own expired claim whose authorization has run out, and takes the next task', async () => {
      const lapsing = await purchase.pending({}, { authorization_ttl_seconds: 60 });
      const own = await purchase.claim();
      const next = await purchase.pending();
      purchase.clock.set(lapsing.authorization!.expires_at);
      const claimed = await purchase.claim();

      expect(claimed.task_id).toBe(next.task.id);
      const now = purchase.clock.now();
      expect(await purchase.facts(own.task_id)).toMatchObject({
        task: { status: 'PENDING', version: 4, claim_generation: 1, lease_expires_at: null },
        authorization: { status: 'ACTIVE', closed_at: null },
        claim: { closed_at: now, closed_status: 'PENDING', closed_version: 4 },
        attempt: { status: 'ABANDONED', ended_at: now },
      });
      expect(await purchase.lastEvent(own.task_id)).toEqual({
        type: 'task.lapsed',
        from_status: 'CLAIMED',
        to_status: 'PENDING',
        version: 4,
        actor: ['DEVICE', purchase.phone.user_id, purchase.phone.device_id],
        attempt_id: own.attempt_id,
        detail: null,
      });
    });

    it('leaves a task that nobody can claim before a person starts it anew', async () => {
      const { authorization, task } = await purchase.pending({}, { authorization_ttl_seconds: 60 });
      await purchase.claim();
      purchase.clock.set(authorization!.expires_at);
      await purchase.beat(purchase.phone);
      expect(await purchase.poll(purchase.phone)).toEqual({ noTask: true, replayed: false });
      expect(await purchase.poll(await purchase.addPhone())).toEqual({ noTask: true, replayed: false });
      expect(await purchase.standing(task.id)).toEqual(['PENDING', 4]);
    });

    it('is for the claiming device only: another phone leaves such a task alone', async () => {
      const { authorization, task } = await purchase.pending({}, { authorization_ttl_seconds: 60 });
      await purchase.claim();
      purchase.clock.set(authorization!.expires_at);
      expect(await purchase.poll(await purchase.addPhone())).toEqual({ noTask: true, replayed: false });
      expect(await purchase.standing(task.id)).toEqual(['CLAIMED', 3]);
    });
  });

  describe('readiness', () => {
    it('refuses DEVICE_NOT_READY before the first heartbeat', async () => {
      await purchase.pending();
      await purchase.database.write((work) =>
        work.trx('devices').update({ last_heartbeat_at: null }).where('device_id', purchase.phone.device_id),
      );
      const refusal = await expectRefusal(purchase.database, 'DEVICE_NOT_READY', () =>
        purchase.poll(purchase.phone),
      );
      expect(refusal.extra.readiness_reasons).toEqual(['NO_HEARTBEAT']);
    });

    it('takes a heartbeat of exactly 120 s for fresh and refuses DEVICE_NOT_READY 1 ms later', async () => {
      await purchase.pending();
      purchase.clock.advance(120_001);
      const refusal = await expectRefusal(purchase.database, 'DEVICE_NOT_READY', () =>
        purchase.poll(purchase.phone),
      );
      expect(refusal.extra.readiness_reasons).toEqual(['HEARTBEAT_STALE']);
      purchase.clock.advance(-1);
      expect(heldOf(await purchase.poll(purchase.phone)).facts.task.status).toBe('CLAIMED');
    });

    it.each([
      [{ accessibility_connected: false }, ['ACCESSIBILITY_DISCONNECTED']],
      [{ pinduoduo_installed: false }, ['PINDUODUO_NOT_INSTALLED']],
      [
        { accessibility_connected: false, pinduoduo_installed: false },
        ['ACCESSIBILITY_DISCONNECTED', 'PINDUODUO_NOT_INSTALLED'],
      ],
    ])('refuses DEVICE_NOT_READY after %p', async (report, reasons) => {
      await purchase.pending();
      await purchase.beat(purchase.phone, report);
      const refusal = await expectRefusal(purchase.database, 'DEVICE_NOT_READY', () =>
        purchase.poll(purchase.phone),
      );
      expect(refusal.extra.readiness_reasons).toEqual(reasons);
    });

    it('records no error: the same key claims once the device is ready', async () => {
      await purchase.pending();
      const request = purchase.claimRequest(purchase.phone);
      await purchase.beat(purchase.phone, { accessibility_connected: false });
      await expectRefusal(purchase.database, 'DEVICE_NOT_READY', () =>
        purchase.poll(purchase.phone, request),
      );
      await purchase.beat(purchase.phone);
      expect(await purchase.poll(purchase.phone, request)).toMatchObject({ replayed: false });
    });
  });

  describe('busy', () => {
    it.each(['CLAIMED', 'RUNNING', 'RUNNING with a lease run out', 'WAITING_CONFIRMATION', 'SUBMITTING'])(
      'refuses DEVICE_HAS_ACTIVE_TASK while its own task is %s',
      async (situation) => {
        const claimed = await purchase.claimed();
        if (situation !== 'CLAIMED') {
          const running = await purchase.start(claimed);
          if (situation === 'WAITING_CONFIRMATION') await purchase.confirmation(running, 'REQUESTED');
          if (situation === 'SUBMITTING') await purchase.fence(running);
          if (situation === 'RUNNING with a lease run out') purchase.clock.advance(60 * 60_000);
        }
        await purchase.pending();
        await purchase.beat(purchase.phone);
        const refusal = await expectRefusal(purchase.database, 'DEVICE_HAS_ACTIVE_TASK', () =>
          purchase.poll(purchase.phone),
        );
        expect(refusal.extra).toEqual({ active_task_id: claimed.task_id });
      },
    );

    it('is busy until 1 ms before its claim lease ends', async () => {
      const claimed = await purchase.claimed();
      purchase.clock.set(shifted(claimed.lease_expires_at, -1));
      await purchase.beat(purchase.phone);
      await expectRefusal(purchase.database, 'DEVICE_HAS_ACTIVE_TASK', () => purchase.poll(purchase.phone));
    });

    it('is free again once its attempt has ended, ordered or uncertain', async () => {
      await purchase.ordered();
      await purchase.report(await purchase.submitting(), { outcome: 'UNKNOWN' });
      const next = await purchase.pending();
      expect((await purchase.claim()).task_id).toBe(next.task.id);
    });
  });

  describe('replay', () => {
    it('gives the same task again and writes nothing', async () => {
      const claimed = await purchase.claimed();
      const before = await allFacts(purchase.database);
      const outcome = await again(claimed);
      expect(outcome).toMatchObject({ replayed: true });
      expect(claimedOf(claimed.phone, claimed.request, heldOf(outcome))).toEqual(claimed);
      expect(await allFacts(purchase.database)).toBe(before);
    });

    it('takes wait_seconds for no part of the request', async () => {
      const claimed = await purchase.claimed();
      const outcome = await purchase.poll(claimed.phone, { ...claimed.request, wait_seconds: 25 });
      expect(heldOf(outcome).claim.id).toBe(claimed.claim_id);
    });

    it('gives a started task again as it stands now, even after its run lease ran out', async () => {
      const running = await purchase.running();
      purchase.clock.set(running.lease_expires_at);
      const held = heldOf(await again(running));
      expect(held.facts.task).toMatchObject({ id: running.task_id, status: 'RUNNING', version: 4 });
      expect(held.attempt.execution_id).toBe(running.execution_id);
      expect(held.claim.lease_expires_at).toBe(running.lease_expires_at);
    });

    it('comes before readiness and busyness', async () => {
      const claimed = await purchase.claimed();
      await purchase.beat(purchase.phone, { accessibility_connected: false });
      expect(heldOf(await again(claimed)).claim.id).toBe(claimed.claim_id);
    });

    it('refuses IDEMPOTENCY_KEY_REUSED for another token under the same key', async () => {
      const claimed = await purchase.claimed();
      const { token_hash } = purchase.claimRequest(purchase.phone);
      await expectRefusal(purchase.database, 'IDEMPOTENCY_KEY_REUSED', () =>
        purchase.poll(purchase.phone, { ...claimed.request, token_hash }),
      );
      expect(heldOf(await again(claimed)).claim.id).toBe(claimed.claim_id);
    });

    it('knows a key per pair and per operation only', async () => {
      const key = { idempotency_key: uuidv7() };
      await purchase.pending();
      await purchase.pending();
      const other = await purchase.addPhone();
      const first = await purchase.claim(purchase.phone, key);
      const second = await purchase.claim(other, key);
      expect(second.task_id).not.toBe(first.task_id);
      const started = await purchase.start(first, key);
      expect(await purchase.standing(started.task_id)).toEqual(['RUNNING', 4]);
    });

    it('refuses CLAIM_REPLAY_EXPIRED once an unstarted lease has run out, not 1 ms before', async () => {
      const claimed = await purchase.claimed();
      purchase.clock.set(shifted(claimed.lease_expires_at, -1));
      expect(heldOf(await again(claimed)).claim.id).toBe(claimed.claim_id);
      purchase.clock.set(claimed.lease_expires_at);
      await expectRefusal(purchase.database, 'CLAIM_REPLAY_EXPIRED', () => again(claimed));
      purchase.clock.advance(1);
      await expectRefusal(purchase.database, 'CLAIM_REPLAY_EXPIRED', () => again(claimed));
    });

    it.each([
      [
        'taken over',
        async (claimed: Claimed) => void (await purchase.takenOver(claimed, await purchase.addPhone())),
      ],
      [
        'claimed anew by the same phone',
        async (claimed: Claimed) => void (await purchase.takenOver(claimed, claimed.phone)),
      ],
      ['canceled', (claimed: Claimed) => purchase.canceled(claimed)],
      [
        'ordered',
        async (claimed: Claimed) =>
          void (await purchase.report(await purchase.fence(await purchase.start(claimed)))),
      ],
    ])('refuses CLAIM_REPLAY_EXPIRED for ever once the claim was closed: %s', async (_what, close) => {
      const claimed = await purchase.claimed();
      await close(claimed);
      await expectRefusal(purchase.database, 'CLAIM_REPLAY_EXPIRED', () => again(claimed));
      purchase.clock.advance(2 * DAY_MS);
      await expectRefusal(purchase.database, 'CLAIM_REPLAY_EXPIRED', () => again(claimed));
    });

    it('remembers a claimed task as long as the task lives: 24 h change nothing', async () => {
      const running = await purchase.running();
      purchase.clock.advance(3 * DAY_MS);
      expect(heldOf(await again(running)).facts.task.id).toBe(running.task_id);
    });
  });

  describe('known tokens', () => {
    it('refuses CLAIM_TOKEN_REUSED for the token of a claim under a new key', async () => {
      const { token_hash } = await purchase.claimed();
      await expectRefusal(purchase.database, 'CLAIM_TOKEN_REUSED', () =>
        purchase.poll(purchase.phone, purchase.claimRequest(purchase.phone, { token_hash })),
      );
    });

    it('refuses CLAIM_TOKEN_REUSED for the token of a closed claim, of whatever device', async () => {
      const { token_hash } = await purchase.ordered();
      const other = await purchase.addPhone();
      await purchase.pending();
      await expectRefusal(purchase.database, 'CLAIM_TOKEN_REUSED', () =>
        purchase.poll(other, purchase.claimRequest(other, { token_hash })),
      );
    });

    it('refuses CLAIM_TOKEN_REUSED for the token of a "no task"', async () => {
      const request = purchase.claimRequest(purchase.phone);
      await purchase.poll(purchase.phone, request);
      await purchase.pending();
      await expectRefusal(purchase.database, 'CLAIM_TOKEN_REUSED', () =>
        purchase.poll(purchase.phone, { ...request, idempotency_key: uuidv7() }),
      );
    });

    it('refuses CLAIM_TOKEN_REUSED before it looks at readiness, and DEVICE_NOT_READY before busyness', async () => {
      const { token_hash } = await purchase.claimed();
      await purchase.beat(purchase.phone, { accessibility_connected: false });
      await expectRefusal(purchase.database, 'CLAIM_TOKEN_REUSED', () =>
        purchase.poll(purchase.phone, purchase.claimRequest(purchase.phone, { token_hash })),
      );
      await expectRefusal(purchase.database, 'DEVICE_NOT_READY', () => purchase.poll(purchase.phone));
    });

    it('refuses IDEMPOTENCY_KEY_REUSED before it looks at the token', async () => {
      const { request } = await purchase.claimed();
      const other = await purchase.addPhone();
      await purchase.pending();
      const { token_hash } = await purchase.claim(other);
      await expectRefusal(purchase.database, 'IDEMPOTENCY_KEY_REUSED', () =>
        purchase.poll(purchase.phone, { ...request, token_hash }),
      );
    });
  });

  describe('no task', () => {
    it('is recorded, moves nothing and stays "no task" whatever was added since', async () => {
      const request = purchase.claimRequest(purchase.phone);
      expect(await purchase.poll(purchase.phone, request)).toEqual({ noTask: true, replayed: false });
      expect(await noTaskRecords()).toMatchObject([
        { idempotency_key: request.idempotency_key, token_hash: request.token_hash, task_id: null },
      ]);
      await purchase.pending();
      const before = await allFacts(purchase.database);
      expect(await purchase.poll(purchase.phone, request)).toEqual({ noTask: true, replayed: true });
      expect(await allFacts(purchase.database)).toBe(before);
      expect((await purchase.claim()).claim_generation).toBe(1);
    });

    it('stays undecided and unwritten in a look that is not the last', async () => {
      const request = purchase.claimRequest(purchase.phone);
      const before = await allFacts(purchase.database);
      expect(await purchase.poll(purchase.phone, request, 'MORE_TO_COME')).toBeUndefined();
      expect(await allFacts(purchase.database)).toBe(before);
      await purchase.pending();
      expect(await purchase.poll(purchase.phone, request, 'MORE_TO_COME')).toMatchObject({ replayed: false });
    });

    it('is forgotten after exactly 24 h: then the key counts as new, whatever token comes with it', async () => {
      const [same, another] = [purchase.claimRequest(purchase.phone), purchase.claimRequest(purchase.phone)];
      await purchase.poll(purchase.phone, same);
      await purchase.poll(purchase.phone, another);
      purchase.clock.advance(DAY_MS - 1);
      await purchase.pending();
      await purchase.beat(purchase.phone);
      expect(await purchase.poll(purchase.phone, same)).toEqual({ noTask: true, replayed: true });
      const { token_hash } = purchase.claimRequest(purchase.phone);
      await expectRefusal(purchase.database, 'IDEMPOTENCY_KEY_REUSED', () =>
        purchase.poll(purchase.phone, { ...another, token_hash }),
      );

      purchase.clock.advance(1);
      await purchase.beat(purchase.phone);
      const first = await purchase.poll(purchase.phone, { ...another, token_hash });
      expect(first).toMatchObject({ replayed: false });
      await purchase.start(claimedOf(purchase.phone, { ...another, token_hash }, heldOf(first)));
      expect((await noTaskRecords()).map((record) => record.idempotency_key)).toEqual([same.idempotency_key]);
    });

    it('is forgotten after 24 h: the same request may then claim', async () => {
      const request = purchase.claimRequest(purchase.phone);
      await purchase.poll(purchase.phone, request);
      purchase.clock.advance(DAY_MS);
      await purchase.pending();
      await purchase.beat(purchase.phone);
      expect(await purchase.poll(purchase.phone, request)).toMatchObject({ replayed: false });
      expect(await noTaskRecords()).toEqual([]);
    });

    it('is forgotten after 24 h with its token: another key may bring it', async () => {
      const { token_hash, ...request } = purchase.claimRequest(purchase.phone);
      await purchase.poll(purchase.phone, { ...request, token_hash });
      purchase.clock.advance(DAY_MS - 1);
      await purchase.pending();
      await purchase.beat(purchase.phone);
      const again = { ...purchase.claimRequest(purchase.phone), token_hash };
      await expectRefusal(purchase.database, 'CLAIM_TOKEN_REUSED', () =>
        purchase.poll(purchase.phone, again),
      );

      purchase.clock.advance(1);
      await purchase.beat(purchase.phone);
      expect(await purchase.poll(purchase.phone, again)).toMatchObject({ replayed: false });
    });

    it('keeps at most the newest 256 records of a device over 10,000 polls', async () => {
      // A twentieth is enough where each statement is a round trip.
      const chunks = purchase.database.engine === 'sqlite' ? 20 : 1;
      const other = await purchase.addPhone();
      await purchase.poll(other);
      const start = purchase.clock.now();
      const keys: string[] = [];
      for (let chunk = 0; chunk < chunks; chunk++) {
        await purchase.act(purchase.phone, async (work) => {
          for (let poll = 0; poll < 500; poll++) {
            const now = shifted(start, keys.length + 1);
            const request = purchase.claimRequest(purchase.phone);
            keys.push(request.idempotency_key);
            await claimNextTask({ ...work, now }, purchase.phone, request, {
              ...purchase.timings,
              device_heartbeat_ttl_seconds: 900,
            });
          }
        });
        const kept = await purchase.rows('idempotency_records', { device_id: purchase.phone.device_id });
        expect(kept.length).toBeLessThanOrEqual(256);
      }
      const kept = await purchase.rows('idempotency_records', { device_id: purchase.phone.device_id });
      expect(kept.map((record) => record.idempotency_key).sort()).toEqual(keys.slice(-256).sort());
      expect(await purchase.rows('idempotency_records', { device_id: other.device_id })).toHaveLength(1);
    });

    it('removes outdated records in small batches inside later claims, and no record of a task', async () => {
      const running = await purchase.running();
      const finished = await purchase.report(await purchase.fence(running));
      for (let poll = 0; poll < 20; poll++) await purchase.poll(purchase.phone);
      const tasksRemembered = await purchase.rows('idempotency_records', { outcome: 'TASK' });
      purchase.clock.advance(DAY_MS);
      const left: number[] = [];
      for (let poll = 0; poll < 4; poll++) {
        await purchase.beat(purchase.phone);
        await purchase.poll(purchase.phone);
        left.push((await noTaskRecords()).length);
      }
      expect(left).toEqual([13, 6, 3, 4]);
      expect(await purchase.rows('idempotency_records', { outcome: 'TASK' })).toEqual(tasksRemembered);
      expect(await purchase.standing(finished.task_id)).toEqual(['ORDERED', 6]);
    });
  });

  it('refuses TOKEN_REVOKED for a device that is gone', async () => {
    const ghost = { ...purchase.phone, device_id: 'phone-of-nobody' };
    await expectRefusal(purchase.database, 'TOKEN_REVOKED', () =>
      purchase.database.write((work) =>
        claimNextTask(work, ghost, purchase.claimRequest(ghost), purchase.timings),
      ),
    );
  });

  it('keeps the raw token out of every table: only its digest is known', async () => {
    const claimed = await purchase.claimed();
    const stored = await allFacts(purchase.database);
    expect(stored).toContain(claimed.token_hash);
    expect(claimed.token_hash).toMatch(/^[0-9a-f]{64}$/);
  });
});
