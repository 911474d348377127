import { createHash } from 'node:crypto';
import { keyHeaders, newCallKeys } from '@cmbuyer/sdk';
import { runFleet } from '../../src/simulator/fleet';
import {
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

describe('a purchase', () => {
  let server: ServerProcess;
  beforeEach(async () => {
    server = await ServerProcess.start();
  });
  afterEach(() => server.discard());

  it('goes from the wish to the order number, driven wholly through the SDK', async () => {
    const admin = await signInAdmin(server.baseUrl);
    const enrolled = await enrolPhone(admin, 1);
    const phone = await signInPhone(server.baseUrl, enrolled);
    const { ready } = await heartbeat(phone, enrolled);
    expect(ready).toBe(true);
    const body = { device_id: enrolled.deviceId };

    const early = keyHeaders(newCallKeys());
    expect(await phone.claimNextTask({ headers: early, body })).toBeUndefined();

    const pending = await startPurchase(admin, 'Red mug');
    expect(pending).toMatchObject({ status: 'PENDING', version: 3 });
    // A recorded "no task" stays one, whatever was added since.
    expect(await phone.claimNextTask({ headers: early, body })).toBeUndefined();

    const keys = newCallKeys();
    const claimed = (await phone.claimNextTask({ headers: keyHeaders(keys), body }))!;
    expect(claimed).toMatchObject({
      task_id: pending.id,
      status: 'CLAIMED',
      version: 4,
      claim_generation: 1,
      task: { title: 'Red mug', quantity: 2, max_unit_price_cents: 2_500, max_total_cents: 4_800 },
    });
    const replayed = (await phone.claimNextTask({ headers: keyHeaders(keys), body }))!;
    expect(replayed).toMatchObject({
      task_id: claimed.task_id,
      version: claimed.version,
      attempt_id: claimed.attempt_id,
      lease_expires_at: claimed.lease_expires_at,
    });

    const path = { task_id: claimed.task_id };
    const { claim_generation } = claimed;
    const proof = keyHeaders({ claimToken: keys.claimToken });
    const picture = await phone.getReferenceImage({ path, query: { claim_generation }, headers: proof });
    const bytes = Buffer.from(await picture.arrayBuffer());
    expect(picture.type).toBe('image/jpeg');
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(claimed.task.reference_image?.sha256);

    const started = await phone.startTask({
      headers: keyHeaders(newCallKeys(keys.claimToken)),
      path,
      body: { claim_generation, expected_version: claimed.version },
    });
    expect(started).toMatchObject({ status: 'RUNNING', version: 5 });
    const held = { execution_id: started.execution_id!, claim_generation };

    const alive = await phone.sendTaskHeartbeat({
      headers: proof,
      path,
      body: { ...held, step: 'SEARCHING' },
    });
    expect(alive).toMatchObject({ status: 'RUNNING', version: 5, cancel_requested: false });

    const fence = {
      headers: keyHeaders(newCallKeys(keys.claimToken)),
      path,
      body: {
        ...held,
        expected_version: alive.version,
        unit_price_cents: 2_100,
        quantity: 2,
        total_cents: 4_200,
      },
    };
    const permit = await phone.fenceSubmission(fence);
    expect(permit).toMatchObject({ status: 'SUBMITTING', version: 6, submission: { status: 'FENCED' } });

    const order_no = '260302-123456789012345';
    const done = await phone.reportSubmissionResult({
      headers: keyHeaders(newCallKeys(keys.claimToken)),
      path,
      body: {
        ...held,
        submission_id: permit.submission?.id,
        outcome: 'ORDER_CREATED',
        order_no,
        amount_cents: 4_200,
      },
    });
    expect(done).toMatchObject({ status: 'ORDERED', version: 7 });
    await expect(phone.fenceSubmission(fence)).rejects.toMatchObject({ name: 'CmbuyerProblem', status: 409 });

    const task = await admin.getTask({ path });
    expect(task).toMatchObject({
      status: 'ORDERED',
      version: 7,
      submission: { status: 'SUBMITTED', order_no, amount_cents: 4_200, total_cents: 4_200 },
    });
    expect(task.reports).toHaveLength(1);
    const events = (await eventsOf(admin, task.id)).filter((event) => event.to_status);
    expect(events.map(({ type, version, to_status }) => [type, version, to_status])).toEqual([
      ['task.created', 1, 'DRAFT'],
      ['task.reference_image_put', 2, 'DRAFT'],
      ['task.purchase_started', 3, 'PENDING'],
      ['task.claimed', 4, 'CLAIMED'],
      ['task.started', 5, 'RUNNING'],
      ['task.submission_fenced', 6, 'SUBMITTING'],
      ['task.order_created', 7, 'ORDERED'],
    ]);

    await phone.logoutDevice();
    await expect(phone.getDeviceContext()).rejects.toMatchObject({ status: 401 });
    await admin.logoutAdmin();
    await expect(admin.getTask({ path })).rejects.toMatchObject({ status: 401 });
    expect(await server.stop()).toBe(0);
  });

  it('is made exactly once per task by a fleet of simulated phones', async () => {
    const admin = await signInAdmin(server.baseUrl);
    const phones = [await enrolPhone(admin, 1), await enrolPhone(admin, 2), await enrolPhone(admin, 3)];
    const tasks = 8;
    for (let number = 1; number <= tasks; number += 1) await startPurchase(admin, `Mug ${number}`);

    const reported: { taskId: string; label: string; orderNo?: string }[] = [];
    await new Promise<void>((resolve) => {
      const fleet = runFleet({
        baseUrl: server.baseUrl,
        phones,
        pace: 'fast',
        seed: 'fleet',
        onEvent: (event) => {
          if (event.type !== 'reported') return;
          reported.push(event);
          if (reported.length === tasks) void fleet.stop().then(resolve);
        },
      });
    });

    expect(new Set(reported.map(({ taskId }) => taskId)).size).toBe(tasks);
    for (const { taskId, orderNo } of reported) {
      const task = await admin.getTask({ path: { task_id: taskId } });
      expect(task).toMatchObject({ status: 'ORDERED', submission: { order_no: orderNo } });
      expect(task.reports).toHaveLength(1);
      expect(task.submission?.total_cents).toBeLessThanOrEqual(4_800);
    }
  });
});
