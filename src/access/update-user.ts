import type { AdminActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import { appendAudit } from '../store/audit';
import { endSessions, endTokens } from '../store/credentials';
import type { Work } from '../store/database';
import {
  lockActiveAdmins,
  lockUser,
  type UserRow,
  type UserView,
  updateUserRow,
  viewOfUser,
} from '../store/users';
import { confirmActor } from './confirm-actor';

export interface UserChange {
  user_id: string;
  /** Absent: cleared. */
  display_name?: string;
  status: UserRow['status'];
}

/**
 * Admin: name and status of a user. Guards: NOT_FOUND, LAST_ADMIN (would leave no active admin). Disabling ends the
 * user's sessions and tokens at once; it is no proof that a phone stopped, and touches no task. Enabling again brings
 * none of them back. Sent again it changes and writes nothing.
 */
export async function updateUser(work: Work, actor: AdminActor, input: UserChange): Promise<UserView> {
  await confirmActor(work, actor);
  const user = await lockUser(work, input.user_id);

  if (!user) throw new Refusal('NOT_FOUND');
  const { status } = input;
  const display_name = input.display_name ?? null;
  if (user.status === status && user.display_name === display_name) return viewOfUser(user);
  const disabling = status === 'DISABLED' && user.status === 'ACTIVE';
  if (disabling && user.role === 'ADMIN') {
    const admins = await lockActiveAdmins(work);
    if (admins.every((id) => id === user.id)) throw new Refusal('LAST_ADMIN');
  }

  const before = { display_name: user.display_name, status: user.status };
  await updateUserRow(work, user, { display_name, status, ...(disabling && { last_disabled_at: work.now }) });
  const ended = disabling && {
    ended_sessions: await endSessions(work, { user_id: user.id }, 'USER_DISABLED'),
    ended_tokens: await endTokens(work, { user_id: user.id }, 'USER_DISABLED'),
  };
  await appendAudit(work, actor, {
    action: 'user.updated',
    target_type: 'USER',
    target_id: user.id,
    detail: { before, after: { display_name, status }, ...ended },
  });
  return viewOfUser(user);
}
