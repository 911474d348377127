import type { Instant } from '../clock';
import type { Work } from './database';
import { param, params, statement } from './statements';

/** Who a key belongs to; an admin has no device. */
export interface Principal {
  user_id: string;
  device_id?: string;
}

export interface IdempotencyRow {
  user_id: string;
  device_id: string;
  operation: string;
  idempotency_key: string;
  request_hash: string;
  outcome: 'TASK' | 'NO_TASK' | 'CREATED';
  task_id: string | null;
  claim_id: string | null;
  resource_id: string | null;
  token_hash: string | null;
  created_at: Instant;
}

interface RecordKey {
  user_id: string;
  device_id: string;
  operation: string;
  idempotency_key: string;
}

const selectRecord = statement<RecordKey, IdempotencyRow>('select_idempotency_record', (knex) =>
  knex('idempotency_records')
    .select('*')
    .where({
      user_id: param('user_id'),
      device_id: param('device_id'),
      operation: param('operation'),
      idempotency_key: param('idempotency_key'),
    }),
);
const insertRecord = statement<object>('insert_idempotency_record', (knex) =>
  knex('idempotency_records').insert(
    params([
      'user_id',
      'device_id',
      'operation',
      'idempotency_key',
      'request_hash',
      'outcome',
      'task_id',
      'claim_id',
      'resource_id',
      'token_hash',
      'created_at',
    ]),
  ),
);
const selectNoTaskToken = statement<{ token_hash: string; after: Instant }, { created_at: Instant }>(
  'select_no_task_token',
  (knex) =>
    knex('idempotency_records')
      .select('created_at')
      .where('outcome', 'NO_TASK')
      .where('token_hash', param('token_hash'))
      .where('created_at', '>', param('after'))
      .limit(1),
);

export function findRecord(
  work: Work,
  principal: Principal,
  operation: string,
  key: string,
): Promise<IdempotencyRow | undefined> {
  return selectRecord.first(work, { ...ownerOf(principal), operation, idempotency_key: key });
}

export async function insertReplay(
  work: Work,
  principal: Principal,
  record: Pick<IdempotencyRow, 'operation' | 'idempotency_key' | 'request_hash' | 'outcome'> &
    Partial<Pick<IdempotencyRow, 'task_id' | 'claim_id' | 'resource_id' | 'token_hash'>>,
): Promise<void> {
  await insertRecord.run(work, { ...record, ...ownerOf(principal), created_at: work.now });
}

/** Whether a claim that found no task since an instant has already used this token. */
export async function isNoTaskToken(work: Work, tokenHash: string, after: Instant): Promise<boolean> {
  return (await selectNoTaskToken.first(work, { token_hash: tokenHash, after })) !== undefined;
}

function ownerOf({ user_id, device_id }: Principal): { user_id: string; device_id: string } {
  return { user_id, device_id: device_id ?? '' };
}

const selectSurplus = statement<{ device_id: string }, RecordKey>('select_surplus_no_task_records', (knex) =>
  knex('idempotency_records')
    .select('user_id', 'device_id', 'operation', 'idempotency_key')
    .where('outcome', 'NO_TASK')
    .where('device_id', param('device_id'))
    .orderBy('created_at', 'desc')
    .offset(NO_TASK_RECORDS_KEPT)
    .limit(PRUNE_BATCH),
);
const selectOutdated = statement<{ device_id: string; before: Instant }, RecordKey>(
  'select_outdated_no_task_records',
  (knex) =>
    knex('idempotency_records')
      .select('user_id', 'device_id', 'operation', 'idempotency_key')
      .where('outcome', 'NO_TASK')
      .where('device_id', param('device_id'))
      .where('created_at', '<=', param('before'))
      .limit(PRUNE_BATCH),
);
const deleteNoTask = statement<RecordKey>('delete_no_task_record', (knex) =>
  knex('idempotency_records')
    .where({
      user_id: param('user_id'),
      device_id: param('device_id'),
      operation: param('operation'),
      idempotency_key: param('idempotency_key'),
      outcome: 'NO_TASK',
    })
    .delete(),
);

/** Newest "no task" answers remembered for a device: more than two hours of polling every 30 s. */
const NO_TASK_RECORDS_KEPT = 256;
/** Records removed inside one claim: more than it adds, few enough not to be felt. */
const PRUNE_BATCH = 8;

/** Removes a few "no task" records of the device that are too old or too many. */
export async function pruneNoTaskRecords(work: Work, deviceId: string, before: Instant): Promise<void> {
  const outdated = await selectOutdated.all(work, { device_id: deviceId, before });
  const surplus = await selectSurplus.all(work, { device_id: deviceId });
  for (const record of [...outdated, ...surplus]) await deleteNoTask.run(work, record);
}

export async function forgetNoTask(work: Work, record: IdempotencyRow): Promise<void> {
  await deleteNoTask.run(work, record);
}
