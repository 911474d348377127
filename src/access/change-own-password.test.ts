import type { AdminActor } from '../contract/actor';
import type { UserRow } from '../store/users';
import { expectRefusal, refusalOf } from '../testing/expect-refusal';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { CHEAP, makeUser, PASSWORD, type SignedIn, signInAdmin } from '../testing/people-and-devices';
import { changeOwnPassword } from './change-own-password';
import { loginAdmin } from './login-admin';
import { logoutAdmin } from './logout-admin';
import * as passwords from './passwords';
import { authenticateSession } from './sessions';

jest.mock('./passwords', () => {
  const actual = jest.requireActual('./passwords');
  return { ...actual, verifyPassword: jest.fn(actual.verifyPassword) };
});
const verifyPassword = jest.mocked(passwords.verifyPassword);
const reallyVerify = jest.requireActual<typeof passwords>('./passwords').verifyPassword;

const HERE = '203.0.113.7';
const NEW = 'staple battery horse';
let test: TestDatabase;
let user: UserRow;
let asking: SignedIn<AdminActor>;
let other: SignedIn<AdminActor>;
beforeEach(async () => {
  test = await openTestDatabase();
  user = await makeUser(test.database, 'ada', 'ADMIN');
  asking = await signInAdmin(test.database, user);
  other = await signInAdmin(test.database, user);
});
afterEach(async () => {
  await test.close();
});

const change = (current_password: string, new_password = NEW, actor = asking.actor) =>
  changeOwnPassword(test.database, actor, { current_password, new_password, address: HERE }, CHEAP);
const hashNow = async () =>
  (await test.database.read.knex('users').where('id', user.id).first()).password_hash;

describe('changeOwnPassword', () => {
  it('ends all sessions but the one that asked', async () => {
    const { database, clock } = test;
    await change(PASSWORD);
    await expect(authenticateSession(database.read, asking.raw, clock.now())).resolves.toBeDefined();
    const revoked = await refusalOf(authenticateSession(database.read, other.raw, clock.now()));
    expect(revoked.code).toBe('TOKEN_REVOKED');
    const login = (password: string) =>
      loginAdmin(database, { username: 'ada', password, address: HERE }, { session_ttl_seconds: 60 });
    expect((await refusalOf(login(PASSWORD))).code).toBe('INVALID_CREDENTIALS');
    await expect(login(NEW)).resolves.toBeDefined();
    const [audit] = await database.read.knex('audit_events').where('action', 'user.password_changed');
    expect(JSON.parse(audit.detail)).toEqual({ ended_sessions: 1, ended_tokens: 0 });
  });

  it('refuses INVALID_CREDENTIALS for a wrong current password, and RATE_LIMITED once the limit is reached', async () => {
    for (let attempt = 0; attempt < 10; attempt++) {
      expect((await refusalOf(change('wrong password'))).code).toBe('INVALID_CREDENTIALS');
    }
    await expectRefusal(test.database, 'RATE_LIMITED', () => change(PASSWORD));
    expect(await hashNow()).toBe(user.password_hash);
  });

  it('refuses INVALID_REQUEST for a new password that is too short once composed', async () => {
    expect((await refusalOf(change(PASSWORD, 'x'.repeat(11)))).code).toBe('INVALID_REQUEST');
    expect(await hashNow()).toBe(user.password_hash);
  });

  it('refuses TOKEN_REVOKED before it looks at the password', async () => {
    await test.database.write((work) => logoutAdmin(work, asking.actor));
    await expectRefusal(test.database, 'TOKEN_REVOKED', () => change(PASSWORD));
  });

  it.each(['logged out', 'changed'])('notices that the session was %s meanwhile', async (what) => {
    verifyPassword.mockImplementationOnce(async (hash, password) => {
      const right = await reallyVerify(hash, password);
      if (what === 'changed') await change(PASSWORD, 'another new password', other.actor);
      else await test.database.write((work) => logoutAdmin(work, asking.actor));
      return right;
    });
    expect((await refusalOf(change(PASSWORD))).code).toBe('TOKEN_REVOKED');
    expect(await reallyVerify(await hashNow(), NEW)).toBe(false);
  });
});
