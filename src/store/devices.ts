import type { Instant } from '../clock';
import { decodeCursor, type Page, type PageRequest, pageOf } from './cursor';
import { queryOn, type Reader, type Source, type Work } from './database';
import type { AttemptRow } from './facts';
import { mustChangeOne, param, params, statement } from './statements';
import { containing } from './users';

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
export async function lockDevice(work: Work, deviceId: string): Promise<DeviceRow | undefined> {
  const device = await lockDeviceRow.first(work, { device_id: deviceId });
  await work.readClock();
  return device;
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
  report: Pick<
    DeviceRow,
    'app_version' | 'android_version' | 'accessibility_connected' | 'pinduoduo_installed'
  > &
    Partial<Pick<DeviceRow, 'pinduoduo_version' | 'reported_task_id' | 'reported_client_time'>>,
): Promise<void> {
  const written = {
    pinduoduo_version: null,
    reported_task_id: null,
    reported_client_time: null,
    ...report,
    last_heartbeat_at: work.now,
  };
  mustChangeOne(
    'writeDeviceHeartbeat',
    await writeHeartbeatRow.run(work, { ...written, device_id: device.device_id }),
  );
  Object.assign(device, written);
}

/** A device as admins see one: with its buyer and the task of its unended attempt. */
export interface DeviceView extends DeviceRow {
  user: { id: string; username: string; display_name: string | null };
  active_task_id: string | null;
}

interface JoinedDevice extends DeviceRow {
  buyer_username: string;
  buyer_display_name: string | null;
  active_task_id: string | null;
}

function selectDeviceViews(source: Source) {
  return queryOn(source)('devices')
    .join('users', 'users.id', 'devices.user_id')
    .leftJoin('attempts', (on) =>
      on.on('attempts.device_id', 'devices.device_id').onNull('attempts.ended_at'),
    )
    .select('devices.*', {
      buyer_username: 'users.username',
      buyer_display_name: 'users.display_name',
      active_task_id: 'attempts.task_id',
    });
}

function viewOfDevice({ buyer_username, buyer_display_name, ...device }: JoinedDevice): DeviceView {
  return {
    ...device,
    user: { id: device.user_id, username: buyer_username, display_name: buyer_display_name },
  };
}

export async function findDeviceView(source: Source, deviceId: string): Promise<DeviceView | undefined> {
  const row: JoinedDevice | undefined = await selectDeviceViews(source)
    .where('devices.device_id', deviceId)
    .first();
  return row && viewOfDevice(row);
}

/** Devices in the order of their creation; `q` looks at device id, label and the buyer's username. */
export async function pageDevices(
  reader: Reader,
  request: PageRequest & { q?: string },
): Promise<Page<DeviceView>> {
  const query = selectDeviceViews(reader)
    .orderBy(['devices.created_at', 'devices.device_id'])
    .limit(request.limit + 1);
  if (request.cursor !== undefined) {
    const after = decodeCursor(request.cursor, ['instant', 'text'], 'devices');
    query.whereRaw('(devices.created_at, devices.device_id) > (?, ?)', after);
  }
  if (request.q !== undefined) {
    query.where(containing(['devices.device_id', 'devices.label', 'users.username'], request.q));
  }
  const rows: JoinedDevice[] = await query;
  return pageOf(rows.map(viewOfDevice), request.limit, 'devices', (device) => [
    device.created_at,
    device.device_id,
  ]);
}

/** Authorises a device that was never known; undefined when it is known by now. */
export async function insertDevice(
  work: Work,
  device: Pick<DeviceRow, 'device_id' | 'label' | 'user_id'>,
): Promise<DeviceRow | undefined> {
  const written = {
    ...device,
    status: 'AUTHORIZED' as const,
    created_at: work.now,
    updated_at: work.now,
    authorized_at: work.now,
  };
  const inserted = await queryOn(work)('devices')
    .insert(written)
    .onConflict('device_id')
    .ignore()
    .returning('device_id');
  return inserted.length === 1 ? findDevice(work, device.device_id) : undefined;
}

/** Writes a locked device's changed columns, here and in the database. */
export async function updateDeviceRow(
  work: Work,
  device: DeviceRow,
  changes: Partial<
    Pick<DeviceRow, 'label' | 'user_id' | 'status' | 'authorized_at' | 'last_revoked_at' | 'revoke_reason'>
  >,
): Promise<void> {
  const written = { ...changes, updated_at: work.now };
  mustChangeOne(
    'updateDeviceRow',
    await queryOn(work)('devices').where('device_id', device.device_id).update(written),
  );
  Object.assign(device, written);
}
