import type { AdminActor } from '../contract/actor';
import { appendAudit } from '../store/audit';
import { endSessions, endTokens } from '../store/credentials';
import type { Database } from '../store/database';
import { findUser, updateUserRow } from '../store/users';
import { confirmActor } from './confirm-actor';
import { lockVerified, mustKnowPassword } from './login-admin';
import { giveBack, reserveAttempt } from './login-limit';
import { hashPassword, type PasswordCost } from './passwords';

export interface PasswordChange {
  current_password: string;
  new_password: string;
  address: string;
}

/**
 * Admin: another password for oneself. Guards: RATE_LIMITED (counted like a login, before the password is looked at);
 * INVALID_CREDENTIALS (the current password is wrong, or was changed meanwhile); INVALID_REQUEST (the new one's
 * length). Ends all sessions and tokens of the user but the session that asked. Takes the database because the
 * passwords are hashed between two transactions. Sent again: INVALID_CREDENTIALS, unless both passwords are one.
 */
export async function changeOwnPassword(
  database: Database,
  actor: AdminActor,
  input: PasswordChange,
  cost?: PasswordCost,
): Promise<void> {
  const { reservation, user } = await database.write(async (work) => {
    const confirmed = await confirmActor(work, actor);
    return {
      reservation: await reserveAttempt(work, confirmed.user.username, input.address),
      user: await findUser(work, actor.user_id),
    };
  });

  await mustKnowPassword(database, reservation, user, 'ADMIN', input.current_password);
  const password_hash = await hashPassword(input.new_password, '/body/new_password', cost);

  await database.write(async (work) => {
    await confirmActor(work, actor);
    const admin = await lockVerified(work, user, 'ADMIN');

    await updateUserRow(work, admin, { password_hash });
    const sessions = await endSessions(work, { user_id: admin.id }, 'PASSWORD_CHANGED', {
      id: actor.session_id,
    });
    const tokens = await endTokens(work, { user_id: admin.id }, 'PASSWORD_CHANGED');
    await giveBack(work, reservation);
    await appendAudit(work, actor, {
      action: 'user.password_changed',
      target_type: 'USER',
      target_id: admin.id,
      detail: { ended_sessions: sessions, ended_tokens: tokens },
    });
  });
}
