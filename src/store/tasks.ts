import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import type { Instant } from '../clock';
import type { Actor } from '../contract/actor';
import { isTerminal, MOVES, type MoveEvent, type NoteEvent, type TaskStatus } from '../contract/moves';
import { findAttemptOfClaim } from './attempts';
import { findLatestAuthorization } from './authorizations';
import { findLatestClaim } from './claims';
import { findLatestConfirmation } from './confirmations';
import { passingOver, type Source, type Work } from './database';
import { type TaskFacts, type TaskRow, WISH_COLUMNS, type Wish } from './facts';
import { mustChangeOne, param, params, statement } from './statements';
import { findSubmission } from './submissions';

type TaskId = { task_id: string };

const lockTaskRow = statement<TaskId, TaskRow>('lock_task', (knex) =>
  knex('tasks').select('*').where('id', param('task_id')).forUpdate(),
);

const lockFreeTaskRow = statement<TaskId, TaskRow>('lock_free_task', (knex, engine) =>
  passingOver(knex('tasks').select('*').where('id', param('task_id')), engine),
);
const selectTask = statement<TaskId, TaskRow>('select_task', (knex) =>
  knex('tasks').select('*').where('id', param('task_id')),
);

/** Locks the task's row and loads every current fact; undefined when there is no such task. */
export async function lockTask(work: Work, taskId: string): Promise<TaskFacts | undefined> {
  const task = await lockTaskRow.first(work, { task_id: taskId });
  await work.readClock();
  return task && loadFacts(work, task);
}

/** The same, but undefined at once when another transaction holds the row. */
export async function lockTaskUnlessHeld(work: Work, taskId: string): Promise<TaskFacts | undefined> {
  const task = await lockFreeTaskRow.first(work, { task_id: taskId });
  // Without a wait too: it may have been started since the clock was read, and nothing happens to it before that.
  if (task) await work.readClock();
  return task && loadFacts(work, task);
}

/** The same facts without a lock, for answers that decide nothing. */
export async function findTaskFacts(source: Source, taskId: string): Promise<TaskFacts | undefined> {
  const task = await selectTask.first(source, { task_id: taskId });
  return task && loadFacts(source, task);
}

async function loadFacts(source: Source, task: TaskRow): Promise<TaskFacts> {
  const claim = task.claim_generation > 0 ? await findLatestClaim(source, task.id) : undefined;
  const attempt = claim && (await findAttemptOfClaim(source, claim.id));
  return {
    task,
    authorization: await findLatestAuthorization(source, task.id),
    claim,
    attempt,
    confirmation: attempt?.execution_id ? await findLatestConfirmation(source, attempt.id) : undefined,
    submission: await findSubmission(source, task.id),
  };
}

/** The task's own row. */
export function findTaskRow(source: Source, taskId: string): Promise<TaskRow | undefined> {
  return selectTask.first(source, { task_id: taskId });
}

const selectByExternalRef = statement<{ external_ref: string }, { id: string }>(
  'select_by_external_ref',
  (knex) => knex('tasks').select('id').where('external_ref', param('external_ref')),
);

const selectMoveAt = statement<{ task_id: string; version: number }, { type: MoveEvent }>(
  'select_move_at',
  (knex) =>
    knex('task_events')
      .select('type')
      .where('task_id', param('task_id'))
      .where('version', param('version'))
      .whereIn('type', Object.keys(MOVES))
      .orderBy('seq', 'desc')
      .limit(1),
);

export async function findTaskByExternalRef(
  source: Source,
  externalRef: string,
): Promise<string | undefined> {
  return (await selectByExternalRef.first(source, { external_ref: externalRef }))?.id;
}

/** The move that brought the task to a version. */
export async function findMoveAt(
  source: Source,
  taskId: string,
  version: number,
): Promise<MoveEvent | undefined> {
  return (await selectMoveAt.first(source, { task_id: taskId, version }))?.type;
}

const waiting = (knex: Knex) =>
  knex('tasks')
    .select('id')
    .where('status', 'PENDING')
    .where('authorization_expires_at', '>', param('now'))
    .orderBy(['created_at', 'id'])
    .limit(1);
const lapsed = (knex: Knex) =>
  knex('tasks')
    .select('id')
    .where('status', 'CLAIMED')
    .where('lease_expires_at', '<=', param('now'))
    .where('authorization_expires_at', '>', param('now'))
    .orderBy(['created_at', 'id'])
    .limit(1);
