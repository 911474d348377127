import { randomBytes } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { sendDeviceHeartbeat } from '../access/send-device-heartbeat';
import type { AdminActor, DeviceActor } from '../contract/actor';
import { claimNextTask } from '../lifecycle/claim-next-task';
import { createTask } from '../lifecycle/create-task';
import { startPurchase } from '../lifecycle/start-purchase';
import type { Timings } from '../lifecycle/timings';
import type { Database } from '../store/database';

export const TIMINGS: Timings = {
  claim_lease_seconds: 600,
  run_lease_seconds: 90,
  device_heartbeat_ttl_seconds: 120,
  authorization_ttl_seconds: 86_400,
};

export const REPORT = {
  app_version: '1.4.0',
  android_version: '14',
  accessibility_connected: true,
  pinduoduo_installed: true,
};

/** A task that the device has claimed; answers its id. */
export async function makeClaimedTask(
  database: Database,
  admin: AdminActor,
  device: DeviceActor,
): Promise<string> {
  const wish = {
    title: 'Thermos',
    quantity: 1,
    max_unit_price_cents: 5000,
    max_total_cents: 5000,
    confirmation_required: false,
  };
  return database.write(async (work) => {
    const { facts } = await createTask(work, admin, { idempotency_key: uuidv7(), wish });
    const task_id = facts.task.id;
    await startPurchase(work, admin, { task_id, expected_task_version: facts.task.version }, TIMINGS);
    await sendDeviceHeartbeat(work, device, REPORT, TIMINGS);
    const claim = {
      idempotency_key: uuidv7(),
      token_hash: randomBytes(32).toString('hex'),
      device_id: device.device_id,
    };
    await claimNextTask(work, device, claim, TIMINGS);
    return task_id;
  });
}
