import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { addSeconds } from '../clock';
import { updateUserRow } from '../store/users';
import { allFacts } from '../testing/all-facts';
import { refusalOf } from '../testing/expect-refusal';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { CHEAP, makeDevice, makeUser, PASSWORD, signInAdmin } from '../testing/people-and-devices';
import { changeOwnPassword } from './change-own-password';
import { loginAdmin } from './login-admin';
import { loginDevice } from './login-device';
import * as passwords from './passwords';
import { resetUserPassword } from './reset-user-password';
import { authenticateSession, csrfTokenOf } from './sessions';

jest.mock('./passwords', () => {
  const actual = jest.requireActual('./passwords');
  return { ...actual, verifyPassword: jest.fn(actual.verifyPassword) };
});
const verifyPassword = jest.mocked(passwords.verifyPassword);
const reallyVerify = jest.requireActual<typeof passwords>('./passwords').verifyPassword;

const TTL = { session_ttl_seconds: 3600 };
const HERE = '203.0.113.7';
let test: TestDatabase;
beforeEach(async () => {
  test = await openTestDatabase();
});
afterEach(async () => {
  await test.close();
});

const login = (username: string, password: string, previousSessionToken?: string) =>
  loginAdmin(test.database, { username, password, address: HERE, previousSessionToken }, TTL);
const count = async (table: string) => Number((await test.database.read.knex(table).count('* as n'))[0]!.n);

describe('loginAdmin', () => {
  it('opens a session, whatever the case of the name', async () => {
    const { database, clock } = test;
    const user = await makeUser(database, 'Ada', 'ADMIN');
    const opened = await login('aDA', PASSWORD);
    expect(opened).toEqual({
      session_token: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
      csrf_token: csrfTokenOf(opened.session_token),
      expires_at: addSeconds(clock.now(), 3600),
      user: { id: user.id, username: 'Ada', display_name: null, role: 'ADMIN', status: 'ACTIVE' },
    });
    const { actor } = await authenticateSession(database.read, opened.session_token, clock.now());
    const [row] = await database.read.knex('users');
    expect(row).toMatchObject({ last_login_at: clock.now(), updated_at: user.updated_at });
    const [audit] = await database.read.knex('audit_events');
    expect(audit).toMatchObject({
      action: 'login.succeeded',
      actor_type: 'ADMIN',
      actor_user_id: user.id,
      target_type: 'SESSION',
      target_id: actor.session_id,
      detail: JSON.stringify({ address: HERE }),
    });
  });

  it('ends the session that the browser came with, and no other', async () => {
    const { database, clock } = test;
    await makeUser(database, 'ada', 'ADMIN');
    const [first, second] = [await login('ada', PASSWORD), await login('ada', PASSWORD)];
    const third = await login('ada', PASSWORD, first.session_token);
    expect(third.session_token).not.toBe(first.session_token);
    const now = clock.now();
    expect((await refusalOf(authenticateSession(database.read, first.session_token, now))).code).toBe(
      'TOKEN_REVOKED',
    );
    await expect(authenticateSession(database.read, second.session_token, now)).resolves.toBeDefined();
    await expect(authenticateSession(database.read, third.session_token, now)).resolves.toBeDefined();
    expect(await database.read.knex('sessions').whereNotNull('ended_at').pluck('end_reason')).toEqual([
      'RENEWED',
    ]);
    await expect(login('ada', PASSWORD, 'garbage')).resolves.toBeDefined();
  });

  it('refuses INVALID_CREDENTIALS for a wrong password, an unknown name, a buyer and a disabled admin alike', async () => {
    const { database } = test;
    await makeUser(database, 'ada', 'ADMIN');
    await makeUser(database, 'bob', 'BUYER');
    const gone = await makeUser(database, 'gone', 'ADMIN');
    await database.write((work) =>
      updateUserRow(work, gone, { status: 'DISABLED', last_disabled_at: work.now }),
    );
    verifyPassword.mockClear();
    const cases: [string, string][] = [
      ['ada', 'wrong password'],
      ['nobody', PASSWORD],
      ['bob', PASSWORD],
      ['gone', PASSWORD],
    ];
    for (const [username, password] of cases) {
      const refusal = await refusalOf(login(username, password));
      expect({ code: refusal.code, extra: refusal.extra }).toEqual({
        code: 'INVALID_CREDENTIALS',
        extra: {},
      });
    }
    // Each took one try at one hash: the user's own or nobody's.
    expect(verifyPassword).toHaveBeenCalledTimes(4);
    expect(verifyPassword.mock.calls.map(([hash]) => hash !== undefined)).toEqual([
      true,
      false,
      false,
      false,
    ]);
    expect([await count('sessions'), await count('audit_events')]).toEqual([0, 0]);
  });

  it('refuses INVALID_CREDENTIALS when the password was changed or the admin disabled while it was verified', async () => {
    const { database } = test;
    const user = await makeUser(database, 'ada', 'ADMIN');
    const meanwhile = [
      async () => {
        const password_hash = await passwords.hashPassword('another password', undefined, CHEAP);
        await database.write((work) => updateUserRow(work, user, { password_hash }));
      },
      () =>
        database.write((work) =>
          updateUserRow(work, user, { status: 'DISABLED', last_disabled_at: work.now }),
        ),
    ];
    const knows = ['correct horse battery', 'another password'];
    for (const [index, change] of meanwhile.entries()) {
      verifyPassword.mockImplementationOnce(async (hash, password) => {
        const right = await reallyVerify(hash, password);
        await change();
        return right;
      });
      expect((await refusalOf(login('ada', knows[index]!))).code).toBe('INVALID_CREDENTIALS');
    }
    expect([await count('sessions'), await count('audit_events')]).toEqual([0, 0]);
  });
});

