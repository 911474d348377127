import type { AdminActor } from '../contract/actor';
import { expectRefusal } from '../testing/expect-refusal';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { makeUser, signInAdmin } from '../testing/people-and-devices';
import { createUser, type NewUser } from './create-user';
import { updateUser } from './update-user';

let test: TestDatabase;
let admin: AdminActor;
beforeEach(async () => {
  test = await openTestDatabase();
  ({ actor: admin } = await signInAdmin(test.database, await makeUser(test.database, 'ada', 'ADMIN')));
});
afterEach(() => test.close());

const create = (input: Partial<NewUser> = {}, actor = admin) =>
  test.database.write((work) =>
    createUser(work, actor, {
      idempotency_key: 'key-1',
      username: 'Bob.Buyer',
      role: 'BUYER',
      password_hash: 'hash-1',
      ...input,
    }),
  );

describe('createUser', () => {
  it('creates an active user and writes it down, without the hash', async () => {
    const { clock, database } = test;
    const { user, replayed } = await create({ display_name: 'Bob' });
    expect(replayed).toBe(false);
    expect(user).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/),
      username: 'Bob.Buyer',
      display_name: 'Bob',
      role: 'BUYER',
      status: 'ACTIVE',
      created_at: clock.now(),
      updated_at: clock.now(),
      last_login_at: null,
      last_disabled_at: null,
    });
    const [audit] = await database.read.knex('audit_events');
    expect(audit).toMatchObject({ action: 'user.created', actor_user_id: admin.user_id, target_id: user.id });
    expect(JSON.stringify(audit)).not.toContain('hash-1');
  });

  it('answers the same user under the same key, as it stands now, whatever the password', async () => {
    const { user } = await create();
    await test.database.write((work) =>
      updateUser(work, admin, { user_id: user.id, display_name: 'Robert', status: 'ACTIVE' }),
    );
    expect(await create({ password_hash: 'hash-2' })).toEqual({
      user: expect.objectContaining({ id: user.id, display_name: 'Robert' }),
      replayed: true,
    });
    const rows = await test.database.read.knex('users').where('id', user.id);
    expect(rows).toMatchObject([{ password_hash: 'hash-1' }]);
  });

  it('creates once when the same request comes several times at once', async () => {
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => create()));
    expect(new Set(outcomes.map(({ user }) => user.id)).size).toBe(1);
    expect(outcomes.filter(({ replayed }) => !replayed)).toHaveLength(1);
  });

  it('refuses IDEMPOTENCY_KEY_REUSED for another request under the key, but keeps keys of admins apart', async () => {
    await create();
    await expectRefusal(test.database, 'IDEMPOTENCY_KEY_REUSED', () => create({ username: 'carol' }));
    await expectRefusal(test.database, 'IDEMPOTENCY_KEY_REUSED', () => create({ role: 'ADMIN' }));
    const grace = await signInAdmin(test.database, await makeUser(test.database, 'grace', 'ADMIN'));
    await expect(create({ username: 'carol' }, grace.actor)).resolves.toMatchObject({ replayed: false });
  });

  it('refuses DUPLICATE_USERNAME in whatever case; the key may be tried again', async () => {
    await create();
    const again = { idempotency_key: 'key-2', username: 'BOB.buyer' };
    await expectRefusal(test.database, 'DUPLICATE_USERNAME', () => create(again));
    await expect(create({ ...again, username: 'bob2' })).resolves.toMatchObject({ replayed: false });
  });
});
