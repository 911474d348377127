import { v7 as uuidv7 } from 'uuid';
import type { AdminActor } from '../contract/actor';
import type { UserRow } from '../store/users';
import { makeClaimedTask } from '../testing/claimed-task';
import { expectRefusal } from '../testing/expect-refusal';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { makeUser, signInAdmin, signInDevice } from '../testing/people-and-devices';
import { authorizeDevice, type NewDevice } from './authorize-device';
import { revokeDevice } from './revoke-device';
import { updateUser } from './update-user';

const PHONE = 'phone-0001';
let test: TestDatabase;
let admin: AdminActor;
let buyer: UserRow;
beforeEach(async () => {
  test = await openTestDatabase();
  ({ actor: admin } = await signInAdmin(test.database, await makeUser(test.database, 'ada', 'ADMIN')));
  buyer = await makeUser(test.database, 'bob', 'BUYER');
});
afterEach(() => test.close());

const authorize = (input: Partial<NewDevice> = {}) =>
  test.database.write((work) =>
    authorizeDevice(work, admin, {
      idempotency_key: 'key-1',
      device_id: PHONE,
      label: 'Phone',
      user_id: buyer.id,
      ...input,
    }),
  );
const revoke = () =>
  test.database.write((work) => revokeDevice(work, admin, { device_id: PHONE, reason: 'lost' }));

describe('authorizeDevice', () => {
  it('enrols a device that was never known', async () => {
    const now = test.clock.now();
    const { device, replayed } = await authorize();
    expect(replayed).toBe(false);
    expect(device).toMatchObject({
      device_id: PHONE,
      label: 'Phone',
      status: 'AUTHORIZED',
      created_at: now,
      authorized_at: now,
      last_revoked_at: null,
      user: { id: buyer.id, username: 'bob', display_name: null },
      active_task_id: null,
    });
    expect(await test.database.read.knex('audit_events').pluck('action')).toEqual(['device.authorized']);
  });

  it('answers the same device under the same key, even once it is revoked or its buyer disabled', async () => {
    await authorize();
    await revoke();
    await test.database.write((work) => updateUser(work, admin, { user_id: buyer.id, status: 'DISABLED' }));
    expect(await authorize()).toMatchObject({ device: { status: 'REVOKED' }, replayed: true });
    await expectRefusal(test.database, 'IDEMPOTENCY_KEY_REUSED', () => authorize({ label: 'Other' }));
  });

  it('creates once when the same request comes several times at once', async () => {
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => authorize()));
    expect(outcomes.filter(({ replayed }) => !replayed)).toHaveLength(1);
  });

  it('enrols a revoked device anew: created once, authorised now, revoked once for ever', async () => {
    const { clock } = test;
    const createdAt = clock.now();
    await authorize();
    clock.advance(1000);
    const revokedAt = clock.now();
    await revoke();
    clock.advance(1000);
    const other = await makeUser(test.database, 'carol', 'BUYER');
    const { device } = await authorize({ idempotency_key: 'key-2', label: 'New', user_id: other.id });
    expect(device).toMatchObject({
      label: 'New',
      status: 'AUTHORIZED',
      created_at: createdAt,
      authorized_at: clock.now(),
      last_revoked_at: revokedAt,
      revoke_reason: null,
      user: { username: 'carol' },
    });
  });

  it('refuses DUPLICATE_DEVICE when it is authorised already', async () => {
    await authorize();
    await expectRefusal(test.database, 'DUPLICATE_DEVICE', () => authorize({ idempotency_key: 'key-2' }));
  });

  it('refuses INVALID_REQUEST when the user is nobody, an admin or disabled', async () => {
    const disabled = await makeUser(test.database, 'gone', 'BUYER');
    await test.database.write((work) =>
      updateUser(work, admin, { user_id: disabled.id, status: 'DISABLED' }),
    );
    for (const user_id of [uuidv7(), admin.user_id, disabled.id]) {
      const refusal = await expectRefusal(test.database, 'INVALID_REQUEST', () => authorize({ user_id }));
      expect(refusal.extra.errors).toEqual([{ path: '/body/user_id', message: 'must be an active buyer' }]);
    }
  });

  it('refuses DEVICE_BUSY to another buyer while an attempt is unended, but takes the same one back', async () => {
    const { database } = test;
    await authorize();
    const { actor } = await signInDevice(database, buyer, PHONE);
    const taskId = await makeClaimedTask(database, admin, actor);
    await revoke();
    const other = await makeUser(database, 'carol', 'BUYER');
    await expectRefusal(database, 'DEVICE_BUSY', () =>
      authorize({ idempotency_key: 'key-2', user_id: other.id }),
    );
    const { device } = await authorize({ idempotency_key: 'key-2' });
    expect(device).toMatchObject({ status: 'AUTHORIZED', active_task_id: taskId });
  });
});
