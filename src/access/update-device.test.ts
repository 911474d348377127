import { v7 as uuidv7 } from 'uuid';
import type { AdminActor } from '../contract/actor';
import type { UserRow } from '../store/users';
import { allFacts } from '../testing/all-facts';
import { makeClaimedTask } from '../testing/claimed-task';
import { expectRefusal } from '../testing/expect-refusal';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { makeDevice, makeUser, signInAdmin, signInDevice } from '../testing/people-and-devices';
import { authenticateDevice } from './device-tokens';
import { type DeviceChange, updateDevice } from './update-device';
import { updateUser } from './update-user';

const PHONE = 'phone-0001';
let test: TestDatabase;
let admin: AdminActor;
let buyer: UserRow;
let other: UserRow;
beforeEach(async () => {
  test = await openTestDatabase();
  ({ actor: admin } = await signInAdmin(test.database, await makeUser(test.database, 'ada', 'ADMIN')));
  buyer = await makeUser(test.database, 'bob', 'BUYER');
  other = await makeUser(test.database, 'carol', 'BUYER');
  await makeDevice(test.database, admin, buyer, PHONE);
});
afterEach(() => test.close());

const update = (change: Partial<DeviceChange>) =>
  test.database.write((work) =>
    updateDevice(work, admin, { device_id: PHONE, label: 'Phone', user_id: buyer.id, ...change }),
  );

describe('updateDevice', () => {
  it('changes the label, keeps the tokens, and writes nothing when sent again', async () => {
    const { database, clock } = test;
    const { raw } = await signInDevice(database, buyer, PHONE);
    expect(await update({ label: 'Desk 7' })).toMatchObject({ label: 'Desk 7', user: { username: 'bob' } });
    await expect(authenticateDevice(database.read, `Bearer ${raw}`, clock.now())).resolves.toBeDefined();
    const before = await allFacts(database);
    clock.advance(1000);
    await update({ label: 'Desk 7' });
    expect(await allFacts(database)).toBe(before);
  });

  it('ends all tokens of the device with another buyer, and they stay ended when the buyer comes back', async () => {
    const { database, clock } = test;
    const { raw } = await signInDevice(database, buyer, PHONE);
    const call = () => authenticateDevice(database.read, `Bearer ${raw}`, clock.now());
    expect(await update({ user_id: other.id })).toMatchObject({ user: { username: 'carol' } });
    await expectRefusal(database, 'TOKEN_REVOKED', call);
    await update({ user_id: buyer.id });
    await expectRefusal(database, 'TOKEN_REVOKED', call);
    expect(await database.read.knex('access_tokens').pluck('end_reason')).toEqual(['BUYER_CHANGED']);
  });

  it('refuses DEVICE_BUSY to another buyer while an attempt of the device is unended', async () => {
    const { database } = test;
    const { actor } = await signInDevice(database, buyer, PHONE);
    await makeClaimedTask(database, admin, actor);
    await expectRefusal(database, 'DEVICE_BUSY', () => update({ user_id: other.id }));
    await expect(update({ label: 'Desk 7' })).resolves.toMatchObject({ label: 'Desk 7' });
  });

  it('refuses INVALID_REQUEST when the new buyer is nobody, an admin or disabled', async () => {
    await test.database.write((work) => updateUser(work, admin, { user_id: other.id, status: 'DISABLED' }));
    for (const user_id of [uuidv7(), admin.user_id, other.id]) {
      await expectRefusal(test.database, 'INVALID_REQUEST', () => update({ user_id }));
    }
  });

  it('lets the label change while the buyer is disabled', async () => {
    await test.database.write((work) => updateUser(work, admin, { user_id: buyer.id, status: 'DISABLED' }));
    await expect(update({ label: 'Drawer' })).resolves.toMatchObject({ label: 'Drawer' });
  });

  it('refuses NOT_FOUND for a device that was never known', async () => {
    await expectRefusal(test.database, 'NOT_FOUND', () => update({ device_id: 'phone-9999' }));
  });
});
