import { v7 as uuidv7 } from 'uuid';
import type { Source, Work } from './database';
import type { AttemptRow } from './facts';
import { mustChangeOne, param, params, statement } from './statements';

const selectAttemptOfClaim = statement<{ claim_id: string }, AttemptRow>('select_attempt_of_claim', (knex) =>
  knex('attempts').select('*').where('claim_id', param('claim_id')),
);

export function findAttemptOfClaim(source: Source, claimId: string): Promise<AttemptRow | undefined> {
  return selectAttemptOfClaim.first(source, { claim_id: claimId });
}

const startAttemptRow = statement<object>('start_attempt', (knex) =>
  knex('attempts')
    .where({ id: param('id'), status: 'CLAIMED' })
    .update({ status: 'ORDERING', ...params(['execution_id', 'started_at', 'last_seen_at']) }),
);

const seeAttemptRow = statement<object>('see_attempt', (knex) =>
  knex('attempts')
    .where('id', param('id'))
    .whereNull('ended_at')
    .update(params(['step', 'last_seen_at'])),
);

const fenceAttemptRow = statement<{ id: string }>('fence_attempt', (knex) =>
  knex('attempts')
    .where({ id: param('id'), status: 'ORDERING' })
    .update({ status: 'FENCED' }),
);

const endAttemptRow = statement<object>('end_attempt', (knex) =>
  knex('attempts')
    .where('id', param('id'))
    .whereNull('ended_at')
    .update({ status: param('status'), ended_at: param('ended_at') }),
);

export async function startAttempt(work: Work, attempt: AttemptRow): Promise<void> {
  const started = { execution_id: uuidv7(), started_at: work.now, last_seen_at: work.now };
  mustChangeOne('startAttempt', await startAttemptRow.run(work, { ...started, id: attempt.id }));
  Object.assign(attempt, started, { status: 'ORDERING' });
}

export async function seeAttempt(work: Work, attempt: AttemptRow, step: string): Promise<void> {
  const seen = { step, last_seen_at: work.now };
  mustChangeOne('seeAttempt', await seeAttemptRow.run(work, { ...seen, id: attempt.id }));
  Object.assign(attempt, seen);
}

export async function fenceAttempt(work: Work, attempt: AttemptRow): Promise<void> {
  mustChangeOne('fenceAttempt', await fenceAttemptRow.run(work, { id: attempt.id }));
  attempt.status = 'FENCED';
}

/** Ends an attempt; `FENCED` stays `FENCED` where nobody knows whether an order exists. */
export async function endAttempt(
  work: Work,
  attempt: AttemptRow,
  status: 'FENCED' | 'SUCCEEDED' | 'ABANDONED',
): Promise<void> {
  const ended = { status, ended_at: work.now };
  mustChangeOne('endAttempt', await endAttemptRow.run(work, { ...ended, id: attempt.id }));
  Object.assign(attempt, ended);
}
