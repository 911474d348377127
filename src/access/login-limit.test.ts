import type { Database } from '../store/database';
import { expectRefusal, refusalOf } from '../testing/expect-refusal';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { makeUser, PASSWORD } from '../testing/people-and-devices';
import { loginAdmin } from './login-admin';
import { giveBack, LOGIN_LIMITS, LOGIN_WINDOW_SECONDS, originOf, reserveAttempt } from './login-limit';

const HERE = '203.0.113.7';
let test: TestDatabase;
beforeEach(async () => {
  test = await openTestDatabase();
});
afterEach(() => test.close());

const login = (username: string, password: string, address = HERE, database: Database = test.database) =>
  loginAdmin(database, { username, password, address }, { session_ttl_seconds: 3600 });
const reserve = (username: string, address = HERE) =>
  test.database.write((work) => reserveAttempt(work, username, address));

async function fill(username: string, address: string, times: number): Promise<void> {
  for (let attempt = 0; attempt < times; attempt++) await reserve(username, address);
}

describe('login limit', () => {
  it.each(['one pool', 'two pools'])(
    'evaluates no more than the limit of 200 parallel wrong guesses and a right one, through %s',
    async (pools) => {
      const { database } = test;
      await makeUser(database, 'ada', 'ADMIN');
      const databases = pools === 'one pool' ? [database] : [database, test.openAnother()];
      const guesses = Array.from({ length: 201 }, (_, index) =>
        index === 120 ? PASSWORD : `wrong guess ${index}`,
      );
      const codes = await Promise.all(
        guesses.map((guess, index) =>
          login('ada', guess, HERE, databases[index % databases.length]).then(
            () => 'OPENED',
            (refusal) => refusal.code,
          ),
        ),
      );
      const evaluated = codes.filter((code) => code !== 'RATE_LIMITED');
      expect(evaluated).toHaveLength(LOGIN_LIMITS.ACCOUNT_AT_ADDRESS);
      expect(codes.filter((code) => code === 'RATE_LIMITED')).toHaveLength(
        201 - LOGIN_LIMITS.ACCOUNT_AT_ADDRESS,
      );
    },
  );

  it('outlives a restart, and tells how long to wait: until the window ends, to the millisecond', async () => {
    const { clock } = test;
    await makeUser(test.database, 'ada', 'ADMIN');
    await fill('ada', HERE, 10);
    clock.advance(1);
    const restarted = test.openAnother();
    const refusal = await expectRefusal(restarted, 'RATE_LIMITED', () =>
      login('ada', PASSWORD, HERE, restarted),
    );
    expect(refusal.extra.retryAfterSeconds).toBe(LOGIN_WINDOW_SECONDS);

    clock.advance(LOGIN_WINDOW_SECONDS * 1000 - 2);
    const last = await expectRefusal(restarted, 'RATE_LIMITED', () =>
      login('ada', PASSWORD, HERE, restarted),
    );
    expect(last.extra.retryAfterSeconds).toBe(1);
    clock.advance(1);
    await expect(login('ada', PASSWORD, HERE, restarted)).resolves.toBeDefined();
  });

  it('does not count refused attempts, whatever the case of the name', async () => {
    await fill('ada', HERE, 10);
    for (let again = 0; again < 60; again++) {
      expect((await refusalOf(reserve('ADA'))).code).toBe('RATE_LIMITED');
    }
    await expect(reserve('bob')).resolves.toBeDefined();
  });

  it('lets nobody lock out another user of the same address before the address is full', async () => {
    for (const name of ['u1', 'u2', 'u3', 'u4']) await fill(name, HERE, 10);
    await makeUser(test.database, 'ada', 'ADMIN');
    await expect(login('ada', PASSWORD)).resolves.toBeDefined();
    await fill('u5', HERE, 10);
    await expectRefusal(test.database, 'RATE_LIMITED', () => reserve('u6'));
    await expect(reserve('u6', '203.0.113.8')).resolves.toBeDefined();
  });

  it('forgets the misses of the pair after a success, and gives its own place back elsewhere', async () => {
    await makeUser(test.database, 'ada', 'ADMIN');
    for (let round = 0; round < 12; round++) {
      await fill('ada', HERE, 3);
      await login('ada', PASSWORD);
    }
    // 36 misses count for the address; 14 places are left, whoever takes them.
    await fill('u1', HERE, 10);
    await fill('u2', HERE, 4);
    await expectRefusal(test.database, 'RATE_LIMITED', () => reserve('u3'));
  });

  it('bounds guesses at one account from everywhere, but never at a place where it signed in lately', async () => {
    const { database, clock } = test;
    await makeUser(database, 'ada', 'ADMIN');
    await login('ada', PASSWORD, HERE);
    for (let place = 0; place < 10; place++) await fill('ada', `198.51.100.${place}`, 10);
    await expectRefusal(database, 'RATE_LIMITED', () => reserve('ada', '198.51.100.99'));
    await expect(login('ada', PASSWORD, HERE)).resolves.toBeDefined();

    clock.advance(30 * 86_400_000);
    for (let place = 0; place < 10; place++) await fill('ada', `198.51.100.${place}`, 10);
    await expectRefusal(database, 'RATE_LIMITED', () => login('ada', PASSWORD, HERE));
  });

  it('gives back only what its own window holds', async () => {
    const { database, clock } = test;
    const old = await reserve('ada');
    clock.advance(LOGIN_WINDOW_SECONDS * 1000);
    await fill('u1', HERE, 10);
    await fill('u2', HERE, 10);
    await database.write((work) => giveBack(work, old));
    const counts = await database.read.knex('login_buckets').where('attempts', 20).pluck('attempts');
    expect(counts).toEqual([20]);
  });

  it('prunes what is over in small batches', async () => {
    const { database, clock } = test;
    await database.write(async (work) => {
      for (let index = 0; index < 30; index++)
        await reserveAttempt(work, `user${index}`, `198.51.100.${index}`);
    });
    const count = async () => Number((await database.read.knex('login_buckets').count('* as n'))[0]!.n);
    expect(await count()).toBe(90);
    clock.advance(LOGIN_WINDOW_SECONDS * 1000);
    await reserve('ada');
    expect(await count()).toBe(90 - 16 + 3);
  });

  it('writes one audit line when a bucket fills with misses, and no unknown name', async () => {
    const { database } = test;
    const user = await makeUser(database, 'ada', 'ADMIN');
    for (const name of ['ada', 'my-secret-as-name']) {
      for (let attempt = 0; attempt < 11; attempt++) await refusalOf(login(name, 'wrong password'));
    }
    const lines = await database.read.knex('audit_events').where('action', 'login.limited').orderBy('seq');
    expect(lines).toMatchObject([
      { actor_type: 'SYSTEM', target_type: 'USER', target_id: user.id },
      { actor_type: 'SYSTEM', target_type: 'USER', target_id: 'unknown' },
    ]);
    expect(JSON.parse(lines[0].detail)).toEqual({ limits: ['ACCOUNT_AT_ADDRESS'], address: HERE });
    expect(JSON.stringify(lines)).not.toContain('my-secret');
  });
});

describe('originOf', () => {
  it.each([
    ['203.0.113.7', '203.0.113.7'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:1:2::1', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['no address', 'no address'],
  ])('%s counts as %s', (address, origin) => {
    expect(originOf(address)).toBe(origin);
  });
});
