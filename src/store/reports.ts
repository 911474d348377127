import type { Knex } from 'knex';
import type { Instant } from '../clock';
import type { TaskStatus } from '../contract/moves';
import { decodeCursor, type Page, type PageRequest, pageOf } from './cursor';
import { queryOn, type Source } from './database';
import type { DeviceRow } from './devices';
import type { ClaimRow, ConfirmationRow, ReportRow, SubmissionRow, TaskFacts, TaskRow } from './facts';
import { findImage, type ImageRow } from './images';
import { param, statement } from './statements';
import { findTaskFacts } from './tasks';
import { containing } from './users';

/** Joined reads for admins. Nothing here is on a phone's way. */

/** Who holds, or last held, a task. */
export interface Holder {
  device: Pick<DeviceRow, 'device_id' | 'label' | 'status' | 'last_revoked_at'>;
  user: { id: string; username: string; status: 'ACTIVE' | 'DISABLED'; last_disabled_at: Instant | null };
}

export interface TaskDetailFacts extends TaskFacts {
  holder?: Holder;
  image?: ImageRow;
  /** Of all attempts, newest first. */
  confirmations: ConfirmationRow[];
  /** Newest first. */
  reports: ReportRow[];
}

/** Confirmations and reports shown with a task. */
const SHOWN_WITH_TASK = 1000;

const selectHolder = statement<
  { claim_id: string },
  {
    device_id: string;
    label: string;
    device_status: Holder['device']['status'];
    last_revoked_at: Instant | null;
    user_id: string;
    username: string;
    user_status: Holder['user']['status'];
    last_disabled_at: Instant | null;
  }
