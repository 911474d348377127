import { checkFacts, describeFinding } from '../store/check-facts';
import type { Database } from '../store/database';

/** What must hold at any time, whatever raced with whatever; a broken one fails the test. */
export async function expectInvariants(database: Database): Promise<void> {
  const { findings } = await database.snapshot((reader) => checkFacts(reader));
  expect(findings.map(describeFinding)).toEqual([]);
}
