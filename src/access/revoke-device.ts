import type { AdminActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import { appendAudit } from '../store/audit';
import { endTokens } from '../store/credentials';
import type { Work } from '../store/database';
import { type DeviceView, findDeviceView, lockDevice, updateDeviceRow } from '../store/devices';
import { confirmActor } from './confirm-actor';

export interface DeviceRevocation {
  device_id: string;
  reason?: string;
}

/**
 * Admin: AUTHORIZED -> REVOKED. Guards: NOT_FOUND. Ends the device's tokens at once; it is no proof that the phone
 * stopped, and touches no task or claim. The time of the newest revocation stays known for ever. Revoking again
 * changes and writes nothing, whatever its reason.
 */
export async function revokeDevice(
  work: Work,
  actor: AdminActor,
  input: DeviceRevocation,
): Promise<DeviceView> {
  await confirmActor(work, actor);
  const device = await lockDevice(work, input.device_id);

  if (!device) throw new Refusal('NOT_FOUND');

  const { device_id } = device;
  if (device.status === 'AUTHORIZED') {
    const revoke_reason = input.reason ?? null;
    await updateDeviceRow(work, device, { status: 'REVOKED', last_revoked_at: work.now, revoke_reason });
    const ended_tokens = await endTokens(work, { device_id }, 'DEVICE_REVOKED');
    await appendAudit(work, actor, {
      action: 'device.revoked',
      target_type: 'DEVICE',
      target_id: device_id,
      detail: { reason: revoke_reason, ended_tokens },
    });
  }
  return (await findDeviceView(work, device_id))!;
}
