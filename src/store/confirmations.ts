import type { Source } from './database';
import type { ConfirmationRow } from './facts';
import { param, statement } from './statements';

const selectLatestConfirmation = statement<{ attempt_id: string }, ConfirmationRow>(
  'select_latest_confirmation',
  (knex) =>
    knex('confirmations')
      .select('*')
      .where('attempt_id', param('attempt_id'))
      .orderBy('ordinal', 'desc')
      .limit(1),
);

export function findLatestConfirmation(
  source: Source,
  attemptId: string,
): Promise<ConfirmationRow | undefined> {
  return selectLatestConfirmation.first(source, { attempt_id: attemptId });
}
