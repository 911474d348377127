import { v7 as uuidv7 } from 'uuid';
import { sendDeviceHeartbeat } from '../src/access/send-device-heartbeat';
import { createTask } from '../src/lifecycle/create-task';
import { startPurchase } from '../src/lifecycle/start-purchase';
import type { Timings } from '../src/lifecycle/timings';
import { hashSecret } from '../src/store/credentials';
import { openDatabase } from '../src/store/database';
import { makeDevice, makeUser, signInAdmin, signInDevice } from '../src/testing/people-and-devices';

/** A ready phone of a buyer of its own. */
export interface SeededPhone {
  device_id: string;
  user_id: string;
  token_id: string;
  token: string;
  /** What the database keeps of the token. */
  token_hash: string;
}

/** A phone counts as ready for this long after its only heartbeat: the longest that the server takes. */
export const READY_SECONDS = 900;

const TIMINGS: Timings = {
  claim_lease_seconds: 600,
  run_lease_seconds: 90,
  device_heartbeat_ttl_seconds: READY_SECONDS,
  authorization_ttl_seconds: 86_400,
};

const WISH = {
  title: '保温杯 304不锈钢 500毫升',
  keywords: '保温杯 不锈钢',
  shop_name: '旗舰店',
  spec: '黑色 500ml',
  quantity: 2,
  max_unit_price_cents: 2_500,
  max_total_cents: 4_800,
  confirmation_required: false,
};

const READY = {
  app_version: '1.0.0',
  android_version: '14',
  accessibility_connected: true,
  pinduoduo_installed: true,
};

const TASKS_PER_COMMIT = 250;

/** Writes phones and waiting tasks into a new database file, with the product's own verbs and without a server. */
export async function seed(dataDir: string, phones: number, tasks: number): Promise<SeededPhone[]> {
  const database = openDatabase({ dataDir });
  try {
    await database.migrateUp();
    const boss = await makeUser(database, 'boss', 'ADMIN');
    const admin = (await signInAdmin(database, boss)).actor;

    const seeded: SeededPhone[] = [];
    for (let number = 1; number <= phones; number += 1) {
      const buyer = await makeUser(database, `buyer-${number}`, 'BUYER');
      const device_id = `phone-${String(number).padStart(4, '0')}`;
      await makeDevice(database, admin, buyer, device_id);
      const { actor, raw } = await signInDevice(database, buyer, device_id);
      await database.write((work) => sendDeviceHeartbeat(work, actor, READY, TIMINGS));
      const { user_id, token_id } = actor;
      seeded.push({ device_id, user_id, token_id, token: raw, token_hash: hashSecret(raw) });
    }

    for (let done = 0; done < tasks; done += TASKS_PER_COMMIT) {
      const count = Math.min(TASKS_PER_COMMIT, tasks - done);
      await database.write(async (work) => {
        for (let index = 0; index < count; index += 1) {
          const { facts } = await createTask(work, admin, { idempotency_key: uuidv7(), wish: WISH });
          const { id: task_id, version } = facts.task;
          await startPurchase(work, admin, { task_id, expected_task_version: version }, TIMINGS);
        }
      });
    }
    return seeded;
  } finally {
    await database.close();
  }
}