describe('secrets', () => {
  it('are nowhere in the database', async () => {
    const { database, clock, dataDir } = test;
    const user = await makeUser(database, 'ada', 'ADMIN');
    const buyer = await makeUser(database, 'bob', 'BUYER', 'a buyer and his secret');
    const { session_token, csrf_token } = await login('ada', PASSWORD);
    await refusalOf(login('ada', 'mistyped-password'));
    await refusalOf(login('password-as-name', 'mistyped-password'));
    const { actor } = await authenticateSession(database.read, session_token, clock.now());
    await makeDevice(database, actor, buyer, 'phone-0001');
    const { access_token } = await loginDevice(
      database,
      { username: 'bob', password: 'a buyer and his secret', device_id: 'phone-0001', address: HERE },
      { access_token_ttl_seconds: 60 },
    );
    const change = { current_password: PASSWORD, new_password: 'my very new password', address: HERE };
    await changeOwnPassword(database, actor, change, CHEAP);
    const password_hash = await passwords.hashPassword('a password by reset', undefined, CHEAP);
    const other = await signInAdmin(database, user);
    await database.write((work) =>
      resetUserPassword(work, other.actor, { user_id: buyer.id, password_hash }),
    );

    const files = readdirSync(dataDir).filter((file) => file.startsWith('cmbuyer.sqlite'));
    if (database.engine === 'sqlite') expect(files).toContain('cmbuyer.sqlite-wal');
    const stored = Buffer.concat([
      ...files.map((file) => readFileSync(path.join(dataDir, file))),
      Buffer.from(await allFacts(database)),
    ]);
    expect(stored.includes('bob')).toBe(true);
    const secrets = [
      PASSWORD,
      'a buyer and his secret',
      'mistyped-password',
      'password-as-name',
      'my very new password',
      'a password by reset',
      session_token,
      csrf_token,
      access_token,
    ];
    for (const secret of secrets) expect(stored.includes(secret)).toBe(false);
    for (const token of [session_token, csrf_token, access_token]) {
      expect(stored.includes(Buffer.from(token, 'base64url'))).toBe(false);
      expect(stored.includes(Buffer.from(token, 'base64url').toString('hex'))).toBe(false);
    }
  });
});
