import { randomInt } from 'node:crypto';
import { hash, verify } from '@node-rs/argon2';
import { Refusal } from '../contract/errors';

export interface PasswordCost {
  memoryCost: number;
  timeCost: number;
  parallelism: number;
}

/** OWASP's first choice for argon2id: 19 MiB, two passes, one lane; some 50 ms a try. */
export const PASSWORD_COST: Readonly<PasswordCost> = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };

/** The package's `Algorithm.Argon2id`, an ambient enum that isolated modules cannot read. */
const ARGON2ID = 2;

const MINIMUM_LENGTH = 12;
const MAXIMUM_LENGTH = 128;

/** Of a password that nobody knows, at the cost above: an unknown user must take as long as a known one. */
const NOBODYS_HASH =
  '$argon2id$v=19$m=19456,t=2,p=1$dxgFtNLbOXDu8B8W7W++qw$dbHCuEr4nL3zw1wmkgKSjvyzHuLPNchEUEqux6ZvV6o';

/** Letters and digits that nobody mistakes for each other when reading them aloud or off a screen. */
const READABLE = 'abcdefghjkmnpqrstuvwxyz23456789';

/**
 * Hashes a new password; takes long, so never inside a transaction. Only tests give a cost.
 * @throws Refusal INVALID_REQUEST at `path` when it is not 12 to 128 code points once composed (NFC).
 */
export async function hashPassword(
  password: string,
  path = '/body/password',
  cost: PasswordCost = PASSWORD_COST,
): Promise<string> {
  const composed = password.normalize('NFC');
  const length = [...composed].length;
  if (length < MINIMUM_LENGTH || length > MAXIMUM_LENGTH) {
    const message = `must be ${MINIMUM_LENGTH} to ${MAXIMUM_LENGTH} characters`;
    throw new Refusal('INVALID_REQUEST', { errors: [{ path, message }] });
  }
  return hash(composed, { ...cost, algorithm: ARGON2ID });
}

/** Whether the password belongs to the hash; without a hash it never does, in the same time. */
export async function verifyPassword(passwordHash: string | undefined, password: string): Promise<boolean> {
  const matches = await verify(passwordHash ?? NOBODYS_HASH, password.normalize('NFC'));
  return matches && passwordHash !== undefined;
}

/** Four groups of five readable characters: 99 bits. */
export function generatePassword(): string {
  const group = () => Array.from({ length: 5 }, () => READABLE[randomInt(READABLE.length)]).join('');
  return Array.from({ length: 4 }, group).join('-');
}
