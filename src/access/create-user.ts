import type { AdminActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import { type KeyedRequest, recall, remember } from '../lifecycle/replay';
import { appendAudit } from '../store/audit';
import type { Work } from '../store/database';
import { findUser, insertUser, type UserRow, type UserView, viewOfUser } from '../store/users';
import { confirmActor } from './confirm-actor';

export interface NewUser extends KeyedRequest {
  username: string;
  display_name?: string;
  role: UserRow['role'];
  /** By `hashPassword`, before the transaction. */
  password_hash: string;
}

/**
 * Admin: a new active user. Guards: IDEMPOTENCY_KEY_REUSED, DUPLICATE_USERNAME (case does not matter).
 * Replay: the same key answers the user that it created, as it stands now; the password is no part of the comparison.
 */
export async function createUser(
  work: Work,
  actor: AdminActor,
  input: NewUser,
): Promise<{ user: UserView; replayed: boolean }> {
  const { password_hash, ...request } = input;
  await confirmActor(work, actor);

  const record = await recall(work, { user_id: actor.user_id }, 'createUser', request);
  const known = record && (await findUser(work, record.resource_id!));
  if (known) return { user: viewOfUser(known), replayed: true };

  const user = await insertUser(work, { ...request, password_hash });
  if (!user) throw new Refusal('DUPLICATE_USERNAME');

  const { id, username, role } = user;
  await appendAudit(work, actor, {
    action: 'user.created',
    target_type: 'USER',
    target_id: id,
    detail: { username, role },
  });
  const outcome = { outcome: 'CREATED' as const, resource_id: id };
  await remember(work, { user_id: actor.user_id }, 'createUser', request, outcome);
  return { user: viewOfUser(user), replayed: false };
}
