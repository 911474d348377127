import {
  CmbuyerNetworkError,
  CmbuyerProblem,
  createAdminClient,
  createDeviceClient,
  ErrorCode,
  getHealth,
  keyHeaders,
  newCallKeys,
  newClaimToken,
  newIdempotencyKey,
  withKeys,
} from '@cmbuyer/sdk';
import { answerJson, answerProblem, type LocalServer, startLocalServer } from './local-server';

const deviceId = 'pdd-phone-07';

describe('keys', () => {
  it('are random and fit the contract', () => {
    const tokens = Array.from({ length: 100 }, () => newClaimToken());
    const keys = Array.from({ length: 100 }, () => newIdempotencyKey());

    expect(new Set([...tokens, ...keys]).size).toBe(200);
    for (const token of tokens) expect(token).toMatch(/^[A-Za-z0-9_-]{43}$/);
    for (const key of keys) expect(key).toMatch(/^[\x21-\x2B\x2D-\x7E]{1,128}$/);
  });

  it('are stored before anything is sent', async () => {
    const order: string[] = [];

    await withKeys(async (headers) => order.push(`send ${headers['Idempotency-Key']}`), {
      store: async (keys) => order.push(`store ${keys.idempotencyKey}`),
    });

    expect(order).toEqual([order[0], order[0]?.replace('store', 'send')]);
  });

  it('are those of before the restart when given back', async () => {
    const stored = newCallKeys();

    const headers = await withKeys(async (sent) => sent, { stored, store: () => fail() });

    expect(headers).toEqual({
      'Idempotency-Key': stored.idempotencyKey,
      'X-Claim-Token': stored.claimToken,
    });
  });

  function fail(): never {
    throw new Error('stored twice');
  }
});

