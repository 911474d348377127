import { addSeconds } from '../clock';
import type { AdminActor } from '../contract/actor';
import { updateUserRow } from '../store/users';
import { refusalOf } from '../testing/expect-refusal';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { makeDevice, makeUser, PASSWORD, signInAdmin } from '../testing/people-and-devices';
import { authenticateDevice } from './device-tokens';
import { loginDevice } from './login-device';
import { LOGIN_LIMITS } from './login-limit';
import * as passwords from './passwords';
import { revokeDevice } from './revoke-device';

jest.mock('./passwords', () => {
  const actual = jest.requireActual('./passwords');
  return { ...actual, verifyPassword: jest.fn(actual.verifyPassword) };
});
const verifyPassword = jest.mocked(passwords.verifyPassword);
const reallyVerify = jest.requireActual<typeof passwords>('./passwords').verifyPassword;

const PHONE = 'phone-0001';
let test: TestDatabase;
let admin: AdminActor;
beforeEach(async () => {
  test = await openTestDatabase();
  ({ actor: admin } = await signInAdmin(test.database, await makeUser(test.database, 'ada', 'ADMIN')));
});
afterEach(async () => {
  await test.close();
});

const login = (username: string, password: string, device_id = PHONE) =>
  loginDevice(
    test.database,
    { username, password, device_id, address: '203.0.113.7' },
    { access_token_ttl_seconds: 3600 },
  );
const tokens = () => test.database.read.knex('access_tokens').select('*');

describe('loginDevice', () => {
  it('issues a token for the pair, and leaves earlier ones good', async () => {
    const { database, clock } = test;
    const buyer = await makeUser(database, 'bob', 'BUYER');
    await makeDevice(database, admin, buyer, PHONE);
    const first = await login('BOB', PASSWORD);
    expect(first).toMatchObject({
      access_token: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
      expires_at: addSeconds(clock.now(), 3600),
      expires_in_ms: 3_600_000,
      user: { id: buyer.id, username: 'bob' },
      device: { device_id: PHONE, label: 'Phone' },
    });
    expect(first.user).not.toHaveProperty('password_hash');
    const second = await login('bob', PASSWORD);
    for (const { access_token } of [first, second]) {
      const { actor } = await authenticateDevice(database.read, `Bearer ${access_token}`, clock.now());
      expect(actor).toMatchObject({ type: 'DEVICE', user_id: buyer.id, device_id: PHONE });
    }
    const audit = await database.read.knex('audit_events').where('action', 'login.succeeded');
    expect(audit).toHaveLength(2);
    expect(audit[0]).toMatchObject({ actor_type: 'DEVICE', actor_user_id: buyer.id, actor_device_id: PHONE });
  });

  it('refuses INVALID_CREDENTIALS for a wrong password, an unknown name, an admin and a disabled buyer', async () => {
    const { database } = test;
    const buyer = await makeUser(database, 'bob', 'BUYER');
    await makeDevice(database, admin, buyer, PHONE);
    const codes = [
      await refusalOf(login('bob', 'wrong password')),
      await refusalOf(login('nobody', PASSWORD)),
      await refusalOf(login('ada', PASSWORD)),
    ];
    await database.write((work) =>
      updateUserRow(work, buyer, { status: 'DISABLED', last_disabled_at: work.now }),
    );
    codes.push(await refusalOf(login('bob', PASSWORD)));
    expect(codes.map(({ code }) => code)).toEqual(Array(4).fill('INVALID_CREDENTIALS'));
    expect(await tokens()).toEqual([]);
  });

  it('refuses DEVICE_NOT_AUTHORIZED only after the password was right, and counts it', async () => {
    const { database } = test;
    const buyer = await makeUser(database, 'bob', 'BUYER');
    const other = await makeUser(database, 'carol', 'BUYER');
    await makeDevice(database, admin, buyer, 'phone-revoked');
    await database.write((work) => revokeDevice(work, admin, { device_id: 'phone-revoked' }));
    await makeDevice(database, admin, other, 'phone-of-carol');
    for (const device_id of ['phone-unknown', 'phone-revoked', 'phone-of-carol']) {
      expect((await refusalOf(login('bob', 'wrong password', device_id))).code).toBe('INVALID_CREDENTIALS');
      expect((await refusalOf(login('bob', PASSWORD, device_id))).code).toBe('DEVICE_NOT_AUTHORIZED');
    }
    for (let more = 6; more < LOGIN_LIMITS.ACCOUNT_AT_ADDRESS; more++)
      await refusalOf(login('bob', PASSWORD));
    expect((await refusalOf(login('bob', PASSWORD))).code).toBe('RATE_LIMITED');
    expect(await tokens()).toEqual([]);
  });

  it('refuses DEVICE_NOT_AUTHORIZED when the device was revoked while the password was verified', async () => {
    const { database } = test;
    await makeDevice(database, admin, await makeUser(database, 'bob', 'BUYER'), PHONE);
    verifyPassword.mockImplementationOnce(async (hash, password) => {
      const right = await reallyVerify(hash, password);
      await database.write((work) => revokeDevice(work, admin, { device_id: PHONE }));
      return right;
    });
    expect((await refusalOf(login('bob', PASSWORD))).code).toBe('DEVICE_NOT_AUTHORIZED');
    expect(await tokens()).toEqual([]);
  });
});
