import type { AdminActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import { appendAudit } from '../store/audit';
import { endTokens } from '../store/credentials';
import type { Work } from '../store/database';
import {
  type DeviceView,
  findDeviceView,
  findLiveAttempt,
  lockDevice,
  updateDeviceRow,
} from '../store/devices';
import { mustBeActiveBuyer } from './authorize-device';
import { confirmActor } from './confirm-actor';

export interface DeviceChange {
  device_id: string;
  label: string;
  user_id: string;
}

/**
 * Admin: label and buyer of a device. Guards: NOT_FOUND; for another buyer INVALID_REQUEST (`user_id` is no active
 * buyer) and DEVICE_BUSY (an attempt of the device is unended). Another buyer ends all tokens of the device. Sent
 * again it changes and writes nothing.
 */
export async function updateDevice(work: Work, actor: AdminActor, input: DeviceChange): Promise<DeviceView> {
  await confirmActor(work, actor);
  const device = await lockDevice(work, input.device_id);

  if (!device) throw new Refusal('NOT_FOUND');
  const { device_id, label, user_id } = input;
  const anotherBuyer = device.user_id !== user_id;
  if (anotherBuyer) {
    await mustBeActiveBuyer(work, user_id);
    if (await findLiveAttempt(work, device_id)) throw new Refusal('DEVICE_BUSY');
  }

  if (anotherBuyer || device.label !== label) {
    const before = { label: device.label, user_id: device.user_id };
    await updateDeviceRow(work, device, { label, user_id });
    const ended_tokens = anotherBuyer ? await endTokens(work, { device_id }, 'BUYER_CHANGED') : 0;
    await appendAudit(work, actor, {
      action: 'device.updated',
      target_type: 'DEVICE',
      target_id: device_id,
      detail: { before, after: { label, user_id }, ended_tokens },
    });
  }
  return (await findDeviceView(work, device_id))!;
}