describe('clients', () => {
  let server: LocalServer;
  afterEach(() => server.close());

  it('answers undefined for 204', async () => {
    server = await startLocalServer((_request, response) => answerJson(response, 204));
    const device = createDeviceClient({ baseUrl: server.baseUrl });

    const claimed = await device.claimNextTask({
      headers: keyHeaders(newCallKeys()),
      body: { device_id: deviceId },
    });

    expect(claimed).toBeUndefined();
  });

  it('turns a refusal into a CmbuyerProblem', async () => {
    server = await startLocalServer((_request, response) => answerProblem(response, 409, 'LEASE_EXPIRED'));
    const device = createDeviceClient({ baseUrl: server.baseUrl });

    const problem = await device.getDeviceContext().catch((error: unknown) => error);

    expect(problem).toBeInstanceOf(CmbuyerProblem);
    expect(problem).toMatchObject({
      name: 'CmbuyerProblem',
      status: 409,
      code: ErrorCode.LEASE_EXPIRED,
      problem: { detail: 'What to do about LEASE_EXPIRED.' },
      retryAfterSeconds: undefined,
      requestId: 'request-1',
    });
  });

  it('keeps a code readable that is not in the contract yet', async () => {
    server = await startLocalServer((_request, response) => answerProblem(response, 409, 'BRAND_NEW'));

    await expect(createDeviceClient({ baseUrl: server.baseUrl }).getDeviceContext()).rejects.toMatchObject({
      code: 'BRAND_NEW',
    });
  });

  it('names the status where a proxy answered instead', async () => {
    server = await startLocalServer((_request, response) => {
      response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>Bad gateway</h1>');
    });

    await expect(createDeviceClient({ baseUrl: server.baseUrl }).getDeviceContext()).rejects.toMatchObject({
      name: 'CmbuyerProblem',
      status: 502,
      code: 'HTTP_502',
    });
  });

  it.each([
    ['text/html', '<form>Sign in to this network</form>'],
    ['application/json', '{"task_id":'],
  ])('takes an unusable 200 of %s for no answer', async (type, body) => {
    server = await startLocalServer((_request, response) => {
      response.writeHead(200, { 'content-type': type }).end(body);
    });

    await expect(createDeviceClient({ baseUrl: server.baseUrl }).getDeviceContext()).rejects.toBeInstanceOf(
      CmbuyerNetworkError,
    );
  });

  it('follows no redirect, which would carry the claim token elsewhere', async () => {
    server = await startLocalServer((_request, response) => {
      response.writeHead(307, { location: '/elsewhere' }).end();
    });
    const device = createDeviceClient({ baseUrl: server.baseUrl, attempts: 1 });

    await expect(device.getDeviceContext()).rejects.toBeInstanceOf(CmbuyerNetworkError);
    expect(server.seen.map((request) => request.url)).toEqual(['/api/v1/device/me']);
  });

  it('answers a picture as a Blob with its type', async () => {
    const jpeg = Buffer.from([0xff, 0xd8, 0xff, 0xd9]);
    server = await startLocalServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'image/jpeg' }).end(jpeg);
    });
    const device = createDeviceClient({ baseUrl: server.baseUrl });

    const picture = await device.getReferenceImage({
      path: { task_id: '018f3a5c-7e10-7a00-8000-000000000010' },
      query: { claim_generation: 3 },
      headers: { 'X-Claim-Token': newClaimToken() },
    });

    expect(picture.type).toBe('image/jpeg');
    expect(Buffer.from(await picture.arrayBuffer())).toEqual(jpeg);
    expect(server.seen[0]?.url).toContain('?claim_generation=3');
  });

  it('signs device calls with the token of its sign-in until it signs out', async () => {
    server = await startLocalServer((request, response) =>
      request.url.endsWith('/logout')
        ? answerJson(response, 204)
        : answerJson(response, 200, { access_token: 'fresh' }),
    );
    const device = createDeviceClient({ baseUrl: server.baseUrl, accessToken: 'kept' });

    await device.getDeviceContext();
    await device.loginDevice({ body: { username: 'li.wei', password: 'p'.repeat(12), device_id: deviceId } });
    await device.getDeviceContext();
    await device.logoutDevice();
    await device.getDeviceContext();
    device.setAccessToken('set');
    await device.getDeviceContext();

    expect(server.seen.map((request) => request.headers.authorization)).toEqual([
      'Bearer kept',
      undefined,
      'Bearer fresh',
      'Bearer fresh',
      undefined,
      'Bearer set',
    ]);
  });

  it('keeps the session cookie, and sends the CSRF token with unsafe admin calls only', async () => {
    server = await startLocalServer((request, response, count) => {
      if (request.url.endsWith('/logout')) {
        answerJson(response, 204, undefined, { 'set-cookie': 'cmbuyer_session=; Max-Age=0; Path=/' });
      } else {
        const cookie = { 'set-cookie': 'cmbuyer_session=s1; Path=/; HttpOnly; SameSite=Lax' };
        answerJson(response, 200, { csrf_token: 'c1', items: [] }, count === 1 ? cookie : {});
      }
    });
    const admin = createAdminClient({ baseUrl: server.baseUrl });

    await admin.loginAdmin({ body: { username: 'root', password: 'p'.repeat(12) } });
    await admin.listTasks();
    await admin.createTask({
      headers: keyHeaders({ idempotencyKey: newIdempotencyKey() }),
      body: { title: 'Mug', quantity: 1, max_unit_price_cents: 100, max_total_cents: 100 },
    });
    await admin.logoutAdmin();
    await admin.listTasks();

    expect(server.seen.map(({ headers }) => [headers.cookie, headers['x-csrf-token']])).toEqual([
      [undefined, undefined],
      ['cmbuyer_session=s1', undefined],
      ['cmbuyer_session=s1', 'c1'],
      ['cmbuyer_session=s1', 'c1'],
      [undefined, undefined],
    ]);
  });

  it('sends a picture as a form with a file', async () => {
    server = await startLocalServer((_request, response) => answerJson(response, 200, {}));
    const admin = createAdminClient({ baseUrl: server.baseUrl });

    await admin.putReferenceImage({
      path: { task_id: '018f3a5c-7e10-7a00-8000-000000000010' },
      query: { expected_task_version: 1 },
      body: { file: new Blob(['picture'], { type: 'image/png' }) },
    });

    expect(server.seen[0]?.headers['content-type']).toMatch(/^multipart\/form-data; boundary=/);
    expect(server.seen[0]?.body).toContain('name="file"');
    expect(server.seen[0]?.body).toContain('picture');
  });

  it('lends its connection to the generated operations', async () => {
    server = await startLocalServer((_request, response) => answerJson(response, 200, { status: 'ok' }));
    const device = createDeviceClient({ baseUrl: server.baseUrl });

    const { data, response } = await getHealth({ client: device.http });

    expect(data).toEqual({ status: 'ok' });
    expect(response.status).toBe(200);
  });
});
