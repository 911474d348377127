import { v7 as uuidv7 } from 'uuid';
import type { Instant } from '../clock';
import type { Source, Work } from './database';
import { type AuthorizationRow, type TaskFacts, type TaskRow, WISH_COLUMNS, type Wish } from './facts';
import { mustChangeOne, param, params, statement } from './statements';

const selectLatestAuthorization = statement<{ task_id: string }, AuthorizationRow>(
  'select_latest_authorization',
  (knex) =>
    knex('authorizations')
      .select('*')
      .where('task_id', param('task_id'))
      .orderBy('task_version', 'desc')
      .limit(1),
);

const selectAuthorization = statement<{ id: string }, AuthorizationRow>('select_authorization', (knex) =>
  knex('authorizations').select('*').where('id', param('id')),
);

export function findLatestAuthorization(
  source: Source,
  taskId: string,
): Promise<AuthorizationRow | undefined> {
  return selectLatestAuthorization.first(source, { task_id: taskId });
}

export function findAuthorization(source: Source, id: string): Promise<AuthorizationRow | undefined> {
  return selectAuthorization.first(source, { id });
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
  return Object.fromEntries(WISH_COLUMNS.map((column) => [column, task[column]])) as unknown as Wish;
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
