import { Refusal } from '../contract/errors';
import { appendAudit } from '../store/audit';
import type { Database } from '../store/database';
import { hasAdmin, insertUser, type UserView, viewOfUser } from '../store/users';
import { generatePassword, hashPassword, type PasswordCost } from './passwords';

export interface NewAdmin {
  username: string;
  /** Empty or absent: one is made up. */
  password?: string;
}

export interface CreatedAdmin {
  user: UserView;
  /** Only when it was made up: to be shown once, on the terminal. */
  generated_password?: string;
}

/**
 * First start: an admin, when there is none yet; undefined when there is one.
 * @throws Refusal DUPLICATE_USERNAME when a buyer has the name.
 */
export async function createFirstAdmin(
  database: Database,
  input: NewAdmin,
  cost?: PasswordCost,
): Promise<CreatedAdmin | undefined> {
  if (await hasAdmin(database.read)) return undefined;
  return create(database, input, cost, true);
}

/**
 * The terminal's command: another admin, whether there is one or not.
 * @throws Refusal DUPLICATE_USERNAME, INVALID_REQUEST
 */
export async function createAdmin(
  database: Database,
  input: NewAdmin,
  cost?: PasswordCost,
): Promise<CreatedAdmin> {
  return (await create(database, input, cost, false))!;
}

async function create(
  database: Database,
  { username, password }: NewAdmin,
  cost: PasswordCost | undefined,
  onlyFirst: boolean,
): Promise<CreatedAdmin | undefined> {
  if (!/^[A-Za-z0-9._-]{3,64}$/.test(username)) throw new Refusal('INVALID_REQUEST');
  const generated_password = password ? undefined : generatePassword();
  const password_hash = await hashPassword(password || generated_password!, '/body/password', cost);
  return database.write(async (work) => {
    if (onlyFirst && (await hasAdmin(work))) return undefined;
    const user = await insertUser(work, { username, role: 'ADMIN', password_hash });
    if (!user) {
      if (onlyFirst && (await hasAdmin(work))) return undefined;
      throw new Refusal('DUPLICATE_USERNAME');
    }
    await appendAudit(
      work,
      { type: 'SYSTEM' },
      {
        action: 'user.created',
        target_type: 'USER',
        target_id: user.id,
        detail: { username, role: 'ADMIN' },
      },
    );
    return { user: viewOfUser(user), ...(generated_password && { generated_password }) };
  });
}
