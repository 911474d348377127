import type { DeviceActor } from '../contract/actor';
import { type ReadinessReason, readinessReasons } from '../lifecycle/eligibility';
import type { Timings } from '../lifecycle/timings';
import type { Work } from '../store/database';
import { type DeviceRow, findLiveAttempt, writeDeviceHeartbeat } from '../store/devices';
import type { AttemptRow } from '../store/facts';
import { confirmActor } from './confirm-actor';

export interface DeviceReport {
  app_version: string;
  android_version: string;
  pinduoduo_version?: string;
  accessibility_connected: boolean;
  pinduoduo_installed: boolean;
  active_task_id?: string;
  client_time?: string;
}

/** How a device stands; the door makes `ready`, `active_task` and `consistent` of it. */
export interface DeviceStanding {
  device: DeviceRow;
  readiness_reasons: ReadinessReason[];
  /** The device's unended attempt, whether its lease is live or not. */
  attempt: AttemptRow | undefined;
}

/**
 * Device: says how it is doing, which keeps it ready to claim. The device is the token's, whatever the body says. It
 * renews no lease, moves no task and writes no event. Sent again it is written again.
 */
export async function sendDeviceHeartbeat(
  work: Work,
  actor: DeviceActor,
  input: DeviceReport,
  timings: Timings,
): Promise<DeviceStanding> {
  const { device } = await confirmActor(work, actor);

  await writeDeviceHeartbeat(work, device, {
    app_version: input.app_version,
    android_version: input.android_version,
    pinduoduo_version: input.pinduoduo_version ?? null,
    accessibility_connected: input.accessibility_connected,
    pinduoduo_installed: input.pinduoduo_installed,
    reported_task_id: input.active_task_id ?? null,
    reported_client_time: input.client_time ?? null,
  });
  return {
    device,
    readiness_reasons: readinessReasons(device, work.now, timings),
    attempt: await findLiveAttempt(work, device.device_id),
  };
}
