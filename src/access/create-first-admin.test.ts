import { refusalOf } from '../testing/expect-refusal';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { CHEAP, makeUser, PASSWORD } from '../testing/people-and-devices';
import { createAdmin, createFirstAdmin } from './create-first-admin';
import { loginAdmin } from './login-admin';

let test: TestDatabase;
beforeEach(async () => {
  test = await openTestDatabase();
});
afterEach(() => test.close());

const login = (username: string, password: string) =>
  loginAdmin(test.database, { username, password, address: '127.0.0.1' }, { session_ttl_seconds: 60 });

describe('createFirstAdmin', () => {
  it('makes up a password when none is given, and lets its admin in', async () => {
    const created = await createFirstAdmin(test.database, { username: 'admin', password: '' }, CHEAP);
    expect(created?.generated_password?.length).toBeGreaterThanOrEqual(20);
    await expect(login('admin', created!.generated_password!)).resolves.toBeDefined();
    const [audit] = await test.database.read.knex('audit_events');
    expect(audit).toMatchObject({
      action: 'user.created',
      actor_type: 'SYSTEM',
      target_id: created!.user.id,
    });
    expect(JSON.stringify(audit)).not.toContain(created!.generated_password);
  });

  it('takes the given password and does not show it', async () => {
    const created = await createFirstAdmin(test.database, { username: 'admin', password: PASSWORD }, CHEAP);
    expect(created).not.toHaveProperty('generated_password');
    await expect(login('admin', PASSWORD)).resolves.toBeDefined();
  });

  it('creates none when there is one, and one when several processes start at once', async () => {
    const outcomes = await Promise.all(
      Array.from({ length: 4 }, (_, index) =>
        createFirstAdmin(index % 2 ? test.openAnother() : test.database, { username: 'admin' }, CHEAP),
      ),
    );
    expect(outcomes.filter((created) => created !== undefined)).toHaveLength(1);
    expect(await createFirstAdmin(test.database, { username: 'other' }, CHEAP)).toBeUndefined();
    expect(await test.database.read.knex('users')).toHaveLength(1);
  });

  it('refuses DUPLICATE_USERNAME when a buyer has the name', async () => {
    await makeUser(test.database, 'Admin', 'BUYER');
    const refusal = await refusalOf(createFirstAdmin(test.database, { username: 'admin' }, CHEAP));
    expect(refusal.code).toBe('DUPLICATE_USERNAME');
  });
});

describe('createAdmin', () => {
  it('creates another admin, whether there is one or not', async () => {
    await createAdmin(test.database, { username: 'ada' }, CHEAP);
    const { user } = await createAdmin(test.database, { username: 'grace', password: PASSWORD }, CHEAP);
    expect(user).toMatchObject({ username: 'grace', role: 'ADMIN', status: 'ACTIVE' });
    expect((await refusalOf(createAdmin(test.database, { username: 'GRACE' }, CHEAP))).code).toBe(
      'DUPLICATE_USERNAME',
    );
    expect((await refusalOf(createAdmin(test.database, { username: 'a b' }, CHEAP))).code).toBe(
      'INVALID_REQUEST',
    );
    const short = { username: 'edith', password: 'short' };
    expect((await refusalOf(createAdmin(test.database, short, CHEAP))).code).toBe('INVALID_REQUEST');
  });
});
