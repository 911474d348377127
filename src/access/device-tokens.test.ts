import type { AdminActor } from '../contract/actor';
import { endTokens } from '../store/credentials';
import { lockDevice, updateDeviceRow } from '../store/devices';
import { type UserRow, updateUserRow } from '../store/users';
import { expectRefusal } from '../testing/expect-refusal';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { makeDevice, makeUser, signInAdmin, signInDevice } from '../testing/people-and-devices';
import { authenticateDevice } from './device-tokens';
import { revokeDevice } from './revoke-device';

const PHONE = 'phone-0001';
let test: TestDatabase;
let admin: AdminActor;
let adminToken: string;
let buyer: UserRow;
beforeEach(async () => {
  test = await openTestDatabase();
  const { database } = test;
  ({ actor: admin, raw: adminToken } = await signInAdmin(database, await makeUser(database, 'ada', 'ADMIN')));
  buyer = await makeUser(database, 'bob', 'BUYER');
  await makeDevice(database, admin, buyer, PHONE);
});
afterEach(() => test.close());

const authenticate = (header: string | undefined) =>
  authenticateDevice(test.database.read, header, test.clock.now());

describe('authenticateDevice', () => {
  it('answers the pair of the token, with the device as it stands', async () => {
    const { raw, actor } = await signInDevice(test.database, buyer, PHONE);
    const expected = {
      actor,
      user: { id: buyer.id, username: 'bob', display_name: null, role: 'BUYER', status: 'ACTIVE' },
      device: {
        device_id: PHONE,
        label: 'Phone',
        user_id: buyer.id,
        status: 'AUTHORIZED',
        created_at: test.clock.now(),
        updated_at: test.clock.now(),
        authorized_at: test.clock.now(),
        last_revoked_at: null,
        revoke_reason: null,
        last_heartbeat_at: null,
        app_version: null,
        android_version: null,
        pinduoduo_version: null,
        accessibility_connected: null,
        pinduoduo_installed: null,
        reported_task_id: null,
        reported_client_time: null,
      },
    };
    expect(await authenticate(`Bearer ${raw}`)).toEqual(expected);
    expect(await authenticate(`bearer  ${raw}`)).toEqual(expected);
  });

  it.each([
    [59_999, undefined],
    [60_000, 'TOKEN_EXPIRED'],
    [60_001, 'TOKEN_EXPIRED'],
  ] as const)('after %d of 60,000 ms: %s', async (elapsed, code) => {
    const { raw } = await signInDevice(test.database, buyer, PHONE, 60);
    test.clock.advance(elapsed);
    if (code) await expectRefusal(test.database, code, () => authenticate(`Bearer ${raw}`));
    else await expect(authenticate(`Bearer ${raw}`)).resolves.toMatchObject({ actor: { device_id: PHONE } });
  });

  it('refuses UNAUTHENTICATED for none, garbage, a doubled header and a session', async () => {
    const { raw } = await signInDevice(test.database, buyer, PHONE);
    const garbage = [
      undefined,
      '',
      raw,
      'Bearer',
      'Bearer ',
      `Basic ${raw}`,
      `Bearer ${raw}, Bearer ${raw}`,
      `Bearer ${raw} `,
      `Bearer\t${raw}`,
      `Bearer ${raw}\n`,
      `Bearer ${raw}x`,
      `Bearer ${'A'.repeat(43)}`,
      `Bearer ${adminToken}`,
    ];
    for (const header of garbage)
      await expectRefusal(test.database, 'UNAUTHENTICATED', () => authenticate(header));
  });

  it('refuses TOKEN_REVOKED when it has ended', async () => {
    const { raw, actor } = await signInDevice(test.database, buyer, PHONE);
    await test.database.write((work) => endTokens(work, { id: actor.token_id }, 'LOGGED_OUT'));
    await expectRefusal(test.database, 'TOKEN_REVOKED', () => authenticate(`Bearer ${raw}`));
    test.clock.advance(10 * 86_400_000);
    await expectRefusal(test.database, 'TOKEN_REVOKED', () => authenticate(`Bearer ${raw}`));
  });

  it('refuses TOKEN_REVOKED when its user is disabled, its device revoked or somebody else’s', async () => {
    const { database } = test;
    const { raw } = await signInDevice(database, buyer, PHONE);
    const refused = () => expectRefusal(database, 'TOKEN_REVOKED', () => authenticate(`Bearer ${raw}`));
    const other = await makeUser(database, 'carol', 'BUYER');
    const change = (changes: Parameters<typeof updateDeviceRow>[2]) =>
      database.write(async (work) => updateDeviceRow(work, (await lockDevice(work, PHONE))!, changes));

    await database.write((work) =>
      updateUserRow(work, buyer, { status: 'DISABLED', last_disabled_at: work.now }),
    );
    await refused();
    await database.write((work) => updateUserRow(work, buyer, { status: 'ACTIVE' }));
    await change({ status: 'REVOKED', last_revoked_at: test.clock.now() });
    await refused();
    await change({ status: 'AUTHORIZED', user_id: other.id });
    await refused();
    await change({ user_id: buyer.id });
    await expect(authenticate(`Bearer ${raw}`)).resolves.toBeDefined();
  });

  it('gives a device that is enrolled anew no old rights', async () => {
    const { database } = test;
    const { raw } = await signInDevice(database, buyer, PHONE);
    await database.write((work) => revokeDevice(work, admin, { device_id: PHONE }));
    await makeDevice(database, admin, buyer, PHONE);
    await expectRefusal(database, 'TOKEN_REVOKED', () => authenticate(`Bearer ${raw}`));
    const fresh = await signInDevice(database, buyer, PHONE);
    await expect(authenticate(`Bearer ${fresh.raw}`)).resolves.toBeDefined();
  });
});
