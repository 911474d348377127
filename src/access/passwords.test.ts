import { parseOptions, verify } from '@node-rs/argon2';
import { CHEAP } from '../testing/people-and-devices';
import { generatePassword, hashPassword, PASSWORD_COST, verifyPassword } from './passwords';

describe('hashPassword', () => {
  it('hashes with argon2id at the documented cost and a salt of its own', async () => {
    const [one, other] = await Promise.all([hashPassword('correct horse'), hashPassword('correct horse')]);
    expect(one).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
    expect(parseOptions(one)).toMatchObject(PASSWORD_COST);
    expect(one).not.toBe(other);
  });

  it('composes the password first (NFC), so that two keyboards agree', async () => {
    const hash = await hashPassword('cafe\u0301 au lait', undefined, CHEAP);
    expect(await verify(hash, 'caf\u00e9 au lait')).toBe(true);
    expect(await verifyPassword(hash, 'cafe\u0301 au lait')).toBe(true);
    expect(await verifyPassword(hash, 'caf\u00e9 au lait')).toBe(true);
    expect(await verifyPassword(hash, 'cafe au lait')).toBe(false);
  });

  it.each([
    ['eleven characters', 'x'.repeat(11)],
    ['129 characters', 'x'.repeat(129)],
    ['twelve code points that compose to eleven', `${'x'.repeat(10)}e\u0301`],
    ['twelve UTF-16 units that are six characters', '\u{1f40e}'.repeat(6)],
  ])('refuses INVALID_REQUEST for %s', async (_what, password) => {
    await expect(hashPassword(password, '/body/new_password', CHEAP)).rejects.toMatchObject({
      code: 'INVALID_REQUEST',
      extra: { errors: [{ path: '/body/new_password', message: 'must be 12 to 128 characters' }] },
    });
  });

  it.each([['x'.repeat(12)], ['x'.repeat(128)], ['\u{1f40e}'.repeat(128)]])(
    'accepts the bounds',
    async (password) => {
      expect(await verifyPassword(await hashPassword(password, undefined, CHEAP), password)).toBe(true);
    },
  );
});

describe('verifyPassword', () => {
  it('spends the same time without a hash, and is never right', async () => {
    const hash = await hashPassword('correct horse');
    const [known, unknown]: [number[], number[]] = [[], []];
    for (let round = 0; round < 8; round++) {
      known.push(await milliseconds(() => verifyPassword(hash, 'wrong horse!')));
      unknown.push(await milliseconds(() => verifyPassword(undefined, 'wrong horse!')));
    }
    const ratio = Math.min(...unknown) / Math.min(...known);
    expect(ratio).toBeGreaterThan(0.6);
    expect(ratio).toBeLessThan(1.6);
    expect(await verifyPassword(undefined, '')).toBe(false);
  });
});

describe('generatePassword', () => {
  it('makes four groups that are easy to read and never the same', () => {
    const made = Array.from({ length: 200 }, generatePassword);
    for (const password of made) expect(password).toMatch(/^[a-hjkmnp-z2-9]{5}(-[a-hjkmnp-z2-9]{5}){3}$/);
    expect(new Set(made).size).toBe(200);
  });
});

async function milliseconds(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}
