import type { OperationId } from '../../src/contract/generated/operations.gen';
import { allFacts } from '../../src/testing/all-facts';
import { entryOf, operationOf, parametersOf, sampleRequest } from '../../src/testing/contract-samples';
import {
  type Answer,
  operationEntries,
  PASSWORD,
  type TestApp,
  targetOf,
  useTestApp,
  type WireHeaders,
  wireOf,
} from '../../src/testing/start-test-app';
import {
  claim,
  expectStatus,
  fence,
  makeDraft,
  makePending,
  newClaimToken,
  newKey,
  offerOf,
  on,
  report,
  sendHeartbeat,
  start,
  WISH,
} from './scenario';

const JSON_TYPE: [string, string] = ['Content-Type', 'application/json'];

describe('a header that is sent twice', () => {
  const app = useTestApp();

  const takes = (name: string) =>
    operationEntries.filter((entry) => parametersOf(operationOf(entry)).some((one) => one.name === name));

  function sendWith(id: OperationId, change: (headers: WireHeaders) => WireHeaders): Promise<Answer> {
    const entry = entryOf(id);
    const isDevice = operationOf(entry).tags[0] === 'device';
    const sample = sampleRequest(entry);
    const { headers, body } = wireOf({ ...sample, as: isDevice ? app().phone : app().admin });
    return app().send(entry.method.toUpperCase(), targetOf(entry.path, sample), {
      headers: change(headers),
      body,
    });
  }

  const twice =
    (name: string, other?: string) =>
    (headers: WireHeaders): WireHeaders =>
      headers.flatMap(
        ([given, value]): WireHeaders =>
          given === name
            ? [
                [given, value],
                [given.toLowerCase(), other ?? value],
              ]
            : [[given, value]],
      );
  const joined =
    (name: string) =>
    (headers: WireHeaders): WireHeaders =>
      headers.map(([given, value]) => (given === name ? [given, `${value}, ${value}`] : [given, value]));

  it.each([
    ['Idempotency-Key', takes('Idempotency-Key'), 'INVALID_REQUEST'],
    ['X-Claim-Token', takes('X-Claim-Token'), 'INVALID_REQUEST'],
    [
      'Authorization',
      operationEntries.filter((entry) => 'deviceToken' in (operationOf(entry).security[0] ?? {})),
      'UNAUTHENTICATED',
    ],
    [
      'X-CSRF-Token',
      operationEntries.filter((entry) => 'adminCsrf' in (operationOf(entry).security[0] ?? {})),
      'CSRF_FAILED',
    ],
    [
      'Cookie',
      operationEntries.filter((entry) => 'adminSession' in (operationOf(entry).security[0] ?? {})),
      undefined,
    ],
  ] as const)('%s: refused everywhere, and without effect', async (name, entries, whenJoined) => {
    const before = await allFacts(app().database);
    expect(entries.length).toBeGreaterThan(0);
    for (const { id } of entries) {
      for (const change of [twice(name), twice(name, newClaimToken())]) {
        const answer = await sendWith(id, change);
        expect([id, answer.json?.code]).toEqual([id, 'INVALID_REQUEST']);
        expect(answer.json.errors[0].path).toBe(`/header/${name.toLowerCase()}`);
      }
      if (whenJoined === undefined) continue;
      const answer = await sendWith(id, joined(name));
      expect([id, answer.json?.code]).toEqual([id, whenJoined]);
    }
    expect(await allFacts(app().database)).toBe(before);
  });

  it('leaves its key and token unused: sent once they work as the first time', async () => {
    const { admin, phone, send, call } = app();
    const key = newKey();
    const body = JSON.stringify(WISH);
    for (const keys of [[key, key], [`${key}, ${key}`], [key, newKey()], [`${key},${key}`]]) {
      const headers: WireHeaders = [
        ...admin.headers,
        JSON_TYPE,
        ...keys.map((one): [string, string] => ['Idempotency-Key', one]),
      ];
      expectStatus(await send('POST', '/api/v1/admin/tasks', { headers, body }), 400);
    }
    const first = await call('createTask', { as: admin, key, body: WISH });
    expect([first.status, first.headers['idempotent-replayed']]).toEqual([201, undefined]);

    await makePending(app());
    expectStatus(await sendHeartbeat(app(), phone), 200);
    const claimToken = newClaimToken();
    const request = { as: phone, body: { device_id: phone.device_id } };
    const asked = await call('claimNextTask', {
      ...request,
      key,
      claimToken,
      headers: [['X-Claim-Token', claimToken]],
    });
    expectStatus(asked, 400);
    expectStatus(
      await call('claimNextTask', { ...request, key, claimToken, headers: [['Idempotency-Key', key]] }),
      400,
    );
    expectStatus(
      await call('claimNextTask', { ...request, key, claimToken, headers: [phone.headers[0]!] }),
      400,
    );
    const claimed = await call('claimNextTask', { ...request, key, claimToken });
    expect([claimed.status, claimed.headers['idempotent-replayed']]).toEqual([200, undefined]);
  });

  it.each(takes('Idempotency-Key').map(({ id }) => id))('%s refuses keys that are no keys', async (id) => {
    for (const key of ['', 'a b', 'a,b', 'a\tb', 'k'.repeat(129), '\u00e9', '\u00ff']) {
      const answer = await sendWith(id, (headers) =>
        headers.map(([name, value]) => [name, name === 'Idempotency-Key' ? key : value]),
      );
      expect([key, answer.json?.code]).toEqual([key, 'INVALID_REQUEST']);
    }
    const missing = await sendWith(id, (headers) => headers.filter(([name]) => name !== 'Idempotency-Key'));
    expect(missing.json.code).toBe('INVALID_REQUEST');
  });

  it.each(takes('X-Claim-Token').map(({ id }) => id))('%s refuses claim tokens that are none', async (id) => {
    const good = newClaimToken();
    for (const token of [
      '',
      good.slice(1),
      `${good}x`,
      `${good.slice(1)}=`,
      `${good.slice(1)}+`,
      `${good.slice(1)}\u00e9`,
    ]) {
      const answer = await sendWith(id, (headers) =>
        headers.map(([name, value]) => [name, name === 'X-Claim-Token' ? token : value]),
      );
      expect([token, answer.json?.code]).toEqual([token, 'INVALID_REQUEST']);
      if (token !== '') expect(answer.text).not.toContain(token);
    }
  });
});

