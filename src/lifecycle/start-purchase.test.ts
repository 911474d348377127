import { v7 as uuidv7 } from 'uuid';
import { frozenWish } from '../store/authorizations';
import { allFacts } from '../testing/all-facts';
import { expectRefusal } from '../testing/expect-refusal';
import { expectInvariants } from '../testing/invariants';
import { openPurchase, type Purchase, shifted, WISH } from '../testing/purchase';

let purchase: Purchase;

beforeEach(async () => {
  purchase = await openPurchase();
});
afterEach(async () => {
  await expectInvariants(purchase.database);
  await purchase.close();
});

describe('startPurchase', () => {
  it('gives permission for one order: PENDING, an ACTIVE authorization with the frozen wish, one event', async () => {
    const sha256 = await purchase.picture();
    const { task } = await purchase.draft({ keywords: '耳机', external_ref: 'REQ-1' }, sha256);
    purchase.clock.advance(1_000);
    const facts = await purchase.press(task.id, 1);

    const now = purchase.clock.now();
    const expires_at = shifted(now, 86_400_000);
    const stored = await purchase.facts(task.id);
    expect(stored.task).toMatchObject({
      status: 'PENDING',
      version: 2,
      updated_at: now,
      authorization_expires_at: expires_at,
      lease_expires_at: null,
    });
    expect(facts).toEqual(stored);
    expect(stored.authorization).toMatchObject({
      status: 'ACTIVE',
      task_version: 2,
      reference_image_sha256: sha256,
      created_at: now,
      created_by: purchase.admin.user_id,
      expires_at,
      closed_at: null,
    });
    expect(frozenWish(stored.authorization!)).toEqual({
      ...WISH,
      keywords: '耳机',
      product_url: null,
      shop_name: null,
      spec: null,
      buyer_note: null,
    });
    expect(await purchase.lastEvent(task.id)).toEqual({
      type: 'task.purchase_started',
      from_status: 'DRAFT',
      to_status: 'PENDING',
      version: 2,
      actor: ['ADMIN', purchase.admin.user_id, null],
      attempt_id: null,
      detail: { authorization_expires_at: expires_at },
    });
  });

  it('gives the time that the admin chose', async () => {
    const { task } = await purchase.draft();
    const { authorization } = await purchase.press(task.id, 1, 60);
    expect(authorization?.expires_at).toBe(shifted(purchase.clock.now(), 60_000));
  });

  it('is the same again while the task waits under that authorization, at whatever time', async () => {
    const { task } = await purchase.draft();
    const first = await purchase.press(task.id, 1, 60);
    purchase.clock.advance(3_600_000);
    const before = await allFacts(purchase.database);
    expect(await purchase.press(task.id, 1, 60)).toEqual(first);
    expect(await allFacts(purchase.database)).toBe(before);
    expect(await purchase.rows('authorizations')).toHaveLength(1);
  });

  it('takes the default for the same as naming it', async () => {
    const { task } = await purchase.draft();
    const first = await purchase.press(task.id, 1);
    expect(await purchase.press(task.id, 1, 86_400)).toEqual(first);
  });

  it('refuses VERSION_CONFLICT for the same old version with another time', async () => {
    const { task } = await purchase.draft();
    await purchase.press(task.id, 1);
    await expectRefusal(purchase.database, 'VERSION_CONFLICT', () => purchase.press(task.id, 1, 61));
  });

  it('refuses VERSION_CONFLICT again once a phone has claimed it', async () => {
    const claimed = await purchase.claimed();
    await expectRefusal(purchase.database, 'VERSION_CONFLICT', () => purchase.press(claimed.task_id, 1));
  });

  it('refuses TASK_NOT_FOUND', async () => {
    await expectRefusal(purchase.database, 'TASK_NOT_FOUND', () => purchase.press(uuidv7(), 1));
  });

  it('refuses VERSION_CONFLICT and tells how the task stands', async () => {
    const { task } = await purchase.draft();
    const refusal = await expectRefusal(purchase.database, 'VERSION_CONFLICT', () =>
      purchase.press(task.id, 2),
    );
    expect(refusal.extra.current).toEqual({ task_id: task.id, status: 'DRAFT', version: 1 });
  });

  it.each(['PENDING', 'CLAIMED', 'RUNNING', 'CANCELED'])(
    'refuses INVALID_TASK_STATE for a %s task, and VERSION_CONFLICT before it',
    async (status) => {
      const { task } = await purchase.pending();
      if (status !== 'PENDING') {
        const claimed = await purchase.claim();
        if (status === 'RUNNING') await purchase.start(claimed);
        if (status === 'CANCELED') await purchase.canceled(claimed);
      }
      const [stands, version] = await purchase.standing(task.id);
      expect(stands).toBe(status);
      await expectRefusal(purchase.database, 'INVALID_TASK_STATE', () => purchase.press(task.id, version));
      await expectRefusal(purchase.database, 'VERSION_CONFLICT', () => purchase.press(task.id, version + 1));
    },
  );

  it.each(['SUBMITTING', 'NEEDS_MANUAL', 'ORDERED', 'FAILED'])(
    'refuses SUBMISSION_EXISTS for a %s task, whatever the version',
    async (status) => {
      const submitting = await purchase.submitting();
      if (status === 'ORDERED') await purchase.report(submitting);
      if (status === 'NEEDS_MANUAL' || status === 'FAILED') {
        await purchase.report(submitting, { outcome: 'UNKNOWN' });
        if (status === 'FAILED') await purchase.resolved(submitting.task_id, 'NO_ORDER');
      }
      const [stands, version] = await purchase.standing(submitting.task_id);
      expect(stands).toBe(status);
      for (const given of [1, version, 99]) {
        await expectRefusal(purchase.database, 'SUBMISSION_EXISTS', () =>
          purchase.press(submitting.task_id, given),
        );
      }
    },
  );
});
