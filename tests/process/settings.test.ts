import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { packageRoot } from '../../src/config';
import { cleanUp, freshDataDir, run } from './program';

// Starts many processes; on a busy machine that takes a while.
jest.setTimeout(180_000);
afterAll(cleanUp);

const LONG = 'x'.repeat(400);

/** At least one wrong value of every variable that the program reads. */
const WRONG: [name: string, value: string][] = [
  ['CMBUYER_HOST', 'not a host'],
  ['CMBUYER_HOST', ''],
  ['CMBUYER_HOST', '203.0.113.77'],
  ['CMBUYER_HOST', 'host.that.does.not.exist.invalid'],
  ['CMBUYER_PORT', '65536'],
  ['CMBUYER_PORT', '80.5'],
  ['CMBUYER_PORT', 'http'],
  ['CMBUYER_DATA_DIR', ''],
  ['CMBUYER_DATABASE_URL', 'mysql://localhost/x'],
  ['CMBUYER_DATABASE_URL', 'postgresql://someone:a-secret@127.0.0.1:1/x'],
  ['CMBUYER_IMAGE_STORE_URL', 's3://someone:a-secret@bucket'],
  ['CMBUYER_CLAIM_LEASE_SECONDS', '4'],
  ['CMBUYER_RUN_LEASE_SECONDS', '901'],
  ['CMBUYER_DEVICE_HEARTBEAT_TTL_SECONDS', '1e2'],
  ['CMBUYER_AUTHORIZATION_TTL_SECONDS', '-60'],
  ['CMBUYER_ACCESS_TOKEN_TTL_SECONDS', '0'],
  ['CMBUYER_SESSION_TTL_SECONDS', '99999999999'],
  ['CMBUYER_TRUST_PROXY', 'maybe'],
  ['CMBUYER_LOG_LEVEL', 'loud'],
  ['CMBUYER_ADMIN_USERNAME', 'a b'],
  ['CMBUYER_ADMIN_PASSWORD', 'short'],
  ['CMBUYER_ADMIN_PASSWORD', LONG],
  ['CMBUYER_ADMIN_PASSWORD', 'read from a file\n'],
];

it('every variable that is read is here', () => {
  const source = readFileSync(path.join(packageRoot, 'src/config.ts'), 'utf8');
  const read = new Set(source.match(/CMBUYER_[A-Z_]+/g));
  expect([...read].sort()).toEqual([...new Set(WRONG.map(([name]) => name))].sort());
});

it.each(WRONG)('%s=%j stops the start with one clear line', async (name, value) => {
  const { code, stdout, stderr } = await run(['serve'], {
    CMBUYER_DATA_DIR: freshDataDir(),
    CMBUYER_PORT: '0',
    [name]: value,
  });
  expect(stderr.trimEnd().split('\n')).toEqual([
    expect.stringMatching(new RegExp(`^cmbuyer: ${name} .*for example ${name}=`)),
  ]);
  expect(code).toBe(1);
  expect(stderr).not.toContain('a-secret');
  if (name === 'CMBUYER_ADMIN_PASSWORD') expect(stderr).not.toContain(value.trim());
  expect(stdout).not.toContain('listening');
});

it('a data directory that is a file, or below one, stops the start with one clear line', async () => {
  const file = path.join(path.dirname(freshDataDir()), 'file');
  writeFileSync(file, '');
  for (const dataDir of [file, path.join(file, 'data')]) {
    const { code, stderr } = await run(['serve'], { CMBUYER_DATA_DIR: dataDir, CMBUYER_PORT: '0' });
    expect(stderr.trimEnd().split('\n')).toEqual([
      expect.stringMatching(/^cmbuyer: CMBUYER_DATA_DIR .*for example/),
    ]);
    expect(code).toBe(1);
  }
});