describe('an idempotency key', () => {
  const app = useTestApp();

  it('is one operation of one user on one device: elsewhere it means nothing', async () => {
    const { admin, phone, addAdmin, addPhone, call } = app();
    const key = 'one-key-for-everything';
    const first = async (answer: Promise<Answer>, status: number) => {
      const given = await answer;
      expect([given.status, given.headers['idempotent-replayed']]).toEqual([status, undefined]);
      return given.json;
    };
    const other = await addAdmin('another.admin');
    const otherPhone = await addPhone('other');
    const mine = await first(call('createTask', { as: admin, key, body: WISH }), 201);
    const theirs = await first(call('createTask', { as: other, key, body: { ...WISH, title: '面包' } }), 201);
    expect(theirs.id).not.toBe(mine.id);
    const user = { username: 'keyed.user', password: PASSWORD, role: 'BUYER' };
    const { id } = await first(call('createUser', { as: admin, key, body: user }), 201);
    await first(
      call('authorizeDevice', {
        as: admin,
        key,
        body: { device_id: 'keyed-device', label: 'x', user_id: id },
      }),
      201,
    );

    for (const one of [phone, otherPhone]) {
      await makePending(app());
      expectStatus(await sendHeartbeat(app(), one), 200);
      const claimToken = newClaimToken();
      const claimed = await first(
        call('claimNextTask', { as: one, key, claimToken, body: { device_id: one.device_id } }),
        200,
      );
      const held = { as: one, claimToken, path: { task_id: claimed.task_id }, key };
      const { claim_generation, version } = claimed;
      const started = await first(
        call('startTask', { ...held, body: { claim_generation, expected_version: version } }),
        200,
      );
      const { execution_id } = started;
      const offer = {
        execution_id,
        claim_generation,
        expected_version: started.version,
        unit_price_cents: 1,
        quantity: 2,
        total_cents: 2,
      };
      await first(call('fenceSubmission', { ...held, body: offer }), 200);
      await first(
        call('reportSubmissionResult', {
          ...held,
          body: { execution_id, claim_generation, outcome: 'UNKNOWN' },
        }),
        200,
      );
    }
  });

  it('does not outlive its credential: a replay by a revoked phone is a 401', async () => {
    const { admin, addPhone, call } = app();
    const phone = await addPhone('leaving');
    await makePending(app());
    const held = await claim(app(), phone);
    const again = {
      as: phone,
      key: held.key,
      claimToken: held.claimToken,
      body: { device_id: phone.device_id },
    };
    expect((await call('claimNextTask', again)).headers['idempotent-replayed']).toBe('true');
    expectStatus(
      await call('revokeDevice', { as: admin, path: { device_id: phone.device_id }, body: {} }),
      200,
    );
    expect((await call('claimNextTask', again)).json.code).toBe('TOKEN_REVOKED');
  });

  it('replays nothing for another type, path or query', async () => {
    const { admin, send } = app();
    const headers: WireHeaders = [...admin.headers, ['Idempotency-Key', newKey()]];
    const body = JSON.stringify(WISH);
    expectStatus(await send('POST', '/api/v1/admin/tasks', { headers: [...headers, JSON_TYPE], body }), 201);
    const type: [string, string] = ['Content-Type', 'text/plain'];
    expectStatus(await send('POST', '/api/v1/admin/tasks', { headers: [...headers, type], body }), 415);
    expectStatus(
      await send('POST', '/api/v1/admin/tasks?dry_run=1', { headers: [...headers, JSON_TYPE], body }),
      400,
    );
    expectStatus(await send('POST', '/api/v1/admin/TASKS', { headers: [...headers, JSON_TYPE], body }), 404);
  });

  it('of twenty at once does it once, and all get the same answer', async () => {
    const { admin, phone, call } = app();
    const key = newKey();
    const created = await Promise.all(
      Array.from({ length: 20 }, () => call('createTask', { as: admin, key, body: WISH })),
    );
    expect(new Set(created.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(created.filter(({ headers }) => headers['idempotent-replayed'] === undefined)).toHaveLength(1);

    const other = newKey();
    const mixed = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        call('createTask', { as: admin, key: other, body: { ...WISH, quantity: 1 + (index % 2) } }),
      ),
    );
    expect(mixed.map(({ status }) => status).sort()).toEqual([
      ...Array(10).fill(201),
      ...Array(10).fill(409),
    ]);
    expect(new Set(mixed.filter(({ status }) => status === 409).map(({ json }) => json.code))).toEqual(
      new Set(['IDEMPOTENCY_KEY_REUSED']),
    );
    expect(phone.device_id).toBeDefined();
  });
});