type Found = { id: string };
const selectWaiting = statement<{ now: Instant }, Found>('select_waiting', waiting);
const selectLapsed = statement<{ now: Instant }, Found>('select_lapsed', lapsed);
const lockFreeWaiting = statement<{ now: Instant }, Found>('lock_free_waiting', (knex, engine) =>
  passingOver(waiting(knex), engine),
);
const lockFreeLapsed = statement<{ now: Instant }, Found>('lock_free_lapsed', (knex, engine) =>
  passingOver(lapsed(knex), engine),
);
const selectEarlierOf = statement<{ waiting: string; lapsed: string }, { id: string }>(
  'select_earlier_of',
  (knex) =>
    knex('tasks')
      .select('id')
      .whereIn('id', [param('waiting'), param('lapsed')] as readonly string[])
      .orderBy(['created_at', 'id'])
      .limit(1),
);

/**
 * The next task that no other transaction holds, so that devices do not queue up behind one row. A claim that has run
 * out is as good as a task that waits.
 */
export async function findFree(work: Work): Promise<string | undefined> {
  const { now } = work;
  return earlierOf(
    work,
    await lockFreeWaiting.first(work, { now }),
    await lockFreeLapsed.first(work, { now }),
  );
}

/** The task to hand out next: earliest created, then smallest id, of those waiting or lapsed and still authorized. */
export async function findNextClaimable(source: Source, now: Instant): Promise<string | undefined> {
  return earlierOf(
    source,
    await selectWaiting.first(source, { now }),
    await selectLapsed.first(source, { now }),
  );
}

async function earlierOf(source: Source, waiting?: Found, lapsed?: Found): Promise<string | undefined> {
  if (!waiting || !lapsed) return (waiting ?? lapsed)?.id;
  return (await selectEarlierOf.first(source, { waiting: waiting.id, lapsed: lapsed.id }))?.id;
}

const TASK_COLUMNS = [
  'id',
  'external_ref',
  ...WISH_COLUMNS,
  'reference_image_sha256',
  'status',
  'version',
  'claim_generation',
  'created_at',
  'updated_at',
  'created_by',
  'duplicated_from',
] as const;

const insertTaskRow = statement<object>('insert_task', (knex) => knex('tasks').insert(params(TASK_COLUMNS)));

/** Writes a new draft at version 1 with its first event. */
export async function insertTask(
  work: Work,
  actor: Actor & { type: 'ADMIN' },
  draft: Wish & {
    external_ref?: string | null;
    reference_image_sha256?: string | null;
    duplicated_from?: string | null;
  },
): Promise<TaskFacts> {
  const task: TaskRow = {
    id: uuidv7(),
    external_ref: draft.external_ref ?? null,
    title: draft.title,
    keywords: draft.keywords ?? null,
    product_url: draft.product_url ?? null,
    shop_name: draft.shop_name ?? null,
    spec: draft.spec ?? null,
    quantity: draft.quantity,
    max_unit_price_cents: draft.max_unit_price_cents,
    max_total_cents: draft.max_total_cents,
    buyer_note: draft.buyer_note ?? null,
    confirmation_required: draft.confirmation_required,
    reference_image_sha256: draft.reference_image_sha256 ?? null,
    status: 'DRAFT',
    version: 1,
    claim_generation: 0,
    created_at: work.now,
    updated_at: work.now,
    ended_at: null,
    created_by: actor.user_id,
    duplicated_from: draft.duplicated_from ?? null,
    authorization_expires_at: null,
    lease_expires_at: null,
  };
  await insertTaskRow.run(work, task);
  await appendEvent(work, actor, { task }, { type: 'task.created', from: null, detail: undefined });
  return { task };
}

const moveTaskRow = statement<
  Pick<TaskRow, 'id' | 'version' | 'status' | 'claim_generation' | 'updated_at' | 'ended_at'> & {
    authorization_expires_at: Instant | null;
    lease_expires_at: Instant | null;
    from_status: TaskStatus;
  }
>('move_task', (knex) =>
  knex('tasks')
    .where({ id: param('id'), version: param('version'), status: param('from_status') })
    .update({
      status: param('status'),
      version: knex.raw('version + 1'),
      claim_generation: param('claim_generation'),
      updated_at: param('updated_at'),
      ended_at: param('ended_at'),
      authorization_expires_at: param('authorization_expires_at'),
      lease_expires_at: param('lease_expires_at'),
    }),
);

/** What a move sets beside status and version. */
export interface MoveChanges {
  claim_generation?: number;
  authorization_expires_at?: Instant;
  lease_expires_at?: Instant;
  detail?: Record<string, string | number | boolean>;
}

/**
 * The sole writer of a task's status and version, and of that move's event.
 * @throws Error when the row no longer stands as it was locked: a bug, never an answer to a client.
 */
