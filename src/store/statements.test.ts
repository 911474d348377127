import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { param, params, statement } from './statements';

let opened: TestDatabase;

beforeAll(async () => {
  opened = await openTestDatabase();
});
afterAll(() => opened.close());

interface Row {
  username_key: string;
  address: string;
  last_success_at: string;
}
const insert = statement<Row>('test_insert', (knex) =>
  knex('login_origins').insert(params(['username_key', 'address', 'last_success_at'])),
);
const select = statement<{ username_key: string | null }, Row>('test_select', (knex) =>
  knex('login_origins').where('username_key', param('username_key')).orderBy('address'),
);
const touch = statement<{ username_key: string; at: string }>('test_touch', (knex) =>
  knex('login_origins')
    .where('username_key', param('username_key'))
    .update({ last_success_at: param('at') }),
);

describe('statement', () => {
  it('inserts, selects and tells how many rows it changed', async () => {
    const { database, clock } = opened;
    const at = clock.now();
    await database.write(async (work) => {
      for (const address of ['b', 'a']) {
        expect(await insert.run(work, { username_key: 'one', address, last_success_at: at })).toBe(1);
      }
      expect((await select.all(work, { username_key: 'one' })).map(({ address }) => address)).toEqual([
        'a',
        'b',
      ]);
      expect(await touch.run(work, { username_key: 'one', at })).toBe(2);
      expect(await touch.run(work, { username_key: 'none', at })).toBe(0);
    });
    expect(await select.first(database.read, { username_key: 'one' })).toEqual({
      username_key: 'one',
      address: 'a',
      last_success_at: at,
    });
    expect(await select.first(database.read, { username_key: 'none' })).toBeUndefined();
  });

  it('matches nothing for an absent value, never everything', async () => {
    expect(await select.all(opened.database.read, {} as { username_key: string })).toEqual([]);
  });

  it('has one name each in the whole store: a name is what it is prepared under', () => {
    const names = readdirSync(__dirname)
      .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
      .flatMap((file) => [
        ...readFileSync(path.join(__dirname, file), 'utf8').matchAll(/statement<[^()]*>\(\s*'(\w+)'/g),
      ])
      .map((match) => match[1]);
    expect(names.length).toBeGreaterThan(30);
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });
});
