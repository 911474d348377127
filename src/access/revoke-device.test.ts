import type { AdminActor } from '../contract/actor';
import type { UserRow } from '../store/users';
import { allFacts } from '../testing/all-facts';
import { makeClaimedTask, REPORT, TIMINGS } from '../testing/claimed-task';
import { expectRefusal } from '../testing/expect-refusal';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { makeDevice, makeUser, signInAdmin, signInDevice } from '../testing/people-and-devices';
import { authenticateDevice } from './device-tokens';
import { revokeDevice } from './revoke-device';
import { sendDeviceHeartbeat } from './send-device-heartbeat';

const PHONE = 'phone-0001';
let test: TestDatabase;
let admin: AdminActor;
let buyer: UserRow;
beforeEach(async () => {
  test = await openTestDatabase();
  ({ actor: admin } = await signInAdmin(test.database, await makeUser(test.database, 'ada', 'ADMIN')));
  buyer = await makeUser(test.database, 'bob', 'BUYER');
  await makeDevice(test.database, admin, buyer, PHONE);
});
afterEach(() => test.close());

const revoke = (reason?: string, device_id = PHONE) =>
  test.database.write((work) => revokeDevice(work, admin, { device_id, reason }));

describe('revokeDevice', () => {
  it('ends the tokens at once, and touches no task, claim or attempt', async () => {
    const { database, clock } = test;
    const { raw, actor } = await signInDevice(database, buyer, PHONE);
    const taskId = await makeClaimedTask(database, admin, actor);
    const { knex } = database.read;
    const lifecycle = async () =>
      JSON.stringify([
        await knex('tasks'),
        await knex('claims'),
        await knex('attempts'),
        await knex('task_events'),
      ]);
    const before = await lifecycle();

    expect(await revoke('lost')).toMatchObject({
      status: 'REVOKED',
      revoke_reason: 'lost',
      last_revoked_at: clock.now(),
      active_task_id: taskId,
    });
    expect(await lifecycle()).toBe(before);
    await expectRefusal(database, 'TOKEN_REVOKED', () =>
      authenticateDevice(database.read, `Bearer ${raw}`, clock.now()),
    );
    await expectRefusal(database, 'TOKEN_REVOKED', () =>
      database.write((work) => sendDeviceHeartbeat(work, actor, REPORT, TIMINGS)),
    );
  });

  it('changes and writes nothing when sent again, whatever the reason', async () => {
    await revoke('lost');
    const before = await allFacts(test.database);
    test.clock.advance(1000);
    expect(await revoke('stolen')).toMatchObject({ status: 'REVOKED', revoke_reason: 'lost' });
    expect(await allFacts(test.database)).toBe(before);
  });

  it('refuses NOT_FOUND for a device that was never known', async () => {
    await expectRefusal(test.database, 'NOT_FOUND', () => revoke(undefined, 'phone-9999'));
  });
});
