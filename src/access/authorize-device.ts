import type { AdminActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import { type KeyedRequest, recall, remember } from '../lifecycle/replay';
import { appendAudit } from '../store/audit';
import { endTokens } from '../store/credentials';
import type { Work } from '../store/database';
import {
  type DeviceView,
  findDeviceView,
  findLiveAttempt,
  insertDevice,
  lockDevice,
  updateDeviceRow,
} from '../store/devices';
import { lockUser } from '../store/users';
import { confirmActor } from './confirm-actor';

export interface NewDevice extends KeyedRequest {
  device_id: string;
  label: string;
  user_id: string;
}

/**
 * Admin: a device for a buyer; unknown or REVOKED -> AUTHORIZED. Guards: IDEMPOTENCY_KEY_REUSED, INVALID_REQUEST
 * (`user_id` is no active buyer), DUPLICATE_DEVICE (authorised already), DEVICE_BUSY (another buyer while an attempt of
 * the device is unended). None of a revoked device's old tokens comes back to life, and it stays known that it was
 * revoked. Replay: the same key answers the same device, as it stands now.
 */
export async function authorizeDevice(
  work: Work,
  actor: AdminActor,
  input: NewDevice,
): Promise<{ device: DeviceView; replayed: boolean }> {
  await confirmActor(work, actor);
  const known = await lockDevice(work, input.device_id);

  const record = await recall(work, { user_id: actor.user_id }, 'authorizeDevice', input);
  const created = record && (await findDeviceView(work, record.resource_id!));
  if (created) return { device: created, replayed: true };

  await mustBeActiveBuyer(work, input.user_id);
  if (known?.status === 'AUTHORIZED') throw new Refusal('DUPLICATE_DEVICE');
  if (known && known.user_id !== input.user_id && (await findLiveAttempt(work, known.device_id))) {
    throw new Refusal('DEVICE_BUSY');
  }

  const { device_id, label, user_id } = input;
  if (known) {
    await updateDeviceRow(work, known, {
      label,
      user_id,
      status: 'AUTHORIZED',
      authorized_at: work.now,
      revoke_reason: null,
    });
    await endTokens(work, { device_id }, 'DEVICE_REVOKED');
  } else if (!(await insertDevice(work, { device_id, label, user_id }))) {
    throw new Refusal('DUPLICATE_DEVICE');
  }
  await appendAudit(work, actor, {
    action: 'device.authorized',
    target_type: 'DEVICE',
    target_id: device_id,
    detail: { label, user_id, anew: known !== undefined },
  });
  await remember(work, { user_id: actor.user_id }, 'authorizeDevice', input, {
    outcome: 'CREATED',
    resource_id: device_id,
  });
  return { device: (await findDeviceView(work, device_id))!, replayed: false };
}

/** @throws Refusal INVALID_REQUEST */
export async function mustBeActiveBuyer(work: Work, userId: string): Promise<void> {
  const user = await lockUser(work, userId);
  if (user?.status === 'ACTIVE' && user.role === 'BUYER') return;
  throw new Refusal('INVALID_REQUEST', {
    errors: [{ path: '/body/user_id', message: 'must be an active buyer' }],
  });
}
