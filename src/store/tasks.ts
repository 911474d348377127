import { v7 as uuidv7 } from 'uuid';
import type { Instant } from '../clock';
import type { Actor } from '../contract/actor';
import { isTerminal, MOVES, type MoveEvent, type NoteEvent, type TaskStatus } from '../contract/moves';
import type { Source, Work } from './database';
import { param, params, statement } from './statements';

/** What an admin wants bought, as a person writes it. */
export interface Wish {
  title: string;
  keywords?: string | null;
  product_url?: string | null;
  shop_name?: string | null;
  spec?: string | null;
  quantity: number;
  max_unit_price_cents: number;
  max_total_cents: number;
  buyer_note?: string | null;
  confirmation_required: boolean;
}

export interface TaskRow extends Wish {
  id: string;
  external_ref: string | null;
  reference_image_sha256: string | null;
  status: TaskStatus;
  version: number;
  claim_generation: number;
  created_at: Instant;
  updated_at: Instant;
  ended_at: Instant | null;
  created_by: string;
  duplicated_from: string | null;
  /** Copies of the open authorization's and claim's expiry while the task waits in the queue, for its index. */
  authorization_expires_at: Instant | null;
  lease_expires_at: Instant | null;
}

export interface AuthorizationRow {
  id: string;
  task_id: string;
  task_version: number;
  status: 'ACTIVE' | 'FENCED' | 'EXPIRED' | 'ABANDONED';
  /** The frozen wish as JSON text. */
  wish: string;
  reference_image_sha256: string | null;
  created_at: Instant;
  created_by: string;
  expires_at: Instant;
  closed_at: Instant | null;
}

export interface ClaimRow {
  id: string;
  task_id: string;
  generation: number;
  authorization_id: string;
  user_id: string;
  device_id: string;
  token_hash: string;
  claimed_at: Instant;
  lease_expires_at: Instant;
  closed_at: Instant | null;
  /** How the task stood when this claim closed: all that its holder may still see of it. */
  closed_status: TaskStatus | null;
  closed_version: number | null;
}

export interface AttemptRow {
  id: string;
  task_id: string;
  claim_id: string;
  generation: number;
  authorization_id: string;
  user_id: string;
  device_id: string;
  status: 'CLAIMED' | 'ORDERING' | 'FENCED' | 'SUCCEEDED' | 'FAILED' | 'ABANDONED';
  execution_id: string | null;
  created_at: Instant;
  started_at: Instant | null;
  ended_at: Instant | null;
  step: string | null;
  last_seen_at: Instant | null;
  cancel_requested_at: Instant | null;
  cancel_requested_by: string | null;
  failure_code: string | null;
  failure_message: string | null;
  stop_reported_at: Instant | null;
  stop_reason: string | null;
}

export interface ConfirmationRow {
  id: string;
  task_id: string;
  attempt_id: string;
  ordinal: number;
  status: 'REQUESTED' | 'APPROVED' | 'REJECTED' | 'WITHDRAWN';
  title: string;
  shop_name: string;
  unit_price_cents: number;
  quantity: number;
  total_cents: number;
  evidence_ids: string;
  requested_at: Instant;
  decided_at: Instant | null;
  decided_by: string | null;
  note: string | null;
}

export interface SubmissionRow {
  id: string;
  task_id: string;
  attempt_id: string;
  authorization_id: string;
  confirmation_id: string | null;
  status: 'FENCED' | 'SUBMITTED' | 'RECONCILIATION_REQUIRED' | 'MANUAL_RESOLVED';
  unit_price_cents: number;
  quantity: number;
  total_cents: number;
  fenced_at: Instant;
  reported_at: Instant | null;
  order_no: string | null;
  amount_cents: number | null;
  resolution: 'ORDER_CREATED' | 'NO_ORDER' | null;
  resolved_at: Instant | null;
  resolved_by: string | null;
  note: string | null;
}

export interface ReportRow {
  id: string;
  task_id: string;
  attempt_id: string;
  submission_id: string | null;
  outcome: 'ORDER_CREATED' | 'UNKNOWN' | 'NOT_SUBMITTED';
  order_no: string | null;
  amount_cents: number | null;
  evidence_ids: string;
  late: boolean;
  contradicting: boolean;
  reported_at: Instant;
  acknowledged_at: Instant | null;
  acknowledged_by: string | null;
  acknowledgement_note: string | null;
}

