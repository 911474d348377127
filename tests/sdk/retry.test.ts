import {
  CmbuyerNetworkError,
  CmbuyerProblem,
  createAdminClient,
  createDeviceClient,
  keyHeaders,
  newCallKeys,
} from '@cmbuyer/sdk';
import { answerJson, answerProblem, type LocalServer, startLocalServer } from './local-server';

const task = '018f3a5c-7e10-7a00-8000-000000000010';
const deviceId = 'pdd-phone-07';
const heartbeat = {
  device_id: deviceId,
  app_version: '1.0.0',
  android_version: '14',
  accessibility_connected: true,
  pinduoduo_installed: true,
};

describe('retries', () => {
  let server: LocalServer;
  let pauses: number[];
  const sleep = async (ms: number) => {
    pauses.push(ms);
  };

  beforeEach(() => {
    pauses = [];
  });
  afterEach(() => server.close());

  const phone = (random = () => 0.5) =>
    createDeviceClient({ baseUrl: server.baseUrl, accessToken: 'token', sleep, random });
  const claim = (client = phone(), keys = newCallKeys()) =>
    client.claimNextTask({ headers: keyHeaders(keys), body: { device_id: deviceId } });

  it('sends a keyed call again, with the same key, token and body, after the connection was lost', async () => {
    server = await startLocalServer((_request, response, count) => {
      if (count < 3) response.destroy();
      else answerJson(response, 200, { task_id: task });
    });
    const keys = newCallKeys();

    const answer = await claim(phone(), keys);

    expect(answer?.task_id).toBe(task);
    expect(server.seen).toHaveLength(3);
    expect(new Set(server.seen.map((request) => request.headers['idempotency-key']))).toEqual(
      new Set([keys.idempotencyKey]),
    );
    expect(new Set(server.seen.map((request) => request.headers['x-claim-token']))).toEqual(
      new Set([keys.claimToken]),
    );
    expect(new Set(server.seen.map((request) => request.body))).toEqual(
      new Set([JSON.stringify({ device_id: deviceId })]),
    );
    expect(pauses).toEqual([125, 250]);
  });

  it('counts an answer that was cut off in its middle as lost', async () => {
    server = await startLocalServer((_request, response, count) => {
      if (count > 1) return answerJson(response, 200, { task_id: task });
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
      response.write('{"task_id":', () => response.destroy());
    });

    expect((await claim())?.task_id).toBe(task);
    expect(server.seen).toHaveLength(2);
  });

  it.each([
    [503, 'SERVICE_UNAVAILABLE'],
    [429, 'RATE_LIMITED'],
  ])('waits for Retry-After after %i %s', async (status, code) => {
    server = await startLocalServer((_request, response, count) =>
      count === 1
        ? answerProblem(response, status, code, { 'retry-after': '7' })
        : answerJson(response, 200, { task_id: task }),
    );

    await claim(phone(() => 0));

    expect(pauses).toEqual([7000]);
  });

  it('gives back the last problem once its tries are used up', async () => {
    server = await startLocalServer((_request, response) =>
      answerProblem(response, 503, 'SERVICE_UNAVAILABLE', { 'retry-after': '2' }),
    );

    const problem = await claim(phone(() => 0)).catch((error: unknown) => error);

    expect(problem).toBeInstanceOf(CmbuyerProblem);
    expect(problem).toMatchObject({ status: 503, code: 'SERVICE_UNAVAILABLE', retryAfterSeconds: 2 });
    expect(server.seen).toHaveLength(4);
    expect(pauses).toEqual([2000, 2000, 2000]);
  });

  it('does not wait for a Retry-After beyond its bound', async () => {
    server = await startLocalServer((_request, response) =>
      answerProblem(response, 503, 'SERVICE_UNAVAILABLE', { 'retry-after': '3600' }),
    );

    await expect(claim()).rejects.toMatchObject({ retryAfterSeconds: 3600 });
    expect(server.seen).toHaveLength(1);
    expect(pauses).toEqual([]);
  });

  it('does not repeat a refusal', async () => {
    server = await startLocalServer((_request, response) => answerProblem(response, 409, 'DEVICE_NOT_READY'));

    await expect(claim()).rejects.toMatchObject({ code: 'DEVICE_NOT_READY' });
    expect(server.seen).toHaveLength(1);
  });

  it('never repeats an unsafe call without a key', async () => {
    server = await startLocalServer((_request, response) => response.destroy());
    const admin = createAdminClient({ baseUrl: server.baseUrl, sleep });

    await expect(
      admin.startPurchase({ path: { task_id: task }, body: { expected_task_version: 1 } }),
    ).rejects.toBeInstanceOf(CmbuyerNetworkError);
    expect(server.seen).toHaveLength(1);

    await expect(
      phone().loginDevice({ body: { username: 'li.wei', password: 'p'.repeat(12), device_id: deviceId } }),
    ).rejects.toBeInstanceOf(CmbuyerNetworkError);
    expect(server.seen).toHaveLength(2);
    expect(pauses).toEqual([]);
  });

  it('repeats reads and heartbeats', async () => {
    server = await startLocalServer((_request, response, count) =>
      count % 2 === 1 ? response.destroy() : answerJson(response, 200, {}),
    );

    await phone().getDeviceContext();
    await phone().sendDeviceHeartbeat({ body: heartbeat });

    expect(server.seen.map((request) => request.method)).toEqual(['GET', 'GET', 'POST', 'POST']);
  });

  it('bounds its pauses and spreads them fully', async () => {
    server = await startLocalServer((_request, response) => response.destroy());
    const client = createDeviceClient({
      baseUrl: server.baseUrl,
      attempts: 6,
      baseDelayMs: 100,
      maxDelayMs: 500,
      random: () => 0.999,
      sleep,
    });

    await expect(claim(client)).rejects.toBeInstanceOf(CmbuyerNetworkError);
    expect(pauses.map(Math.round)).toEqual([100, 200, 400, 500, 500]);
  });

  it('stops waiting and rejects with the reason when its signal aborts', async () => {
    server = await startLocalServer((_request, response) =>
      answerProblem(response, 503, 'SERVICE_UNAVAILABLE', { 'retry-after': '50' }),
    );
    const stop = new AbortController();
    const reason = new Error('the phone stops');
    const client = createDeviceClient({
      baseUrl: server.baseUrl,
      sleep: (_ms, signal) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason));
          stop.abort(reason);
        }),
    });

    await expect(client.getDeviceContext({ signal: stop.signal })).rejects.toBe(reason);
    expect(server.seen).toHaveLength(1);
  });

  it('gives up a try that gets no answer, as a lost one', async () => {
    server = await startLocalServer(() => {});
    const client = createDeviceClient({ baseUrl: server.baseUrl, attempts: 2, attemptTimeoutMs: 20, sleep });

    await expect(client.getDeviceContext()).rejects.toBeInstanceOf(CmbuyerNetworkError);
    expect(pauses).toHaveLength(1);
  });
});
