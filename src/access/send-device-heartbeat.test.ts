import { v7 as uuidv7 } from 'uuid';
import type { AdminActor, DeviceActor } from '../contract/actor';
import { findDevice } from '../store/devices';
import { makeClaimedTask, REPORT, TIMINGS } from '../testing/claimed-task';
import { expectRefusal } from '../testing/expect-refusal';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { makeDevice, makeUser, signInAdmin, signInDevice } from '../testing/people-and-devices';
import { logoutDevice } from './logout-device';
import { type DeviceReport, sendDeviceHeartbeat } from './send-device-heartbeat';

const PHONE = 'phone-0001';
let test: TestDatabase;
let admin: AdminActor;
let actor: DeviceActor;
beforeEach(async () => {
  test = await openTestDatabase();
  ({ actor: admin } = await signInAdmin(test.database, await makeUser(test.database, 'ada', 'ADMIN')));
  const buyer = await makeUser(test.database, 'bob', 'BUYER');
  await makeDevice(test.database, admin, buyer, PHONE);
  ({ actor } = await signInDevice(test.database, buyer, PHONE));
});
afterEach(() => test.close());

const beat = (report: DeviceReport) =>
  test.database.write((work) => sendDeviceHeartbeat(work, actor, report, TIMINGS));

describe('sendDeviceHeartbeat', () => {
  it('writes the report and answers how the device stands', async () => {
    const { database, clock } = test;
    const active_task_id = uuidv7();
    const standing = await beat({
      ...REPORT,
      pinduoduo_version: '7.1',
      active_task_id,
      client_time: '2001-01-01T00:00:00.000Z',
    });
    expect(standing).toMatchObject({ readiness_reasons: [], attempt: undefined });
    const stored = await findDevice(database.read, PHONE);
    expect(stored).toEqual(standing.device);
    expect(stored).toMatchObject({
      last_heartbeat_at: clock.now(),
      pinduoduo_version: '7.1',
      accessibility_connected: true,
      pinduoduo_installed: true,
      reported_task_id: active_task_id,
      reported_client_time: '2001-01-01T00:00:00.000Z',
    });

    clock.advance(1000);
    const bad = await beat({ ...REPORT, accessibility_connected: false, pinduoduo_installed: false });
    expect(bad.readiness_reasons).toEqual(['ACCESSIBILITY_DISCONNECTED', 'PINDUODUO_NOT_INSTALLED']);
    expect(await findDevice(database.read, PHONE)).toMatchObject({
      last_heartbeat_at: clock.now(),
      pinduoduo_version: null,
      accessibility_connected: false,
      reported_task_id: null,
    });
  });

  it('names the unended attempt, renews no lease and writes no event', async () => {
    const { database, clock } = test;
    const taskId = await makeClaimedTask(database, admin, actor);
    const { knex } = database.read;
    const lifecycle = async () =>
      JSON.stringify([await knex('claims'), await knex('task_events'), await knex('tasks')]);
    const before = await lifecycle();
    clock.advance(1000);
    expect((await beat(REPORT)).attempt).toMatchObject({ task_id: taskId, status: 'CLAIMED' });
    expect(await lifecycle()).toBe(before);
  });

  it('refuses TOKEN_REVOKED once it is signed out', async () => {
    await test.database.write((work) => logoutDevice(work, actor));
    await expectRefusal(test.database, 'TOKEN_REVOKED', () => beat(REPORT));
  });
});
