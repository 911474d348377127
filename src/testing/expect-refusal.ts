import { Refusal } from '../contract/errors';
import type { ErrorCode } from '../contract/generated/types.gen';
import type { Database } from '../store/database';
import { allFacts } from './all-facts';

/** Runs what must be refused with this code, and sees that nothing was written by it. */
export async function expectRefusal(
  database: Database,
  code: ErrorCode,
  attempt: () => Promise<unknown>,
): Promise<Refusal> {
  const before = await allFacts(database);
  const refusal = await refusalOf(attempt());
  expect(refusal.code).toBe(code);
  expect(await allFacts(database)).toBe(before);
  return refusal;
}

/** The refusal of a promise that must not be kept. */
export async function refusalOf(promise: Promise<unknown>): Promise<Refusal> {
  const outcome = await promise.then(
    () => new Error('it was not refused'),
    (error: unknown) => error,
  );
  if (outcome instanceof Refusal) return outcome;
  throw outcome;
}
