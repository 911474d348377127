import { v7 as uuidv7 } from 'uuid';
import { expectRefusal, refusalOf } from '../testing/expect-refusal';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { makeDevice, makeUser, signInAdmin, signInDevice } from '../testing/people-and-devices';
import { authenticateDevice } from './device-tokens';
import { resetUserPassword } from './reset-user-password';
import { authenticateSession } from './sessions';

let test: TestDatabase;
beforeEach(async () => {
  test = await openTestDatabase();
});
afterEach(() => test.close());

describe('resetUserPassword', () => {
  it('ends all sessions and tokens of the user, the admin’s own too', async () => {
    const { database, clock } = test;
    const admin = await makeUser(database, 'ada', 'ADMIN');
    const buyer = await makeUser(database, 'bob', 'BUYER');
    const session = await signInAdmin(database, admin);
    await makeDevice(database, session.actor, buyer, 'phone-0001');
    const token = await signInDevice(database, buyer, 'phone-0001');
    const reset = (user_id: string) =>
      database.write((work) =>
        resetUserPassword(work, session.actor, { user_id, password_hash: 'new hash' }),
      );

    await reset(buyer.id);
    const revoked = await refusalOf(authenticateDevice(database.read, `Bearer ${token.raw}`, clock.now()));
    expect(revoked.code).toBe('TOKEN_REVOKED');
    await expect(authenticateSession(database.read, session.raw, clock.now())).resolves.toBeDefined();
    await expectRefusal(database, 'NOT_FOUND', () => reset(uuidv7()));

    await reset(admin.id);
    const own = await refusalOf(authenticateSession(database.read, session.raw, clock.now()));
    expect(own.code).toBe('TOKEN_REVOKED');
    await expectRefusal(database, 'TOKEN_REVOKED', () => reset(buyer.id));

    const rows = await database.read.knex('users').pluck('password_hash');
    expect(rows).toEqual(['new hash', 'new hash']);
    const audit = await database.read.knex('audit_events').where('action', 'user.password_reset');
    expect(audit).toHaveLength(2);
    expect(JSON.stringify(audit)).not.toContain('new hash');
  });
});
