import type { Instant } from '../clock';
import type { Source, Work } from './database';
import { param, params, statement } from './statements';
import { type AttemptRow, mustChangeOne } from './tasks';

export interface DeviceRow {
  device_id: string;
  label: string;
  user_id: string;
  status: 'AUTHORIZED' | 'REVOKED';
  created_at: Instant;
  updated_at: Instant;
  authorized_at: Instant;
  /** The newest revocation; kept when the device is authorised again. */
  last_revoked_at: Instant | null;
  revoke_reason: string | null;
  last_heartbeat_at: Instant | null;
  app_version: string | null;
  android_version: string | null;
  pinduoduo_version: string | null;
  accessibility_connected: boolean | null;
  pinduoduo_installed: boolean | null;
  reported_task_id: string | null;
  reported_client_time: string | null;
}

const lockDeviceRow = statement<{ device_id: string }, DeviceRow>('lock_device', (knex) =>
  knex('devices').select('*').where('device_id', param('device_id')).forUpdate(),
);
const selectDevice = statement<{ device_id: string }, DeviceRow>('select_device', (knex) =>
  knex('devices').select('*').where('device_id', param('device_id')),
);
const selectLiveAttempt = statement<{ device_id: string }, AttemptRow>('select_live_attempt', (knex) =>
  knex('attempts').select('*').where('device_id', param('device_id')).whereNull('ended_at'),
);
const writeHeartbeatRow = statement<object>('write_device_heartbeat', (knex) =>
  knex('devices')
    .where({ device_id: param('device_id') })
    .update(
      params([
        'last_heartbeat_at',
        'app_version',
        'android_version',
        'pinduoduo_version',
        'accessibility_connected',
        'pinduoduo_installed',
        'reported_task_id',
        'reported_client_time',
      ]),
    ),
);

/** Locks the device's row: always before any task's. */
export function lockDevice(work: Work, deviceId: string): Promise<DeviceRow | undefined> {
  return lockDeviceRow.first(work, { device_id: deviceId });
}

export function findDevice(source: Source, deviceId: string): Promise<DeviceRow | undefined> {
  return selectDevice.first(source, { device_id: deviceId });
}

/** The one attempt of the device that has not ended. */
export function findLiveAttempt(source: Source, deviceId: string): Promise<AttemptRow | undefined> {
  return selectLiveAttempt.first(source, { device_id: deviceId });
}

export async function writeDeviceHeartbeat(
  work: Work,
  device: DeviceRow,
  report: Pick<DeviceRow, 'app_version' | 'android_version' | 'accessibility_connected' | 'pinduoduo_installed'> &
    Partial<Pick<DeviceRow, 'pinduoduo_version' | 'reported_task_id' | 'reported_client_time'>>,
): Promise<void> {
  const written = {
    pinduoduo_version: null,
    reported_task_id: null,
    reported_client_time: null,
    ...report,
    last_heartbeat_at: work.now,
  };
  mustChangeOne('writeDeviceHeartbeat', await writeHeartbeatRow.run(work, { ...written, device_id: device.device_id }));
  Object.assign(device, written);
}
