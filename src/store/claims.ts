import { v7 as uuidv7 } from 'uuid';
import type { Instant } from '../clock';
import type { TaskStatus } from '../contract/moves';
import type { Source, Work } from './database';
import type { AttemptRow, AuthorizationRow, ClaimRow, TaskFacts } from './facts';
import { mustChangeOne, param, params, statement } from './statements';

const selectLatestClaim = statement<{ task_id: string }, ClaimRow>('select_latest_claim', (knex) =>
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

export function findLatestClaim(source: Source, taskId: string): Promise<ClaimRow | undefined> {
  return selectLatestClaim.first(source, { task_id: taskId });
}

export function findClaim(source: Source, id: string): Promise<ClaimRow | undefined> {
  return selectClaim.first(source, { id });
}

export function findClaimByToken(source: Source, tokenHash: string): Promise<ClaimRow | undefined> {
  return selectClaimByToken.first(source, { token_hash: tokenHash });
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
