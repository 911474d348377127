import { v7 as uuidv7 } from 'uuid';
import type { Source, Work } from './database';
import type { AttemptRow, AuthorizationRow, ReportRow, SubmissionRow, TaskFacts } from './facts';
import { mustChangeOne, param, params, statement } from './statements';

const selectSubmission = statement<{ task_id: string }, SubmissionRow>('select_submission', (knex) =>
  knex('order_submissions').select('*').where('task_id', param('task_id')),
);

export function findSubmission(source: Source, taskId: string): Promise<SubmissionRow | undefined> {
  return selectSubmission.first(source, { task_id: taskId });
}

const insertSubmissionRow = statement<object>('insert_submission', (knex) =>
  knex('order_submissions').insert(
    params([
      'id',
      'task_id',
      'attempt_id',
      'authorization_id',
      'confirmation_id',
      'status',
      'unit_price_cents',
      'quantity',
      'total_cents',
      'fenced_at',
    ]),
  ),
);

const reportSubmissionRow = statement<object>('report_submission', (knex) =>
  knex('order_submissions')
    .where({ id: param('id'), status: 'FENCED' })
    .update(params(['status', 'reported_at', 'order_no', 'amount_cents'])),
);

/** The fence: from here on an order may exist. At most one for a task, ever. */
export async function insertSubmission(
  work: Work,
  facts: TaskFacts,
  offer: { unit_price_cents: number; quantity: number; total_cents: number; confirmation_id?: string },
): Promise<void> {
  const { task, attempt, authorization } = facts;
  const submission: SubmissionRow = {
    id: uuidv7(),
    task_id: task.id,
    attempt_id: (attempt as AttemptRow).id,
    authorization_id: (authorization as AuthorizationRow).id,
    confirmation_id: offer.confirmation_id ?? null,
    status: 'FENCED',
    unit_price_cents: offer.unit_price_cents,
    quantity: offer.quantity,
    total_cents: offer.total_cents,
    fenced_at: work.now,
    reported_at: null,
    order_no: null,
    amount_cents: null,
    resolution: null,
    resolved_at: null,
    resolved_by: null,
    note: null,
  };
  await insertSubmissionRow.run(work, submission);
  facts.submission = submission;
}

export async function reportSubmission(
  work: Work,
  submission: SubmissionRow,
  result: { status: 'SUBMITTED' | 'RECONCILIATION_REQUIRED'; order_no?: string; amount_cents?: number },
): Promise<void> {
  const reported = {
    status: result.status,
    reported_at: work.now,
    order_no: result.order_no ?? null,
    amount_cents: result.amount_cents ?? null,
  };
  mustChangeOne('reportSubmission', await reportSubmissionRow.run(work, { ...reported, id: submission.id }));
  Object.assign(submission, reported);
}

const insertReportRow = statement<object>('insert_submission_report', (knex) =>
  knex('submission_reports').insert(
    params([
      'id',
      'task_id',
      'attempt_id',
      'submission_id',
      'outcome',
      'order_no',
      'amount_cents',
      'evidence_ids',
      'late',
      'contradicting',
      'reported_at',
    ]),
  ),
);

/** Keeps what a phone reported, whatever it says and whenever it comes. */
export async function insertReport(
  work: Work,
  report: Omit<
    ReportRow,
    'id' | 'reported_at' | 'acknowledged_at' | 'acknowledged_by' | 'acknowledgement_note'
  >,
): Promise<string> {
  const id = uuidv7();
  await insertReportRow.run(work, { ...report, id, reported_at: work.now });
  return id;
}
