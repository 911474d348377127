import type { AdminActor } from '../contract/actor';
import type { UserRow } from '../store/users';
import { expectRefusal, refusalOf } from '../testing/expect-refusal';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { makeDevice, makeUser, signInAdmin, signInDevice } from '../testing/people-and-devices';
import { confirmActor } from './confirm-actor';
import { logoutAdmin } from './logout-admin';
import { logoutDevice } from './logout-device';
import { revokeDevice } from './revoke-device';
import { updateUser } from './update-user';

const PHONE = 'phone-0001';
let test: TestDatabase;
let admin: AdminActor;
let buyer: UserRow;
beforeEach(async () => {
  test = await openTestDatabase();
  const { database } = test;
  ({ actor: admin } = await signInAdmin(database, await makeUser(database, 'ada', 'ADMIN')));
  buyer = await makeUser(database, 'bob', 'BUYER');
  await makeDevice(database, admin, buyer, PHONE);
});
afterEach(() => test.close());

describe('confirmActor', () => {
  it('answers the actor as it stands in the transaction', async () => {
    const { database } = test;
    const { actor } = await signInDevice(database, buyer, PHONE);
    await database.write(async (work) => {
      expect(await confirmActor(work, actor)).toMatchObject({
        user: { id: buyer.id },
        device: { device_id: PHONE },
      });
      expect(await confirmActor(work, admin)).toMatchObject({ user: { id: admin.user_id } });
      expect(await confirmActor(work, { type: 'SYSTEM' })).toBeUndefined();
    });
  });

  it.each([
    ['revoked', 'TOKEN_REVOKED'],
    ['disabled', 'TOKEN_REVOKED'],
    ['logged out', 'TOKEN_REVOKED'],
    ['expired', 'TOKEN_EXPIRED'],
  ])('refuses a call of a device that was %s while the call was queued', async (what, code) => {
    const { database, clock } = test;
    const { actor } = await signInDevice(database, buyer, PHONE, 60);
    const withdrawn = database.write(async (work) => {
      if (what === 'revoked') await revokeDevice(work, admin, { device_id: PHONE });
      if (what === 'disabled') await updateUser(work, admin, { user_id: buyer.id, status: 'DISABLED' });
      if (what === 'logged out') await logoutDevice(work, actor);
      if (what === 'expired') clock.advance(60_000);
    });
    const [, refusal] = await Promise.all([
      withdrawn,
      withdrawnFirst(withdrawn, () => refusalOf(database.write((work) => confirmActor(work, actor)))),
    ]);
    expect(refusal.code).toBe(code);
  });

  it('refuses a queued call of an admin who signed out, was disabled or expired', async () => {
    const { database, clock } = test;
    const other = await makeUser(database, 'grace', 'ADMIN');
    const [loggedOut, disabled, expired] = [
      await signInAdmin(database, other),
      await signInAdmin(database, other),
      await signInAdmin(database, await makeUser(database, 'edith', 'ADMIN'), 60),
    ];
    const confirm = (actor: AdminActor) => () => database.write((work) => confirmActor(work, actor));

    await database.write((work) => logoutAdmin(work, loggedOut.actor));
    await expectRefusal(database, 'TOKEN_REVOKED', confirm(loggedOut.actor));
    await database.write((work) => updateUser(work, admin, { user_id: other.id, status: 'DISABLED' }));
    await expectRefusal(database, 'TOKEN_REVOKED', confirm(disabled.actor));
    clock.advance(60_000);
    await expectRefusal(database, 'TOKEN_EXPIRED', confirm(expired.actor));
  });

  it('refuses UNAUTHENTICATED for a pair that no token names', async () => {
    const { database } = test;
    const { actor } = await signInDevice(database, buyer, PHONE);
    await makeDevice(database, admin, buyer, 'phone-0002');
    const forged = [
      { ...actor, device_id: 'phone-0002' },
      { ...actor, device_id: 'phone-9999' },
      { ...actor, token_id: admin.session_id },
    ];
    for (const pair of forged) {
      await expectRefusal(database, 'UNAUTHENTICATED', () =>
        database.write((work) => confirmActor(work, pair)),
      );
    }
    const ghost = { ...admin, session_id: actor.token_id };
    await expectRefusal(database, 'UNAUTHENTICATED', () =>
      database.write((work) => confirmActor(work, ghost)),
    );
  });
});

/** SQLite keeps the order of the queue; PostgreSQL has none, so that the first must be over there. */
async function withdrawnFirst<T>(first: Promise<unknown>, then: () => Promise<T>): Promise<T> {
  if (test.database.engine === 'postgres') await first;
  return then();
}