const wrongLogin = (app: TestApp, forwarded: string, username = app.admin.user.username) =>
  app.send('POST', '/api/v1/admin/login', {
    headers: [JSON_TYPE, ['X-Forwarded-For', forwarded]],
    body: JSON.stringify({ username, password: 'wrong' }),
  });

async function cookieOf(app: TestApp, headers: WireHeaders): Promise<string> {
  const body = JSON.stringify({ username: app.admin.user.username, password: PASSWORD });
  const answer = await app.send('POST', '/api/v1/admin/login', { headers: [JSON_TYPE, ...headers], body });
  expectStatus(answer, 200);
  const [cookie] = answer.headers['set-cookie'] as string[];
  return (cookie as string).replace(/^cmbuyer_session=[A-Za-z0-9_-]{43}; /, '');
}

const PLAIN = 'Path=/; HttpOnly; SameSite=Lax; Max-Age=43200';
const SECURE = `${PLAIN}; Secure`;

describe('what a proxy would say, from anyone', () => {
  const app = useTestApp();

  it('opens no new bucket for guesses', async () => {
    for (let tries = 0; tries < 10; tries += 1) {
      expect((await wrongLogin(app(), `198.51.100.${tries}`)).json.code).toBe('INVALID_CREDENTIALS');
    }
    expect((await wrongLogin(app(), '203.0.113.9')).json.code).toBe('RATE_LIMITED');
    app().clock.advance(15 * 60_000);
  });

  it.each([
    ['127.0.0.1:8080', PLAIN],
    ['localhost:8080', PLAIN],
    ['[::1]:8080', PLAIN],
    ['127.8.8.8', PLAIN],
    ['cmbuyer.example', SECURE],
    ['192.168.1.7:8080', SECURE],
    ['localhost.example', SECURE],
    ['127.0.0.1.example', SECURE],
  ])('the cookie for Host: %s', async (host, expected) => {
    expect(await cookieOf(app(), [['Host', host]])).toBe(expected);
    const claimed: WireHeaders = [
      ['X-Forwarded-Proto', expected === PLAIN ? 'https' : 'http'],
      ['X-Forwarded-Host', expected === PLAIN ? 'cmbuyer.example' : 'localhost'],
      ['Forwarded', 'proto=https;host=localhost'],
    ];
    expect(await cookieOf(app(), [['Host', host], ...claimed])).toBe(expected);
  });

  it('the cookie is taken away with the same attributes', async () => {
    const { addAdmin, call } = app();
    const leaving = await addAdmin('leaving.admin');
    const answer = await call('logoutAdmin', { as: leaving });
    expect(answer.headers['set-cookie']).toEqual([
      'cmbuyer_session=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0',
    ]);
  });
});