/** A task with the newest of each fact about it: its latest authorization, claim, attempt and that attempt's confirmation. */
export interface TaskFacts {
  task: TaskRow;
  authorization?: AuthorizationRow;
  claim?: ClaimRow;
  attempt?: AttemptRow;
  confirmation?: ConfirmationRow;
  submission?: SubmissionRow;
}

// ------------------------------------------------------------------------------------------- reading

type TaskId = { task_id: string };

const lockTaskRow = statement<TaskId, TaskRow>('lock_task', (knex) =>
  knex('tasks').select('*').where('id', param('task_id')).forUpdate(),
);
const selectTask = statement<TaskId, TaskRow>('select_task', (knex) =>
  knex('tasks').select('*').where('id', param('task_id')),
);
const selectLatestAuthorization = statement<TaskId, AuthorizationRow>('select_latest_authorization', (knex) =>
  knex('authorizations')
    .select('*')
    .where('task_id', param('task_id'))
    .orderBy('task_version', 'desc')
    .limit(1),
);
const selectAuthorization = statement<{ id: string }, AuthorizationRow>('select_authorization', (knex) =>
  knex('authorizations').select('*').where('id', param('id')),
);
const selectLatestClaim = statement<TaskId, ClaimRow>('select_latest_claim', (knex) =>
  knex('claims').select('*').where('task_id', param('task_id')).orderBy('generation', 'desc').limit(1),
);
const selectClaimByToken = statement<{ token_hash: string }, ClaimRow>('select_claim_by_token', (knex) =>
  knex('claims').select('*').where('token_hash', param('token_hash')),
);
const selectClaim = statement<{ id: string }, ClaimRow>('select_claim', (knex) =>
  knex('claims').select('*').where('id', param('id')),
);
const selectAnyClaimOfPair = statement<
  { task_id: string; user_id: string; device_id: string },
  { id: string }
>('select_any_claim_of_pair', (knex) =>
  knex('claims')
    .select('id')
    .where('task_id', param('task_id'))
    .where('user_id', param('user_id'))
    .where('device_id', param('device_id'))
    .limit(1),
);
const selectOpenClaimsOfDevice = statement<{ device_id: string }, ClaimRow>(
  'select_open_claims_of_device',
  (knex) =>
    knex('claims')
      .select('*')
      .where('device_id', param('device_id'))
      .whereNull('closed_at')
      .orderBy('claimed_at'),
);
const selectAttemptOfClaim = statement<{ claim_id: string }, AttemptRow>('select_attempt_of_claim', (knex) =>
  knex('attempts').select('*').where('claim_id', param('claim_id')),
);
const selectLatestConfirmation = statement<{ attempt_id: string }, ConfirmationRow>(
  'select_latest_confirmation',
  (knex) =>
    knex('confirmations')
      .select('*')
      .where('attempt_id', param('attempt_id'))
      .orderBy('ordinal', 'desc')
      .limit(1),
);
const selectSubmission = statement<TaskId, SubmissionRow>('select_submission', (knex) =>
  knex('order_submissions').select('*').where('task_id', param('task_id')),
);

/** Locks the task's row and loads every current fact; undefined when there is no such task. */
export async function lockTask(work: Work, taskId: string): Promise<TaskFacts | undefined> {
  const task = await lockTaskRow.first(work, { task_id: taskId });
  return task && loadFacts(work, task);
}

/** The same facts without a lock, for answers that decide nothing. */
export async function findTaskFacts(source: Source, taskId: string): Promise<TaskFacts | undefined> {
  const task = await selectTask.first(source, { task_id: taskId });
  return task && loadFacts(source, task);
}

async function loadFacts(source: Source, task: TaskRow): Promise<TaskFacts> {
  const key = { task_id: task.id };
  const claim = task.claim_generation > 0 ? await selectLatestClaim.first(source, key) : undefined;
  const attempt = claim && (await findAttemptOfClaim(source, claim.id));
  return {
    task,
    authorization: await selectLatestAuthorization.first(source, key),
    claim,
    attempt,
    confirmation: attempt?.execution_id ? await findLatestConfirmation(source, attempt.id) : undefined,
    submission: await selectSubmission.first(source, key),
  };
}

/** The task's own row. */
export function findTaskRow(source: Source, taskId: string): Promise<TaskRow | undefined> {
  return selectTask.first(source, { task_id: taskId });
}

export function findAuthorization(source: Source, id: string): Promise<AuthorizationRow | undefined> {
  return selectAuthorization.first(source, { id });
}

