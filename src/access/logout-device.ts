import type { DeviceActor } from '../contract/actor';
import { endTokens } from '../store/credentials';
import type { Work } from '../store/database';
import { confirmActor } from './confirm-actor';

/** Device: ends the token that asked. It frees no task. Sent again it is refused TOKEN_REVOKED. */
export async function logoutDevice(work: Work, actor: DeviceActor): Promise<void> {
  await confirmActor(work, actor);

  await endTokens(work, { id: actor.token_id }, 'LOGGED_OUT');
}
