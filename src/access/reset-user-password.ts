import type { AdminActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import { appendAudit } from '../store/audit';
import { endSessions, endTokens } from '../store/credentials';
import type { Work } from '../store/database';
import { lockUser, updateUserRow } from '../store/users';
import { confirmActor } from './confirm-actor';

export interface PasswordReset {
  user_id: string;
  /** By `hashPassword`, before the transaction. */
  password_hash: string;
}

/**
 * Admin: a new password for any user. Guards: NOT_FOUND. Ends all of the user's sessions and tokens, the admin's own
 * too when it is their own password. Sent again it does the same again.
 */
export async function resetUserPassword(work: Work, actor: AdminActor, input: PasswordReset): Promise<void> {
  const { user_id, password_hash } = input;
  await confirmActor(work, actor);
  const user = await lockUser(work, user_id);

  if (!user) throw new Refusal('NOT_FOUND');

  await updateUserRow(work, user, { password_hash });
  const sessions = await endSessions(work, { user_id }, 'PASSWORD_CHANGED');
  const tokens = await endTokens(work, { user_id }, 'PASSWORD_CHANGED');
  await appendAudit(work, actor, {
    action: 'user.password_reset',
    target_type: 'USER',
    target_id: user_id,
    detail: { ended_sessions: sessions, ended_tokens: tokens },
  });
}