export function findClaim(source: Source, id: string): Promise<ClaimRow | undefined> {
  return selectClaim.first(source, { id });
}

export function findClaimByToken(source: Source, tokenHash: string): Promise<ClaimRow | undefined> {
  return selectClaimByToken.first(source, { token_hash: tokenHash });
}

export function findAttemptOfClaim(source: Source, claimId: string): Promise<AttemptRow | undefined> {
  return selectAttemptOfClaim.first(source, { claim_id: claimId });
}

export function findLatestConfirmation(
  source: Source,
  attemptId: string,
): Promise<ConfirmationRow | undefined> {
  return selectLatestConfirmation.first(source, { attempt_id: attemptId });
}

export function findOpenClaimsOfDevice(source: Source, deviceId: string): Promise<ClaimRow[]> {
  return selectOpenClaimsOfDevice.all(source, { device_id: deviceId });
}

/** Whether this pair ever held the task: what decides between its own errors and `TASK_NOT_FOUND`. */
export async function hasEverHeld(
  source: Source,
  pair: { user_id: string; device_id: string },
  taskId: string,
): Promise<boolean> {
  const { user_id, device_id } = pair;
  return (await selectAnyClaimOfPair.first(source, { task_id: taskId, user_id, device_id })) !== undefined;
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

// --------------------------------------------------------------------------------------------- queue

const selectWaiting = statement<{ now: Instant }, { id: string }>('select_waiting', (knex) =>
  knex('tasks')
    .select('id')
    .where('status', 'PENDING')
    .where('authorization_expires_at', '>', param('now'))
    .orderBy(['created_at', 'id'])
    .limit(1),
);
const selectLapsed = statement<{ now: Instant }, { id: string }>('select_lapsed', (knex) =>
  knex('tasks')
    .select('id', 'created_at')
    .where('status', 'CLAIMED')
    .where('lease_expires_at', '<=', param('now'))
    .where('authorization_expires_at', '>', param('now'))
    .orderBy(['created_at', 'id'])
    .limit(1),
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

/** The task to hand out next: earliest created, then smallest id, of those waiting or lapsed and still authorized. */
export async function findNextClaimable(source: Source, now: Instant): Promise<string | undefined> {
  const waiting = await selectWaiting.first(source, { now });
  const lapsed = await selectLapsed.first(source, { now });
  if (!waiting || !lapsed) return (waiting ?? lapsed)?.id;
  return (await selectEarlierOf.first(source, { waiting: waiting.id, lapsed: lapsed.id }))?.id;
}

// ------------------------------------------------------------------------------------------- writing

const TASK_COLUMNS = [
  'id',
  'external_ref',
  'title',
  'keywords',
  'product_url',
  'shop_name',
  'spec',
  'quantity',
  'max_unit_price_cents',
  'max_total_cents',
  'buyer_note',
  'confirmation_required',
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
    .update(
      params([
        'title',
        'keywords',
        'product_url',
        'shop_name',
        'spec',
        'quantity',
        'max_unit_price_cents',
        'max_total_cents',
        'buyer_note',
        'confirmation_required',
        'external_ref',
      ]),
    ),
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

const insertAuthorizationRow = statement<object>('insert_authorization', (knex) =>
  knex('authorizations').insert(
    params([
      'id',
      'task_id',
      'task_version',
      'status',
      'wish',
      'reference_image_sha256',
      'created_at',
      'created_by',
      'expires_at',
    ]),
  ),
);

/** Freezes the wish as it stands into a new `ACTIVE` authorization for the version that the coming move creates. */
export async function insertAuthorization(
  work: Work,
  facts: TaskFacts,
  createdBy: string,
  expiresAt: Instant,
): Promise<void> {
  const { task } = facts;
  const authorization: AuthorizationRow = {
    id: uuidv7(),
    task_id: task.id,
    task_version: task.version + 1,
    status: 'ACTIVE',
    wish: JSON.stringify(wishOf(task)),
    reference_image_sha256: task.reference_image_sha256,
    created_at: work.now,
    created_by: createdBy,
    expires_at: expiresAt,
    closed_at: null,
  };
  await insertAuthorizationRow.run(work, authorization);
  facts.authorization = authorization;
}

function wishOf(task: TaskRow): Wish {
  const { title, keywords, product_url, shop_name, spec, quantity } = task;
  const { max_unit_price_cents, max_total_cents, buyer_note, confirmation_required } = task;
  return {
    title,
    keywords,
    product_url,
    shop_name,
    spec,
    quantity,
    max_unit_price_cents,
    max_total_cents,
    buyer_note,
    confirmation_required,
  };
}

/** The wish that an authorization froze: what the phone reads and the fence checks. */
export function frozenWish(authorization: AuthorizationRow): Wish {
  return JSON.parse(authorization.wish) as Wish;
}

const fenceAuthorizationRow = statement<{ id: string }>('fence_authorization', (knex) =>
  knex('authorizations')
    .where({ id: param('id'), status: 'ACTIVE' })
    .update({ status: 'FENCED' }),
);

export async function fenceAuthorization(work: Work, authorization: AuthorizationRow): Promise<void> {
  mustChangeOne('fenceAuthorization', await fenceAuthorizationRow.run(work, { id: authorization.id }));
  authorization.status = 'FENCED';
}

const insertClaimRow = statement<object>('insert_claim', (knex) =>
  knex('claims').insert(
    params([
      'id',
      'task_id',
      'generation',
      'authorization_id',
      'user_id',
      'device_id',
      'token_hash',
      'claimed_at',
      'lease_expires_at',
    ]),
  ),
);
const insertAttemptRow = statement<object>('insert_attempt', (knex) =>
  knex('attempts').insert(
    params([
      'id',
      'task_id',
      'claim_id',
      'generation',
      'authorization_id',
      'user_id',
      'device_id',
      'status',
      'created_at',
    ]),
  ),
);

/** Opens the next claim on a task together with its attempt. */
export async function insertClaim(
  work: Work,
  facts: TaskFacts,
  pair: { user_id: string; device_id: string },
  tokenHash: string,
  leaseExpiresAt: Instant,
): Promise<void> {
  const authorization = facts.authorization as AuthorizationRow;
  const shared = {
    task_id: facts.task.id,
    generation: facts.task.claim_generation + 1,
    authorization_id: authorization.id,
    user_id: pair.user_id,
    device_id: pair.device_id,
  };
  const claim: ClaimRow = {
    ...shared,
    id: uuidv7(),
    token_hash: tokenHash,
    claimed_at: work.now,
    lease_expires_at: leaseExpiresAt,
    closed_at: null,
    closed_status: null,
    closed_version: null,
  };
  const attempt: AttemptRow = {
    ...shared,
    id: uuidv7(),
    claim_id: claim.id,
    status: 'CLAIMED',
    execution_id: null,
    created_at: work.now,
    started_at: null,
    ended_at: null,
    step: null,
    last_seen_at: null,
    cancel_requested_at: null,
    cancel_requested_by: null,
    failure_code: null,
    failure_message: null,
    stop_reported_at: null,
    stop_reason: null,
  };
  await insertClaimRow.run(work, claim);
  await insertAttemptRow.run(work, attempt);
  facts.claim = claim;
  facts.attempt = attempt;
  facts.confirmation = undefined;
}

const renewLeaseRow = statement<{ id: string; lease_expires_at: Instant; now: Instant }>(
  'renew_lease',
  (knex) =>
    knex('claims')
      .where('id', param('id'))
      .whereNull('closed_at')
      .where('lease_expires_at', '>', param('now'))
      .update({ lease_expires_at: param('lease_expires_at') }),
);
const closeClaimRow = statement<object>('close_claim', (knex) =>
  knex('claims')
    .where('id', param('id'))
    .whereNull('closed_at')
    .update(params(['closed_at', 'closed_status', 'closed_version'])),
);

export async function renewLease(work: Work, claim: ClaimRow, leaseExpiresAt: Instant): Promise<void> {
  const changed = await renewLeaseRow.run(work, {
    id: claim.id,
    lease_expires_at: leaseExpiresAt,
    now: work.now,
  });
  mustChangeOne('renewLease', changed);
  claim.lease_expires_at = leaseExpiresAt;
}

/** Closes a claim for good; it remembers how the task stood then. */
export async function closeClaim(
  work: Work,
  claim: ClaimRow,
  standing: { status: TaskStatus; version: number },
): Promise<void> {
  const closed = { closed_at: work.now, closed_status: standing.status, closed_version: standing.version };
  mustChangeOne('closeClaim', await closeClaimRow.run(work, { ...closed, id: claim.id }));
  Object.assign(claim, closed);
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

/** A conditional write after a lock that changes another number of rows than one is a bug, never a client's fault. */
export function mustChangeOne(what: string, changed: number): void {
  if (changed !== 1) throw new Error(`${what} changed ${changed} rows instead of one`);
}
