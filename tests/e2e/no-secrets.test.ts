import { keyHeaders, newCallKeys } from '@cmbuyer/sdk';
import {
  ADMIN_PASSWORD,
  BUYER_PASSWORD,
  enrolPhone,
  heartbeat,
  ServerProcess,
  signInAdmin,
  signInPhone,
  startPurchase,
} from './server-process';

// Starts a process of its own; on a busy machine that takes a while.
jest.setTimeout(180_000);

/** What must be found nowhere, by name: as text, and where it stands for bytes, as bytes. */
class Secrets {
  readonly #needles = new Map<string, Buffer>();

  add(name: string, secret: string): void {
    this.#needles.set(name, Buffer.from(secret, 'utf8'));
    if (/^[A-Za-z0-9_-]{43}$/.test(secret)) {
      this.#needles.set(`${name}, decoded`, Buffer.from(secret, 'base64url'));
      this.#needles.set(`${name}, in hex`, Buffer.from(Buffer.from(secret, 'base64url').toString('hex')));
    }
  }

  get names(): string[] {
    return [...this.#needles.keys()];
  }

  foundIn(where: string, haystack: Buffer): string[] {
    return [...this.#needles]
      .filter(([, needle]) => haystack.includes(needle))
      .map(([name]) => `${name} in ${where}`);
  }
}

describe('secrets', () => {
  let server: ServerProcess;
  beforeEach(async () => {
    server = await ServerProcess.start({ CMBUYER_LOG_LEVEL: 'trace' });
  });
  afterEach(() => server.discard());

  it('are in no file and no line of output, after a full run with faults', async () => {
    const secrets = new Secrets();
    const keep = async (url: string, init: RequestInit): Promise<Response> => {
      const response = await fetch(url, init);
      const session = /cmbuyer_session=([^;,]+)/.exec(response.headers.get('set-cookie') ?? '')?.[1];
      if (session) secrets.add('session cookie', session);
      if (new URL(url).pathname.endsWith('/login') && response.ok) {
        const answer = (await response.clone().json()) as { csrf_token?: string; access_token?: string };
        if (answer.csrf_token) secrets.add('csrf token', answer.csrf_token);
        if (answer.access_token) secrets.add('access token', answer.access_token);
      }
      return response;
    };
    const keys = newCallKeys();
    const unused = newCallKeys();
    const wrongPassword = 'wrong-correct-horse-battery';
    secrets.add('admin password', ADMIN_PASSWORD);
    secrets.add('buyer password', BUYER_PASSWORD);
    secrets.add('wrong password', wrongPassword);
    secrets.add('claim token', keys.claimToken);
    secrets.add('claim token without a task', unused.claimToken);

    const admin = await signInAdmin(server.baseUrl, keep);
    const enrolled = await enrolPhone(admin, 1);
    const phone = await signInPhone(server.baseUrl, enrolled, keep);
    const body = { device_id: enrolled.deviceId };
    await heartbeat(phone, enrolled);
    await phone.claimNextTask({ headers: keyHeaders(unused), body });
    await startPurchase(admin, 'Red mug');
    const claimed = (await phone.claimNextTask({ headers: keyHeaders(keys), body }))!;
    const path = { task_id: claimed.task_id };
    const { claim_generation } = claimed;
    const running = await phone.startTask({
      headers: keyHeaders(newCallKeys(keys.claimToken)),
      path,
      body: { claim_generation, expected_version: claimed.version },
    });
    const held = { execution_id: running.execution_id!, claim_generation };
    const offer = { unit_price_cents: 2_000, quantity: 2, total_cents: 4_000 };
    const fence = { ...held, ...offer, expected_version: running.version };

    // Faults: refusals and broken requests are where secrets leak into logs.
    const broken = await Promise.allSettled([
      phone.claimNextTask({ headers: keyHeaders(keys), body: { ...body, wait_seconds: 99 } }),
      phone.fenceSubmission({
        headers: keyHeaders(newCallKeys(unused.claimToken)),
        path,
        body: fence,
      }),
      phone.fenceSubmission({
        headers: keyHeaders(newCallKeys(keys.claimToken)),
        path,
        body: { ...fence, unit_price_cents: 9_000 },
      }),
      phone.loginDevice({ body: { username: enrolled.username, password: wrongPassword, ...body } }),
      admin.loginAdmin({ body: { username: 'root', password: wrongPassword } }),
    ]);
    expect(broken.map((outcome) => outcome.status)).toEqual(broken.map(() => 'rejected'));
    const malformed = await fetch(`${server.baseUrl}/api/v1/admin/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: `{"username":"root","password":"${ADMIN_PASSWORD}"`,
    });
    expect(malformed.status).toBe(400);

    const permit = await phone.fenceSubmission({
      headers: keyHeaders(newCallKeys(keys.claimToken)),
      path,
      body: fence,
    });
    await phone.reportSubmissionResult({
      headers: keyHeaders(newCallKeys(keys.claimToken)),
      path,
      body: {
        ...held,
        outcome: 'ORDER_CREATED',
        submission_id: permit.submission?.id,
        order_no: '260302-123456789012345',
      },
    });
    const task = await admin.getTask({ path });
    expect(task.status).toBe('ORDERED');

    expect(secrets.names).toEqual(
      expect.arrayContaining(['session cookie', 'csrf token', 'access token, decoded', 'claim token']),
    );
    // While it runs, for what is only in the write-ahead log; and once it has closed its files.
    const whileRunning = await server.files();
    expect(whileRunning.map((file) => file.name)).toContainEqual(expect.stringMatching(/-wal$/));
    await server.stop();
    const closed = await server.files();
    const output = Buffer.from(server.output);
    const places = [...whileRunning, ...closed, { name: 'output', bytes: output }];
    expect(places.flatMap(({ name, bytes }) => secrets.foundIn(name, bytes))).toEqual([]);

    // The search finds what is there.
    expect(closed.some(({ bytes }) => bytes.includes(enrolled.username))).toBe(true);
    expect(output.includes('reportSubmissionResult')).toBe(true);
  });
});
