import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { sendDeviceHeartbeat } from '../../src/access/send-device-heartbeat';
import { openDatabase } from '../../src/store/database';
import {
  makeDevice,
  makeUser,
  PASSWORD,
  signInAdmin,
  signInDevice,
} from '../../src/testing/people-and-devices';
import { canSignIn, cleanUp, freshDataDir, post, run, serve } from './program';

// Starts many processes; on a busy machine that takes a while.
jest.setTimeout(180_000);
afterAll(cleanUp);

const READABLE = /[a-z0-9]{5}-[a-z0-9]{5}-[a-z0-9]{5}-[a-z0-9]{5}/g;

describe('the first start', () => {
  it('makes an admin and shows its password once, on the terminal only', async () => {
    const dataDir = freshDataDir();
    const first = await serve({ CMBUYER_DATA_DIR: dataDir });
    while (!READABLE.test(first.program.stderr)) await new Promise((next) => setTimeout(next, 5));
    const shown = first.program.stderr.match(READABLE) as string[];
    expect(shown).toHaveLength(1);
    expect(first.program.stderr).toContain(`${first.address}/admin`);
    expect(await canSignIn(first.address, 'admin', shown[0] as string)).toBe(true);
    expect(statSync(dataDir).mode & 0o077).toBe(0);
    first.program.kill('SIGTERM');
    const { code, stdout } = await first.program.ended;
    expect(code).toBe(0);
    expect(stdout).not.toContain(shown[0]);
    expect(
      stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).msg),
    ).toEqual(expect.arrayContaining(['migrated', 'listening', 'stopped']));

    const second = await serve({ CMBUYER_DATA_DIR: dataDir });
    expect(await canSignIn(second.address, 'admin', shown[0] as string)).toBe(true);
    second.program.kill('SIGINT');
    expect(await second.program.ended).toMatchObject({ code: 0, stderr: '' });
  });

  it('takes the password that is configured, and shows none', async () => {
    const settings = { CMBUYER_ADMIN_USERNAME: 'The.Boss', CMBUYER_ADMIN_PASSWORD: 'a configured password' };
    const { program, address } = await serve({ CMBUYER_DATA_DIR: freshDataDir(), ...settings });
    expect(await canSignIn(address, 'the.boss', 'a configured password')).toBe(true);
    program.kill('SIGTERM');
    const { code, stdout, stderr } = await program.ended;
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).not.toContain('a configured password');
  });

  it('that fails because the port is taken loses no password', async () => {
    const rival = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => rival.once('listening', resolve));
    const { port } = rival.address() as AddressInfo;
    const dataDir = freshDataDir();

    const failed = await run(['serve'], { CMBUYER_DATA_DIR: dataDir, CMBUYER_PORT: String(port) });
    rival.close();
    expect([failed.code, failed.stderr.trim().split('\n')]).toEqual([
      1,
      [expect.stringMatching(/^cmbuyer: CMBUYER_PORT \d+ .*for example/)],
    ]);

    const { program, address } = await serve({ CMBUYER_DATA_DIR: dataDir });
    program.kill('SIGTERM');
    const { stderr } = await program.ended;
    expect(address).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(stderr.match(READABLE)).toHaveLength(1);
  });
});

describe('SIGTERM while a phone waits for a task', () => {
  const device_id = 'device-waiting';
  let dataDir: string;
  let token: string;

  beforeEach(async () => {
    dataDir = freshDataDir();
    const database = openDatabase({ dataDir });
    await database.migrateUp();
    const { actor } = await signInAdmin(database, await makeUser(database, 'admin', 'ADMIN'));
    const buyer = await makeUser(database, 'buyer', 'BUYER', PASSWORD);
    await makeDevice(database, actor, buyer, device_id);
    const device = await signInDevice(database, buyer, device_id);
    token = device.raw;
    const report = {
      app_version: '1',
      android_version: '14',
      accessibility_connected: true,
      pinduoduo_installed: true,
    };
    const timings = {
      claim_lease_seconds: 600,
      run_lease_seconds: 90,
      device_heartbeat_ttl_seconds: 120,
      authorization_ttl_seconds: 86_400,
    };
    await database.write((work) => sendDeviceHeartbeat(work, device.actor, report, timings));
    await database.close();
  });

  const headers = (claimToken: string) => ({
    authorization: `Bearer ${token}`,
    'idempotency-key': 'waiting',
    'x-claim-token': claimToken,
  });

  /** Sends SIGTERM once the server has surely got the claim: it came in one piece with a question that is answered by then. */
  async function stopWhileWaiting(wait_seconds: number) {
    const { program, address } = await serve({ CMBUYER_DATA_DIR: dataDir });
    const claimToken = randomBytes(32).toString('base64url');
    const body = JSON.stringify({ device_id, wait_seconds });
    const lines = Object.entries({
      Host: 'localhost',
      ...headers(claimToken),
      'Content-Type': 'application/json',
      'Content-Length': body.length,
    }).map(([name, value]) => `${name}: ${value}\r\n`);
    const socket = connect(Number(new URL(address).port), '127.0.0.1').setEncoding('utf8');
    let received = '';
    let hasTold = false;
    const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()));
    socket.on('error', () => undefined);
    socket.on('data', (text) => {
      received += text;
      if (hasTold) return;
      hasTold = true;
      program.kill('SIGTERM');
    });
    socket.write(
      `GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nPOST /api/v1/device/claim-next HTTP/1.1\r\n${lines.join('')}\r\n${body}`,
    );
    const { code, signal, stdout, stderr } = await program.ended;
    await closed;
    expect(stdout).not.toContain('INTERNAL_ERROR');
    expect([code, signal, stderr]).toEqual([0, null, '']);
    await expect(fetch(`${address}/healthz`)).rejects.toThrow();
    return {
      statuses: [...received.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status)),
      claimToken,
    };
  }

  it('lets a short wait end, and exits with 0', async () => {
    expect((await stopWhileWaiting(2)).statuses).toEqual([200, 204]);
  });

  it('ends a long wait at once with the outcome that it remembers, and exits with 0', async () => {
    const { statuses, claimToken } = await stopWhileWaiting(25);
    expect(statuses).toEqual([200, 204]);
    const { program, address } = await serve({ CMBUYER_DATA_DIR: dataDir });
    const again = await post(address, '/api/v1/device/claim-next', { device_id }, headers(claimToken));
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([204, 'true']);
    program.kill('SIGTERM');
    expect((await program.ended).code).toBe(0);
  });
});
