import { expectRefusal } from '../testing/expect-refusal';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { makeDevice, makeUser, signInAdmin, signInDevice } from '../testing/people-and-devices';
import { logoutAdmin } from './logout-admin';
import { logoutDevice } from './logout-device';

let test: TestDatabase;
beforeEach(async () => {
  test = await openTestDatabase();
});
afterEach(() => test.close());

describe('logoutAdmin and logoutDevice', () => {
  it('end the credential that asked and no other; sent again they refuse TOKEN_REVOKED', async () => {
    const { database, clock } = test;
    const admin = await makeUser(database, 'ada', 'ADMIN');
    const buyer = await makeUser(database, 'bob', 'BUYER');
    const [session, otherSession] = [await signInAdmin(database, admin), await signInAdmin(database, admin)];
    await makeDevice(database, session.actor, buyer, 'phone-0001');
    const [token, otherToken] = [
      await signInDevice(database, buyer, 'phone-0001'),
      await signInDevice(database, buyer, 'phone-0001'),
    ];

    await database.write((work) => logoutDevice(work, token.actor));
    await database.write((work) => logoutAdmin(work, session.actor));

    const ended = { ended_at: clock.now(), end_reason: 'LOGGED_OUT' };
    const open = { ended_at: null, end_reason: null };
    const { knex } = database.read;
    expect(await knex('sessions').where('id', session.actor.session_id).first()).toMatchObject(ended);
    expect(await knex('sessions').where('id', otherSession.actor.session_id).first()).toMatchObject(open);
    expect(await knex('access_tokens').where('id', token.actor.token_id).first()).toMatchObject(ended);
    expect(await knex('access_tokens').where('id', otherToken.actor.token_id).first()).toMatchObject(open);
    await expectRefusal(database, 'TOKEN_REVOKED', () =>
      database.write((work) => logoutAdmin(work, session.actor)),
    );
    await expectRefusal(database, 'TOKEN_REVOKED', () =>
      database.write((work) => logoutDevice(work, token.actor)),
    );
  });
});