>('select_holder', (knex) =>
  knex('claims as c')
    .join('devices as d', 'd.device_id', 'c.device_id')
    .join('users as u', 'u.id', 'c.user_id')
    .where('c.id', param('claim_id'))
    .select('d.device_id', 'd.label', 'd.last_revoked_at', 'u.username', 'u.last_disabled_at')
    .select({ device_status: 'd.status', user_id: 'u.id', user_status: 'u.status' }),
);
const selectConfirmations = statement<{ task_id: string }, ConfirmationRow>('select_confirmations', (knex) =>
  knex('confirmations')
    .select('*')
    .where('task_id', param('task_id'))
    .orderBy([
      { column: 'requested_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .limit(SHOWN_WITH_TASK),
);
const selectReports = statement<{ task_id: string }, ReportRow>('select_reports', (knex) =>
  knex('submission_reports')
    .select('*')
    .where('task_id', param('task_id'))
    .orderBy([
      { column: 'reported_at', order: 'desc' },
      { column: 'id', order: 'desc' },
    ])
    .limit(SHOWN_WITH_TASK),
);

/** Everything that a task's page shows, except its events and evidence. */
export async function findTaskDetail(source: Source, taskId: string): Promise<TaskDetailFacts | undefined> {
  const facts = await findTaskFacts(source, taskId);
  if (!facts) return undefined;
  const { task, claim } = facts;
  return {
    ...facts,
    holder: claim && (await findHolder(source, claim)),
    image:
      task.reference_image_sha256 === null ? undefined : await findImage(source, task.reference_image_sha256),
    confirmations: facts.attempt ? await selectConfirmations.all(source, { task_id: taskId }) : [],
    reports: facts.attempt ? await selectReports.all(source, { task_id: taskId }) : [],
  };
}

async function findHolder(source: Source, claim: ClaimRow): Promise<Holder | undefined> {
  const row = await selectHolder.first(source, { claim_id: claim.id });
  if (!row) return undefined;
  const { device_id, label, device_status, last_revoked_at } = row;
  const { user_id, username, user_status, last_disabled_at } = row;
  return {
    device: { device_id, label, status: device_status, last_revoked_at },
    user: { id: user_id, username, status: user_status, last_disabled_at },
  };
}

// ---------------------------------------------------------------------------------------------- lists

export type AttentionFilter =
  | 'RUN_LEASE_EXPIRED'
  | 'NEEDS_MANUAL'
  | 'WAITING_CONFIRMATION'
  | 'SUBMITTING_SILENT'
  | 'RECONCILIATION_REQUIRED'
  | 'AUTHORIZATION_EXPIRED'
  | 'CLAIMANT_WITHOUT_ACCESS'
  | 'CONTRADICTING_REPORT'
  | 'ANY';

export interface TaskListFilter extends PageRequest {
  status?: TaskStatus[];
  q?: string;
  attention?: AttentionFilter;
  created_from?: Instant;
  /** Exclusive. */
  created_to?: Instant;
  sort?: 'created_at' | '-created_at' | 'updated_at' | '-updated_at';
}

/** A task with what its line in a list shows. */
export interface TaskListRow {
  task: TaskRow;
  claim?: Pick<ClaimRow, 'claimed_at' | 'closed_at' | 'lease_expires_at'>;
  holder?: Holder;
  submission?: Pick<SubmissionRow, 'status' | 'order_no'>;
  authorization?: { expires_at: Instant };
  cancel_requested_at: Instant | null;
  contradicting: boolean;
}

const UNANSWERED_CONTRADICTION = `exists (select 1 from submission_reports r
  where r.task_id = t.id and r.contradicting and r.acknowledged_at is null)`;

/** The attention predicates of lifecycle/eligibility.ts as SQL; a test holds the two together. */
const ATTENTION: Record<Exclude<AttentionFilter, 'ANY'>, { sql: string; usesNow: boolean }> = {
  RUN_LEASE_EXPIRED: {
    sql: `t.status in ('RUNNING', 'WAITING_CONFIRMATION') and c.lease_expires_at <= ?`,
    usesNow: true,
  },
  NEEDS_MANUAL: { sql: `t.status = 'NEEDS_MANUAL'`, usesNow: false },
  WAITING_CONFIRMATION: { sql: `t.status = 'WAITING_CONFIRMATION'`, usesNow: false },
  SUBMITTING_SILENT: { sql: `t.status = 'SUBMITTING' and c.lease_expires_at <= ?`, usesNow: true },
  RECONCILIATION_REQUIRED: { sql: `s.status = 'RECONCILIATION_REQUIRED'`, usesNow: false },
  AUTHORIZATION_EXPIRED: { sql: `t.status = 'PENDING' and t.authorization_expires_at <= ?`, usesNow: true },
  CLAIMANT_WITHOUT_ACCESS: {
    sql: `c.id is not null and (d.status = 'REVOKED' or u.status = 'DISABLED'
      or d.last_revoked_at >= c.claimed_at or u.last_disabled_at >= c.claimed_at)`,
    usesNow: false,
  },
  CONTRADICTING_REPORT: { sql: UNANSWERED_CONTRADICTION, usesNow: false },
};

/** Tasks for the list: newest first unless asked otherwise, stable under equal instants. */
export async function listTasks(
  source: Source,
  filter: TaskListFilter,
  now: Instant,
): Promise<Page<TaskListRow>> {
  const sort = filter.sort ?? '-created_at';
  const column = sort.endsWith('updated_at') ? 'updated_at' : 'created_at';
  const direction = sort.startsWith('-') ? 'desc' : 'asc';
  const query = taskLines(queryOn(source));

  if (filter.status?.length) query.whereIn('t.status', filter.status);
  if (filter.created_from) query.where('t.created_at', '>=', filter.created_from);
  if (filter.created_to) query.where('t.created_at', '<', filter.created_to);
  if (filter.q) matchText(query, filter.q);
  if (filter.attention) matchAttention(query, filter.attention, now);
  if (filter.cursor) {
    const [at, id] = decodeCursor(filter.cursor, ['instant', 'uuid'], sort);
    query.whereRaw(`(t.${column}, t.id) ${direction === 'desc' ? '<' : '>'} (?, ?)`, [at, id]);
  }
  query
    .orderBy([
      { column: `t.${column}`, order: direction },
      { column: 't.id', order: direction },
    ])
    .limit(filter.limit + 1);

  const rows = ((await query) as TaskLine[]).map(toListRow);
  return pageOf(rows, filter.limit, sort, ({ task }) => [task[column], task.id]);
}

interface TaskLine extends TaskRow {
  c_id: string | null;
  c_claimed_at: Instant;
  c_lease_expires_at: Instant;
  d_device_id: string;
  d_label: string;
  d_status: Holder['device']['status'];
  d_last_revoked_at: Instant | null;
  u_id: string;
  u_username: string;
  u_status: Holder['user']['status'];
  u_last_disabled_at: Instant | null;
  s_status: SubmissionRow['status'] | null;
  s_order_no: string | null;
  a_cancel_requested_at: Instant | null;
  contradicting: boolean;
}

function taskLines(knex: Knex): Knex.QueryBuilder {
  return knex('tasks as t')
    .leftJoin('claims as c', (join) => join.on('c.task_id', 't.id').andOnNull('c.closed_at'))
    .leftJoin('attempts as a', 'a.claim_id', 'c.id')
    .leftJoin('devices as d', 'd.device_id', 'c.device_id')
    .leftJoin('users as u', 'u.id', 'c.user_id')
    .leftJoin('order_submissions as s', 's.task_id', 't.id')
    .select('t.*')
    .select({
      c_id: 'c.id',
      c_claimed_at: 'c.claimed_at',
      c_lease_expires_at: 'c.lease_expires_at',
      d_device_id: 'd.device_id',
      d_label: 'd.label',
      d_status: 'd.status',
      d_last_revoked_at: 'd.last_revoked_at',
      u_id: 'u.id',
      u_username: 'u.username',
      u_status: 'u.status',
      u_last_disabled_at: 'u.last_disabled_at',
      s_status: 's.status',
      s_order_no: 's.order_no',
      a_cancel_requested_at: 'a.cancel_requested_at',
      contradicting: knex.raw(UNANSWERED_CONTRADICTION),
    });
}

function toListRow(line: TaskLine): TaskListRow {
  return {
    task: line,
    claim:
      line.c_id === null
        ? undefined
        : { claimed_at: line.c_claimed_at, closed_at: null, lease_expires_at: line.c_lease_expires_at },
    holder:
      line.c_id === null
        ? undefined
        : {
            device: {
              device_id: line.d_device_id,
              label: line.d_label,
              status: line.d_status,
              last_revoked_at: line.d_last_revoked_at,
            },
            user: {
              id: line.u_id,
              username: line.u_username,
              status: line.u_status,
              last_disabled_at: line.u_last_disabled_at,
            },
          },
    submission: line.s_status === null ? undefined : { status: line.s_status, order_no: line.s_order_no },
    authorization:
      line.authorization_expires_at === null ? undefined : { expires_at: line.authorization_expires_at },
    cancel_requested_at: line.a_cancel_requested_at,
    contradicting: line.contradicting,
  };
}

/** Finds the words anywhere in what a person would remember of a task; an id finds exactly its task. */
function matchText(query: Knex.QueryBuilder, q: string): void {
  query.where((any) => {
    containing(['t.title', 't.keywords', 't.shop_name', 't.external_ref', 's.order_no'], q)(any);
    if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(q)) any.orWhere('t.id', q);
  });
}

function matchAttention(query: Knex.QueryBuilder, attention: AttentionFilter, now: Instant): void {
  const wanted = attention === 'ANY' ? Object.values(ATTENTION) : [ATTENTION[attention]];
  query.where((any) => {
    for (const { sql, usesNow } of wanted) any.orWhereRaw(`(${sql})`, usesNow ? [now] : []);
  });
}

// --------------------------------------------------------------------------------------------- events

export interface TaskEventRow {
  seq: number;
  id: string;
  type: string;
  from_status: TaskStatus | null;
  to_status: TaskStatus | null;
  version: number;
  occurred_at: Instant;
  actor_type: 'ADMIN' | 'DEVICE' | 'SYSTEM';
  actor_user_id: string | null;
  username: string | null;
  actor_device_id: string | null;
  device_label: string | null;
  attempt_id: string | null;
  claim_generation: number | null;
  detail: string | null;
}

const selectEvents = statement<{ task_id: string; after: number }, TaskEventRow>(
  'select_task_events',
  (knex) =>
    knex('task_events as e')
      .leftJoin('users as u', 'u.id', 'e.actor_user_id')
      .leftJoin('devices as d', 'd.device_id', 'e.actor_device_id')
      .leftJoin('attempts as a', 'a.id', 'e.attempt_id')
      .where('e.task_id', param('task_id'))
      .where('e.seq', '>', param('after'))
      .orderBy('e.seq')
      .select('e.*', 'u.username')
      .select({ device_label: 'd.label', claim_generation: 'a.generation' })
      .limit(MOST_EVENTS),
);
/** The contract's largest page, and one more to know whether another follows. */
const MOST_EVENTS = 101;

/** A task's events in causal order, oldest first. */
export async function listTaskEvents(
  source: Source,
  taskId: string,
  page: PageRequest,
): Promise<Page<TaskEventRow>> {
  const [after] = page.cursor ? decodeCursor(page.cursor, ['integer'], 'events') : [0];
  const rows = await selectEvents.all(source, { task_id: taskId, after });
  return pageOf(rows, page.limit, 'events', ({ seq }) => [seq]);
}
