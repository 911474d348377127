import { v7 as uuidv7 } from 'uuid';
import { authorizeDevice } from '../access/authorize-device';
import type { AdminActor } from '../contract/actor';
import { refusalOf } from '../testing/expect-refusal';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { makeDevice, makeUser, signInAdmin } from '../testing/people-and-devices';
import { appendAudit, pageAuditEvents } from './audit';
import { encodeCursor, type Page, type PageRequest } from './cursor';
import { pageDevices } from './devices';
import { insertUser, pageUsers, type UserRow } from './users';

let test: TestDatabase;
let admin: AdminActor;
let buyer: UserRow;
beforeEach(async () => {
  test = await openTestDatabase();
  ({ actor: admin } = await signInAdmin(test.database, await makeUser(test.database, 'ada', 'ADMIN')));
  buyer = await makeUser(test.database, 'bob', 'BUYER');
});
afterEach(() => test.close());

async function allPages<T>(read: (request: PageRequest) => Promise<Page<T>>, limit: number): Promise<T[]> {
  const items: T[] = [];
  for (let cursor: string | undefined, pages = 0; pages < 100; pages++) {
    const page = await read({ limit, cursor });
    expect(page.items.length).toBeLessThanOrEqual(limit);
    items.push(...page.items);
    cursor = page.next_cursor;
    if (cursor === undefined) return items;
  }
  throw new Error('the list does not end');
}

describe('pageUsers', () => {
  it('shows each user once under equal timestamps, without hashes', async () => {
    await test.database.write(async (work) => {
      for (let index = 0; index < 20; index++) {
        await insertUser(work, { username: `user-${index}`, role: 'BUYER', password_hash: 'hash' });
      }
    });
    const users = await allPages((request) => pageUsers(test.database.read, request), 3);
    expect(users).toHaveLength(22);
    expect(new Set(users.map(({ id }) => id)).size).toBe(22);
    for (const user of users) expect(Object.keys(user)).not.toContain('password_hash');
  });

  it('finds text in username and display name as written: wildcards, case and other scripts included', async () => {
    const named = [
      ['li.wei', '李伟 Élodie'],
      ['per_cent', '100% sure!'],
      ['perXcent', 'back\\slash'],
    ];
    await test.database.write(async (work) => {
      for (const [username, display_name] of named) {
        await insertUser(work, { username: username!, display_name, role: 'BUYER', password_hash: 'hash' });
      }
    });
    const find = async (q: string) =>
      (await pageUsers(test.database.read, { limit: 100, q })).items.map(({ username }) => username);
    expect(await find('LI.WEI')).toEqual(['li.wei']);
    expect(await find('perxcent')).toEqual(['perXcent']);
    expect(await find('伟')).toEqual(['li.wei']);
    expect(await find('Élodie')).toEqual(['li.wei']);
    expect(await find('_c')).toEqual(['per_cent']);
    expect(await find('0% S')).toEqual(['per_cent']);
    expect(await find('sure!')).toEqual(['per_cent']);
    expect(await find('k\\s')).toEqual(['perXcent']);
    expect(await find("' or 1=1 --")).toEqual([]);
  });

  it('refuses INVALID_CURSOR for one of another list', async () => {
    const cursor = encodeCursor([test.clock.now(), buyer.id], 'devices');
    expect((await refusalOf(pageUsers(test.database.read, { limit: 1, cursor }))).code).toBe(
      'INVALID_CURSOR',
    );
  });
});

describe('pageDevices', () => {
  it('shows each device once under equal timestamps, with its buyer', async () => {
    await test.database.write(async (work) => {
      for (let index = 0; index < 12; index++) {
        const device = { device_id: `phone-${100 + index}`, label: `Desk ${index}`, user_id: buyer.id };
        await authorizeDevice(work, admin, { idempotency_key: uuidv7(), ...device });
      }
    });
    const devices = await allPages((request) => pageDevices(test.database.read, request), 5);
    expect(devices.map(({ device_id }) => device_id)).toEqual(
      Array.from({ length: 12 }, (_, n) => `phone-${100 + n}`),
    );
    expect(devices[0]).toMatchObject({
      user: { id: buyer.id, username: 'bob', display_name: null },
      active_task_id: null,
      accessibility_connected: null,
    });
  });

  it('finds text in device id, label and username', async () => {
    const carol = await makeUser(test.database, 'carol', 'BUYER');
    await makeDevice(test.database, admin, buyer, 'phone-0001', 'Window');
    await makeDevice(test.database, admin, carol, 'phone-0002', 'Door');
    const find = async (q: string) =>
      (await pageDevices(test.database.read, { limit: 100, q })).items.map(({ device_id }) => device_id);
    expect(await find('0001')).toEqual(['phone-0001']);
    expect(await find('wind')).toEqual(['phone-0001']);
    expect(await find('CAROL')).toEqual(['phone-0002']);
    expect(await find('phone')).toEqual(['phone-0001', 'phone-0002']);
  });
});

describe('pageAuditEvents', () => {
  it('shows the newest first, each once', async () => {
    await test.database.write(async (work) => {
      for (let index = 0; index < 7; index++) {
        const detail = { index };
        await appendAudit(work, admin, {
          action: 'user.updated',
          target_type: 'USER',
          target_id: buyer.id,
          detail,
        });
      }
    });
    const events = await allPages((request) => pageAuditEvents(test.database.read, request), 3);
    expect(events.map(({ detail }) => JSON.parse(detail).index)).toEqual([6, 5, 4, 3, 2, 1, 0]);
  });
});
