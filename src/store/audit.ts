import { v7 as uuidv7 } from 'uuid';
import type { Instant } from '../clock';
import type { Actor } from '../contract/actor';
import { decodeCursor, type Page, type PageRequest, pageOf } from './cursor';
import type { Reader, Work } from './database';
import { params, statement } from './statements';

export type AuditAction =
  | 'login.succeeded'
  | 'login.limited'
  | 'user.created'
  | 'user.updated'
  | 'user.password_changed'
  | 'user.password_reset'
  | 'device.authorized'
  | 'device.updated'
  | 'device.revoked';

export interface AuditRow {
  seq: number;
  id: string;
  occurred_at: Instant;
  actor_type: Actor['type'];
  actor_user_id: string | null;
  actor_device_id: string | null;
  action: AuditAction;
  target_type: 'USER' | 'DEVICE' | 'TASK' | 'SESSION';
  target_id: string;
  /** JSON text; never holds a secret. */
  detail: string;
}

const insertAudit = statement<object>('insert_audit_event', (knex) =>
  knex('audit_events').insert(
    params([
      'id',
      'occurred_at',
      'actor_type',
      'actor_user_id',
      'actor_device_id',
      'action',
      'target_type',
      'target_id',
      'detail',
    ]),
  ),
);

/** Writes down who did what to whom, in the transaction in which it happens. */
export async function appendAudit(
  work: Work,
  actor: Actor,
  event: Pick<AuditRow, 'action' | 'target_type' | 'target_id'> & { detail: Record<string, unknown> },
): Promise<void> {
  await insertAudit.run(work, {
    ...event,
    id: uuidv7(),
    occurred_at: work.now,
    actor_type: actor.type,
    actor_user_id: actor.type === 'SYSTEM' ? null : actor.user_id,
    actor_device_id: actor.type === 'DEVICE' ? actor.device_id : null,
    detail: JSON.stringify(event.detail),
  });
}

/** What happened last comes first. */
export async function pageAuditEvents(reader: Reader, request: PageRequest): Promise<Page<AuditRow>> {
  const query = reader
    .knex('audit_events')
    .select('*')
    .orderBy('seq', 'desc')
    .limit(request.limit + 1);
  if (request.cursor !== undefined) {
    const [before] = decodeCursor(request.cursor, ['integer'], 'audit_events');
    query.where('seq', '<', before);
  }
  const rows: AuditRow[] = await query;
  return pageOf(rows, request.limit, 'audit_events', ({ seq }) => [seq]);
}
