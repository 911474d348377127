import { createHash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { PhoneEvent } from './events';
import { fastPace } from './pace';
import { Phone, type PhoneOptions } from './phone';

const taskId = '018f3a5c-7e10-7a00-8000-000000000001';
const submissionId = '018f3a5c-7e10-7a00-8000-000000000009';
const picture = Buffer.from('a picture');

interface Sent {
  call: string;
  key?: string;
  token?: string;
  body: Record<string, unknown>;
}
type Answer = { status: number; body?: object | Buffer } | 'lost';
type Script = Record<string, (sent: Sent, count: number) => Answer | undefined>;

const problem = (status: number, code: string): Answer => ({ status, body: { code, status } });

/** Answers as a server does that has one task; the script replaces single answers. */
class Line {
  readonly sent: Sent[] = [];
  status = 'PENDING';
  #version = 1;

  constructor(readonly script: Script = {}) {}

  of(call: string): Sent[] {
    return this.sent.filter((sent) => sent.call === call);
  }

  readonly fetch = async (url: string, init: RequestInit): Promise<Response> => {
    init.signal?.throwIfAborted();
    const headers = new Headers(init.headers);
    const call = `${init.method} ${new URL(url).pathname.replace('/api/v1/device', '').replace(`/tasks/${taskId}`, '')}`;
    const sent: Sent = {
      call,
      key: headers.get('idempotency-key') ?? undefined,
      token: headers.get('x-claim-token') ?? undefined,
      body: init.body ? JSON.parse(new TextDecoder().decode(init.body as ArrayBuffer)) : {},
    };
    this.sent.push(sent);
    const answer = this.script[call]?.(sent, this.of(call).length) ?? this.#answer(sent);
    if (answer === 'lost') throw new TypeError('fetch failed');
    const isPicture = Buffer.isBuffer(answer.body);
    return new Response(
      isPicture ? new Uint8Array(answer.body as Buffer) : answer.body && JSON.stringify(answer.body),
      {
        status: answer.status,
        headers: answer.body ? { 'content-type': isPicture ? 'image/jpeg' : 'application/json' } : {},
      },
    );
  };

  #answer({ call, body }: Sent): Answer {
    switch (call) {
      case 'POST /login':
        return { status: 200, body: { access_token: 'secret-access-token' } };
      case 'POST /heartbeat':
        return body.step
          ? { status: 200, body: { ...this.#flat(), next_heartbeat_in_ms: 30_000 } }
          : {
              status: 200,
              body: { ready: true, readiness_reasons: [], consistent: true, next_heartbeat_in_ms: 30_000 },
            };
      case 'POST /claim-next':
        return this.status === 'PENDING' || this.status === 'RUNNING' ? this.claimed() : { status: 204 };
      case 'GET /reference-image':
        return { status: 200, body: picture };
      case 'POST /start':
        return this.#move('RUNNING');
      case 'POST /submission-fence':
        return this.#move('SUBMITTING');
      case 'POST /submission-result':
        return this.#move(body.outcome === 'ORDER_CREATED' ? 'ORDERED' : 'NEEDS_MANUAL');
      case 'GET ':
        return { status: 200, body: this.#flat() };
      default:
        return problem(404, 'NOT_FOUND');
    }
  }

  claimed(): Answer {
    if (this.status === 'PENDING') this.#move('CLAIMED');
    const sha256 = createHash('sha256').update(picture).digest('hex');
    const reference_image = { url: '/picture', sha256, bytes: picture.length, width: 1, height: 1 };
    const task = {
      title: 'Mug',
      quantity: 2,
      max_unit_price_cents: 2_000,
      max_total_cents: 3_000,
      confirmation_required: false,
      reference_image,
    };
    return { status: 200, body: { ...this.#flat(), task, authorization: { id: 'a' } } };
  }

  #move(status: string): Answer {
    this.status = status;
    this.#version += 1;
    return { status: 200, body: this.#flat() };
  }

  #flat(): object {
    return {
      task_id: taskId,
      status: this.status,
      version: this.#version,
      claim_generation: 1,
      attempt_id: 'attempt',
      execution_id: this.status === 'CLAIMED' ? undefined : 'execution',
      lease_expires_in_ms: 90_000,
      cancel_requested: false,
      submission: this.status === 'SUBMITTING' ? { id: submissionId, status: 'FENCED' } : undefined,
    };
  }
}

/** Runs a phone until it tells of the given event, and stops it right there. */
async function runUntil(
  type: PhoneEvent['type'],
  line: Line,
  options: Partial<PhoneOptions> = {},
): Promise<{ phone: Phone; told: PhoneEvent[] }> {
  const told: PhoneEvent[] = [];
  let phone!: Phone;
  await new Promise<void>((resolve) => {
    phone = new Phone({
      baseUrl: 'http://phone.test',
      username: 'li.wei',
      password: 'secret-password',
      deviceId: 'pdd-phone-07',
      label: 'Phone 7',
      pace: fastPace,
      seed: 1,
      fetch: line.fetch,
      ...options,
      onEvent: (event) => {
        told.push(event);
        // Within the event, so that the phone gets no further.
        if (event.type === type) void phone.stop().then(resolve);
      },
    });
    void phone.run();
  });
  return { phone, told };
}

describe('Phone', () => {
  it('buys: looks, starts, works, fences, presses and reports', async () => {
    const line = new Line();

    const { told } = await runUntil('reported', line);

    expect(line.sent.map((sent) => sent.call).filter((call) => call !== 'POST /heartbeat')).toEqual([
      'POST /login',
      'POST /claim-next',
      'GET /reference-image',
      'POST /start',
      'POST /submission-fence',
      'POST /submission-result',
    ]);
    expect(line.sent[1]?.call).toBe('POST /heartbeat');
    const [fence] = line.of('POST /submission-fence');
    const [result] = line.of('POST /submission-result');
    expect(fence?.body).toMatchObject({ quantity: 2, expected_version: 3, execution_id: 'execution' });
    expect(fence?.body.total_cents).toBeLessThanOrEqual(3_000);
    expect(result?.body).toMatchObject({
      outcome: 'ORDER_CREATED',
      submission_id: submissionId,
      order_no: expect.stringMatching(/^\d{6}-\d{15}$/),
      amount_cents: fence?.body.total_cents,
    });
    expect(told.at(-1)).toEqual({ type: 'stopped', label: 'Phone 7', text: 'switched off' });
  });

  it('buys the same again under the same seed, whatever was lost on the way', async () => {
    const smooth = new Line();
    const rough = new Line({
      'POST /claim-next': (_sent, count) => (count < 3 ? 'lost' : undefined),
      'POST /start': (_sent, count) => (count < 3 ? 'lost' : undefined),
    });
    await runUntil('reported', smooth);
    await runUntil('reported', rough);

    const bought = (line: Line) => [
      line.of('POST /submission-fence').at(-1)?.body.total_cents,
      line.of('POST /submission-result').at(-1)?.body.order_no,
    ];
    expect(bought(rough)).toEqual(bought(smooth));
    expect(bought(smooth)[1]).toBeDefined();
  });

  it('tells no secret', async () => {
    const line = new Line();

    const { told } = await runUntil('reported', line);

    const words = JSON.stringify(told);
    const secrets = new Set([
      'secret-password',
      'secret-access-token',
      ...line.sent.flatMap(({ key, token }) => [key, token]),
    ]);
    secrets.delete(undefined as never);
    expect(secrets.size).toBeGreaterThan(5);
    for (const secret of secrets) expect(words).not.toContain(secret);
  });

  it('repeats a claim whose answer is lost under the same pair, over a restart too', async () => {
    const line = new Line({ 'POST /claim-next': () => 'lost' });
    const { phone } = await runUntil('trouble', line);
    delete line.script['POST /claim-next'];

    await runUntil('reported', line, { memory: phone.memory });

    const claims = line.of('POST /claim-next');
    expect(claims.length).toBeGreaterThan(1);
    expect(new Set(claims.map(({ key, token }) => `${key} ${token}`)).size).toBe(1);
  });

  it('makes a new pair after a 204, and after CLAIM_REPLAY_EXPIRED', async () => {
    const line = new Line({
      'POST /claim-next': (_sent, count) =>
        count === 1 ? { status: 204 } : count === 2 ? problem(409, 'CLAIM_REPLAY_EXPIRED') : undefined,
    });

    await runUntil('reported', line);

    const claims = line.of('POST /claim-next');
    expect(new Set(claims.map(({ key }) => key)).size).toBe(3);
    expect(new Set(claims.map(({ token }) => token)).size).toBe(3);
  });

  it.each([
    'AUTHORIZATION_EXPIRED',
    'PRICE_LIMIT_EXCEEDED',
    'CONFIRMATION_REQUIRED',
    'CANCEL_REQUESTED',
    'LEASE_EXPIRED',
  ])('presses nothing when the fence refuses %s', async (code) => {
    const line = new Line({
      'POST /submission-fence': () => problem(409, code),
      'POST /claim-next': (_sent, count) => (count > 1 ? problem(409, 'DEVICE_HAS_ACTIVE_TASK') : undefined),
    });

    const { told } = await runUntil('trouble', line);

    expect(told).toContainEqual(expect.objectContaining({ type: 'stopped-safely', taskId, reason: code }));
    expect(told.map((event) => event.type)).not.toContain('pressed');
    expect(line.of('POST /submission-fence')).toHaveLength(1);
    expect(line.of('POST /submission-result')).toHaveLength(0);
  });

  it('stops at once when a heartbeat says that a cancel was requested', async () => {
    const line = new Line({
      'POST /heartbeat': ({ body }) =>
        body.step === 'COMPARING'
          ? {
              status: 200,
              body: { cancel_requested: true, lease_expires_in_ms: 90_000, next_heartbeat_in_ms: 30_000 },
            }
          : undefined,
    });

    const { told } = await runUntil('stopped-safely', line);

    expect(told).toContainEqual(
      expect.objectContaining({ type: 'stopped-safely', reason: 'CANCEL_REQUESTED' }),
    );
    expect(line.of('POST /submission-fence')).toHaveLength(0);
  });

  it('never presses once its lease is over by its own clock, and says so when a fence stands', async () => {
    let ahead = 0;
    const line = new Line({
      'POST /submission-fence': () => {
        ahead += 3_600_000;
        line.status = 'SUBMITTING';
        return 'lost';
      },
    });
    const time = {
      now: () => performance.now() + ahead,
      sleep: (ms: number, signal: AbortSignal) => wait(Math.min(ms, 5), undefined, { signal }),
    };

    const { told } = await runUntil('reported', line, { time });

    expect(told.map((event) => event.type)).not.toContain('pressed');
    expect(line.of('POST /submission-result').map(({ body }) => body)).toEqual([
      {
        outcome: 'NOT_SUBMITTED',
        submission_id: submissionId,
        execution_id: 'execution',
        claim_generation: 1,
      },
    ]);
  });

  it('says UNKNOWN after a restart on the press, and does not press again', async () => {
    const line = new Line();
    const { phone } = await runUntil('pressed', line);

    const { told } = await runUntil('reported', line, { memory: phone.memory });

    expect(told.map((event) => event.type)).not.toContain('pressed');
    expect(line.of('POST /submission-fence')).toHaveLength(1);
    expect(line.of('POST /submission-result').map(({ body }) => body.outcome)).toEqual(['UNKNOWN']);
  });

  it('repeats a lost result under the same key until it is kept', async () => {
    const line = new Line({
      'POST /submission-result': (_sent, count) => (count < 7 ? 'lost' : undefined),
    });

    await runUntil('reported', line);

    const results = line.of('POST /submission-result');
    expect(results).toHaveLength(7);
    expect(new Set(results.map(({ key, body }) => `${key} ${JSON.stringify(body)}`)).size).toBe(1);
  });

  it('signs in again when its token has ended, and carries on', async () => {
    const line = new Line({
      'POST /submission-fence': (_sent, count) => (count === 1 ? problem(401, 'TOKEN_EXPIRED') : undefined),
    });

    await runUntil('reported', line);

    expect(line.of('POST /login')).toHaveLength(2);
    expect(line.of('POST /submission-result').map(({ body }) => body.outcome)).toEqual(['ORDER_CREATED']);
  });

  it('resumes a running task after a restart without starting it twice', async () => {
    const line = new Line();
    const { phone } = await runUntil('started', line);

    await runUntil('reported', line, { memory: phone.memory });

    expect(line.of('POST /start')).toHaveLength(1);
    expect(new Set(line.of('POST /claim-next').map(({ key }) => key)).size).toBe(1);
    expect(line.of('POST /submission-result')).toHaveLength(1);
  });
});
