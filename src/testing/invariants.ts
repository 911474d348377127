import { checkFacts, describeFinding, FACT_CHECKS } from '../store/check-facts';
import type { Database } from '../store/database';

/** Tests change a task's row by hand to see that the frozen wish is what counts. */
const CHECKS = FACT_CHECKS.filter(({ name }) => name !== 'frozen-wishes-are-the-wish');

/** What must hold at any time, whatever raced with whatever; a broken one fails the test. */
export async function expectInvariants(database: Database): Promise<void> {
  const { findings } = await database.snapshot((reader) => checkFacts(reader, CHECKS));
  expect(findings.map(describeFinding)).toEqual([]);
}