describe('behind a trusted proxy', () => {
  const app = useTestApp({ CMBUYER_TRUST_PROXY: 'on' });

  it('guesses are counted by the entry that the proxy added, the last', async () => {
    for (let tries = 0; tries < 10; tries += 1) {
      const answer = await wrongLogin(app(), `203.0.113.${tries}, 198.51.100.7`);
      expect(answer.json.code).toBe('INVALID_CREDENTIALS');
    }
    expect((await wrongLogin(app(), '203.0.113.99, 198.51.100.7')).json.code).toBe('RATE_LIMITED');
    expect((await wrongLogin(app(), '198.51.100.7')).json.code).toBe('RATE_LIMITED');
    expect((await wrongLogin(app(), '198.51.100.7, 203.0.113.99')).json.code).toBe('INVALID_CREDENTIALS');
    app().clock.advance(15 * 60_000);
  });

  it.each([
    ['https', undefined, SECURE],
    ['http', undefined, PLAIN],
    ['http, https', undefined, SECURE],
    ['https, http', undefined, PLAIN],
    ['http', 'cmbuyer.example', SECURE],
    ['http', 'localhost, cmbuyer.example', SECURE],
    ['http', 'cmbuyer.example, localhost', PLAIN],
  ])('the cookie for X-Forwarded-Proto: %s, X-Forwarded-Host: %s', async (proto, host, expected) => {
    const headers: WireHeaders = [
      ['Host', '127.0.0.1:8080'],
      ['X-Forwarded-Proto', proto],
    ];
    if (host !== undefined) headers.push(['X-Forwarded-Host', host]);
    expect(await cookieOf(app(), headers)).toBe(expected);
  });
});