export async function moveTask(
  work: Work,
  actor: Actor,
  facts: TaskFacts,
  event: MoveEvent,
  changes: MoveChanges = {},
): Promise<void> {
  const before = facts.task;
  const { from, to } = MOVES[event] as { from: readonly TaskStatus[]; to: TaskStatus };
  const queued = to === 'PENDING' || to === 'CLAIMED';
  const after: TaskRow = {
    ...before,
    status: to,
    claim_generation: changes.claim_generation ?? before.claim_generation,
    updated_at: work.now,
    ended_at: isTerminal(to) ? work.now : null,
    authorization_expires_at: queued
      ? (changes.authorization_expires_at ?? before.authorization_expires_at)
      : null,
    lease_expires_at: to === 'CLAIMED' ? (changes.lease_expires_at ?? null) : null,
  };
  const moved = from.includes(before.status)
    ? await moveTaskRow.run(work, { ...after, from_status: before.status })
    : 0;
  if (moved !== 1) {
    throw new Error(
      `${event} moved ${moved} rows of task ${before.id} at ${before.status} v${before.version}`,
    );
  }
  facts.task = { ...after, version: before.version + 1 };
  await appendEvent(work, actor, facts, { type: event, from: before.status, detail: changes.detail });
}

/** Appends an event that changes neither status nor version. */
export function noteEvent(
  work: Work,
  actor: Actor,
  facts: Pick<TaskFacts, 'task' | 'attempt'>,
  type: NoteEvent,
  detail?: MoveChanges['detail'],
): Promise<void> {
  return appendEvent(work, actor, facts, { type, from: facts.task.status, detail });
}

const insertEvent = statement<object>('insert_task_event', (knex) =>
  knex('task_events').insert(
    params([
      'id',
      'task_id',
      'type',
      'from_status',
      'to_status',
      'version',
      'occurred_at',
      'actor_type',
      'actor_user_id',
      'actor_device_id',
      'attempt_id',
      'detail',
    ]),
  ),
);

async function appendEvent(
  work: Work,
  actor: Actor,
  facts: Pick<TaskFacts, 'task' | 'attempt'>,
  event: { type: MoveEvent | NoteEvent; from: TaskStatus | null; detail: MoveChanges['detail'] },
): Promise<void> {
  await insertEvent.run(work, {
    id: uuidv7(),
    task_id: facts.task.id,
    type: event.type,
    from_status: event.from,
    to_status: facts.task.status,
    version: facts.task.version,
    occurred_at: work.now,
    actor_type: actor.type,
    actor_user_id: actor.type === 'SYSTEM' ? null : actor.user_id,
    actor_device_id: actor.type === 'DEVICE' ? actor.device_id : null,
    attempt_id: facts.attempt?.id,
    detail: event.detail && JSON.stringify(event.detail),
  });
}

const updateWishRow = statement<object>('update_wish', (knex) =>
  knex('tasks')
    .where({ id: param('id'), status: 'DRAFT' })
    .update(params([...WISH_COLUMNS, 'external_ref'])),
);
const updateReferenceImageRow = statement<object>('update_reference_image', (knex) =>
  knex('tasks')
    .where({ id: param('id'), status: 'DRAFT' })
    .update(params(['reference_image_sha256'])),
);

/** Replaces the whole wish of a draft; an absent optional field becomes empty. */
export async function updateWish(
  work: Work,
  facts: TaskFacts,
  wish: Wish & { external_ref?: string | null },
) {
  const { title, keywords, product_url, shop_name, spec, quantity, max_unit_price_cents } = wish;
  const { max_total_cents, buyer_note, confirmation_required, external_ref } = wish;
  const written = {
    title,
    keywords: keywords ?? null,
    product_url: product_url ?? null,
    shop_name: shop_name ?? null,
    spec: spec ?? null,
    quantity,
    max_unit_price_cents,
    max_total_cents,
    buyer_note: buyer_note ?? null,
    confirmation_required,
    external_ref: external_ref ?? null,
  };
  mustChangeOne('updateWish', await updateWishRow.run(work, { ...written, id: facts.task.id }));
  facts.task = { ...facts.task, ...written };
}

export async function updateReferenceImage(
  work: Work,
  facts: TaskFacts,
  sha256: string | null,
): Promise<void> {
  const written = { reference_image_sha256: sha256 };
  mustChangeOne(
    'updateReferenceImage',
    await updateReferenceImageRow.run(work, { ...written, id: facts.task.id }),
  );
  facts.task = { ...facts.task, ...written };
}
