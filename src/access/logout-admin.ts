import type { AdminActor } from '../contract/actor';
import { endSessions } from '../store/credentials';
import type { Work } from '../store/database';
import { confirmActor } from './confirm-actor';

/** Admin: ends the session that asked. Sent again it is refused TOKEN_REVOKED: the session is over. */
export async function logoutAdmin(work: Work, actor: AdminActor): Promise<void> {
  await confirmActor(work, actor);

  await endSessions(work, { id: actor.session_id }, 'LOGGED_OUT');
}
