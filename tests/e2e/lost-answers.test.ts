import { type AdminClient, type DeviceClient, keyHeaders, newCallKeys } from '@cmbuyer/sdk';
import { DroppingProxy } from './dropping-proxy';
import {
  type Enrolled,
  enrolPhone,
  eventsOf,
  heartbeat,
  ServerProcess,
  signInAdmin,
  signInPhone,
  startPurchase,
} from './server-process';

// Starts a process of its own; on a busy machine that takes a while.
jest.setTimeout(180_000);

describe('a lost answer', () => {
  let server: ServerProcess;
  let proxy: DroppingProxy;
  let admin: AdminClient;
  let enrolled: Enrolled;
  let phone: DeviceClient;
  /** `Idempotent-Replayed` of the newest answer that reached the phone. */
  let replayed: string | null;

  beforeEach(async () => {
    server = await ServerProcess.start();
    proxy = await DroppingProxy.start(server.baseUrl);
    admin = await signInAdmin(server.baseUrl);
    enrolled = await enrolPhone(admin, 1);
    phone = await signInPhone(proxy.baseUrl, enrolled, async (url, init) => {
      const response = await fetch(url, init);
      replayed = response.headers.get('idempotent-replayed');
      return response;
    });
    await heartbeat(phone, enrolled);
  });
  afterEach(async () => {
    await proxy.close();
    await server.discard();
  });

  const keys = newCallKeys();
  const claimWith = (headers = keyHeaders(keys)) =>
    phone.claimNextTask({ headers, body: { device_id: enrolled.deviceId } });

  async function claim() {
    const claimed = (await claimWith())!;
    const path = { task_id: claimed.task_id };
    const start = {
      headers: keyHeaders(newCallKeys(keys.claimToken)),
      path,
      body: { claim_generation: claimed.claim_generation, expected_version: claimed.version },
    };
    return { claimed, path, start };
  }

  async function run() {
    const { claimed, path, start } = await claim();
    const running = await phone.startTask(start);
    const held = { execution_id: running.execution_id!, claim_generation: claimed.claim_generation };
    const offer = { unit_price_cents: 2_000, quantity: 2, total_cents: 4_000 };
    const fence = {
      headers: keyHeaders(newCallKeys(keys.claimToken)),
      path,
      body: { ...held, ...offer, expected_version: running.version },
    };
    return { path, held, fence };
  }

  /** Loses the answer to one call, which the SDK then repeats, and looks at what the server made of both. */
  async function lose<T extends { version: number; task_id: string }>(
    pathEnd: string,
    event: string,
    call: () => Promise<T | undefined>,
  ): Promise<T> {
    proxy.dropAnswerTo(pathEnd);
    const answer = (await call())!;
    expect(proxy.dropped).toBe(1);
    expect(replayed).toBe('true');
    const events = (await eventsOf(admin, answer.task_id)).filter((entry) => entry.type === event);
    expect(events.map((entry) => entry.version)).toEqual([answer.version]);
    const task = await admin.getTask({ path: { task_id: answer.task_id } });
    expect(task.version).toBe(answer.version);
    return answer;
  }

  it('of a claim leaves one claim, and the phone learns of it', async () => {
    const pending = await startPurchase(admin, 'Red mug');
    await startPurchase(admin, 'Blue mug');

    const claimed = await lose('/claim-next', 'task.claimed', () => claimWith());

    expect(claimed).toMatchObject({
      task_id: pending.id,
      status: 'CLAIMED',
      claim_generation: 1,
      version: pending.version + 1,
    });
    const { items } = await admin.listTasks({ query: { status: ['CLAIMED'] } });
    expect(items.map((item) => item.id)).toEqual([pending.id]);
  });

  it('of a claim that found nothing leaves the same nothing', async () => {
    proxy.dropAnswerTo('/claim-next');

    expect(await claimWith()).toBeUndefined();
    expect(proxy.dropped).toBe(1);
    expect(replayed).toBe('true');
  });

  it('of a start leaves one execution', async () => {
    await startPurchase(admin, 'Red mug');
    const { claimed, path, start } = await claim();

    const running = await lose('/start', 'task.started', () => phone.startTask(start));

    expect(running).toMatchObject({ status: 'RUNNING', version: claimed.version + 1 });
    const task = await admin.getTask({ path });
    expect(task.attempt?.execution_id).toBe(running.execution_id);
  });

  it('of a fence leaves one submission, and its permit', async () => {
    await startPurchase(admin, 'Red mug');
    const { path, fence } = await run();

    const permit = await lose('/submission-fence', 'task.submission_fenced', () =>
      phone.fenceSubmission(fence),
    );

    expect(permit).toMatchObject({ status: 'SUBMITTING', version: fence.body.expected_version + 1 });
    const task = await admin.getTask({ path });
    expect(task.submission).toMatchObject({ id: permit.submission?.id, status: 'FENCED' });
  });

  it('of a result leaves one report and one order', async () => {
    await startPurchase(admin, 'Red mug');
    const { path, held, fence } = await run();
    const permit = await phone.fenceSubmission(fence);
    const order_no = '260302-123456789012345';

    const done = await lose('/submission-result', 'task.order_created', () =>
      phone.reportSubmissionResult({
        headers: keyHeaders(newCallKeys(keys.claimToken)),
        path,
        body: { ...held, outcome: 'ORDER_CREATED', submission_id: permit.submission?.id, order_no },
      }),
    );

    expect(done).toMatchObject({ status: 'ORDERED', version: permit.version + 1 });
    const task = await admin.getTask({ path });
    expect(task.submission).toMatchObject({ status: 'SUBMITTED', order_no });
    expect(task.reports).toHaveLength(1);
  });
});
