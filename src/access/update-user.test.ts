import { v7 as uuidv7 } from 'uuid';
import type { AdminActor } from '../contract/actor';
import { allFacts } from '../testing/all-facts';
import { expectRefusal } from '../testing/expect-refusal';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { makeDevice, makeUser, signInAdmin, signInDevice } from '../testing/people-and-devices';
import { authenticateDevice } from './device-tokens';
import { type UserChange, updateUser } from './update-user';

let test: TestDatabase;
let admin: AdminActor;
beforeEach(async () => {
  test = await openTestDatabase();
  ({ actor: admin } = await signInAdmin(test.database, await makeUser(test.database, 'ada', 'ADMIN')));
});
afterEach(() => test.close());

const update = (change: UserChange, actor = admin) =>
  test.database.write((work) => updateUser(work, actor, change));

describe('updateUser', () => {
  it('sets and clears the display name, and writes nothing when sent again', async () => {
    const { id } = await makeUser(test.database, 'bob', 'BUYER');
    test.clock.advance(1000);
    expect(await update({ user_id: id, display_name: 'Bob', status: 'ACTIVE' })).toMatchObject({
      display_name: 'Bob',
      updated_at: test.clock.now(),
    });
    const before = await allFacts(test.database);
    test.clock.advance(1000);
    await update({ user_id: id, display_name: 'Bob', status: 'ACTIVE' });
    expect(await allFacts(test.database)).toBe(before);
    expect(await update({ user_id: id, status: 'ACTIVE' })).toMatchObject({ display_name: null });
  });

  it('ends sessions and tokens at once when it disables, and brings none back', async () => {
    const { database, clock } = test;
    const buyer = await makeUser(database, 'bob', 'BUYER');
    await makeDevice(database, admin, buyer, 'phone-0001');
    const { raw } = await signInDevice(database, buyer, 'phone-0001');
    const disabledAt = clock.now();
    expect(await update({ user_id: buyer.id, status: 'DISABLED' })).toMatchObject({
      status: 'DISABLED',
      last_disabled_at: disabledAt,
    });
    const [audit] = await database.read.knex('audit_events').where('action', 'user.updated');
    expect(JSON.parse(audit.detail)).toEqual({
      before: { display_name: null, status: 'ACTIVE' },
      after: { display_name: null, status: 'DISABLED' },
      ended_sessions: 0,
      ended_tokens: 1,
    });
    clock.advance(1000);
    expect(await update({ user_id: buyer.id, status: 'ACTIVE' })).toMatchObject({
      status: 'ACTIVE',
      last_disabled_at: disabledAt,
    });
    const call = () => authenticateDevice(database.read, `Bearer ${raw}`, clock.now());
    await expectRefusal(database, 'TOKEN_REVOKED', call);
  });

  it('refuses LAST_ADMIN when no active admin would be left', async () => {
    await expectRefusal(test.database, 'LAST_ADMIN', () =>
      update({ user_id: admin.user_id, status: 'DISABLED' }),
    );
    const other = await makeUser(test.database, 'grace', 'ADMIN');
    await update({ user_id: other.id, status: 'DISABLED' });
    await expectRefusal(test.database, 'LAST_ADMIN', () =>
      update({ user_id: admin.user_id, status: 'DISABLED' }),
    );
    await expect(
      update({ user_id: admin.user_id, display_name: 'Ada', status: 'ACTIVE' }),
    ).resolves.toBeDefined();
  });

  it('lets two admins disable each other at once, but leaves one', async () => {
    const { actor: other } = await signInAdmin(
      test.database,
      await makeUser(test.database, 'grace', 'ADMIN'),
    );
    const second = test.openAnother();
    const outcomes = await Promise.allSettled([
      update({ user_id: other.user_id, status: 'DISABLED' }),
      second.write((work) => updateUser(work, other, { user_id: admin.user_id, status: 'DISABLED' })),
    ]);
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    expect(outcomes.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { code: 'TOKEN_REVOKED' },
    });
    expect(await test.database.read.knex('users').where('status', 'ACTIVE')).toHaveLength(1);
  });

  it('refuses NOT_FOUND for nobody', async () => {
    await expectRefusal(test.database, 'NOT_FOUND', () => update({ user_id: uuidv7(), status: 'ACTIVE' }));
  });

  it('refuses TOKEN_REVOKED once the admin was disabled', async () => {
    const { actor: other } = await signInAdmin(
      test.database,
      await makeUser(test.database, 'grace', 'ADMIN'),
    );
    await update({ user_id: other.user_id, status: 'DISABLED' });
    const change = { user_id: other.user_id, status: 'ACTIVE' as const };
    await expectRefusal(test.database, 'TOKEN_REVOKED', () => update(change, other));
  });
});