describe('every answer', () => {
  const app = useTestApp();

  it('names its request, anew each time, and so does its one line in the log', async () => {
    const { admin, phone, send, call, log } = app();
    const mine: WireHeaders = [['X-Request-Id', 'chosen-by-the-client']];
    const answers: [Answer, string | undefined, string][] = [
      [await send('GET', '/healthz', { headers: mine }), 'getHealth', 'GET'],
      [await send('GET', '/nowhere', { headers: mine }), undefined, 'GET'],
      [await send('GET', '/api/v1/admin/tasks/%zz', { headers: mine }), undefined, 'GET'],
      [await send('DELETE', '/healthz', { headers: mine }), undefined, 'DELETE'],
      [await send('HEAD', '/healthz', { headers: mine }), 'getHealth', 'HEAD'],
      [await call('getAdminContext'), 'getAdminContext', 'GET'],
      [await call('createTask', { as: admin, key: newKey(), body: WISH }), 'createTask', 'POST'],
      [await call('createTask', { as: admin, key: newKey(), body: {} }), 'createTask', 'POST'],
      [await call('logoutDevice', { as: phone }), 'logoutDevice', 'POST'],
    ];
    const ids = answers.map(([{ headers }]) => String(headers['x-request-id']));
    expect(new Set(ids).size).toBe(answers.length);
    expect(ids.filter((id) => !/^[0-9a-f-]{36}$/.test(id))).toEqual([]);
    for (const [index, [answer, operation, method]] of answers.entries()) {
      const lines = log.lines().filter(({ request_id }) => request_id === ids[index]);
      expect(lines.map((line) => [line.operation, line.method, line.status])).toEqual([
        [operation, method, answer.status],
      ]);
    }
  });

  it('may be kept by nobody, says nothing about the server, and is never 304', async () => {
    const { admin, call, send } = app();
    const draft = await makeDraft(app());
    const answers = [
      await call('getTask', { as: admin, path: { task_id: draft.id } }),
      await call('getHealth'),
      await call('getAdminContext'),
      await send('GET', '/nowhere'),
    ];
    for (const { headers } of answers) {
      expect(headers['cache-control']).toBe('no-store');
      expect([headers['x-powered-by'], headers.etag, headers.server]).toEqual([
        undefined,
        undefined,
        undefined,
      ]);
      expect(headers['content-type']).not.toContain('charset');
    }
    const conditional: WireHeaders = [
      ...admin.headers,
      ['If-None-Match', '*'],
      ['If-Modified-Since', new Date().toUTCString()],
    ];
    expect((await send('GET', `/api/v1/admin/tasks/${draft.id}`, { headers: conditional })).status).toBe(200);
  });

  it('leaves no secret in the log', async () => {
    const { admin, addPhone, call, send, log } = app();
    const phone = await addPhone('secretive');
    const signedIn = await call('loginDevice', {
      body: { username: phone.user.username, password: PASSWORD, device_id: phone.device_id },
    });
    const session = await call('loginAdmin', { body: { username: admin.user.username, password: PASSWORD } });
    await call('loginAdmin', {
      body: { username: 'my-secret-typed-as-name', password: 'my-wrong-password' },
    });
    await makePending(app(), { title: 'a-secret-title', buyer_note: 'a-secret-note' });
    const held = await fence(app(), await start(app(), await claim(app(), phone)));
    await report(app(), held, { outcome: 'ORDER_CREATED', order_no: 'SECRET-ORDER' });
    await call('fenceSubmission', { ...on(held), key: 'a-secret-key', body: offerOf(held) });
    await send('GET', '/api/v1/admin/tasks?q=a-secret-search', { headers: admin.headers });
    await send('GET', '/api/v1/nowhere/a-secret-segment?token=a-secret-query');
    await send('GET', '/api/v1/device/me', { headers: [['Authorization', 'Bearer a-secret-bearer']] });
    app().outage.code = 'ECONNREFUSED';
    await call('getTask', { as: admin, path: { task_id: held.task_id } });
    app().outage.code = undefined;

    const secrets = [
      PASSWORD,
      'my-wrong-password',
      'my-secret-typed-as-name',
      signedIn.json.access_token,
      session.json.csrf_token,
      String(session.headers['set-cookie']).slice(16, 59),
      admin.session,
      admin.csrf,
      phone.token,
      held.claimToken,
      held.key,
      'SECRET-ORDER',
      'a-secret-',
      'argon2',
    ];
    expect(secrets.filter((secret) => log.text().includes(secret))).toEqual([]);
    expect(log.lines().length).toBeGreaterThan(10);
  });
});
