import { createHash } from 'node:crypto';
import { Refusal } from '../contract/errors';
import type { Work } from '../store/database';
import { findRecord, type IdempotencyRow, insertReplay, type Principal } from '../store/replays';

/** A request that may be sent again under its key. */
export interface KeyedRequest {
  idempotency_key: string;
}

/** Fields that do not make a request another one, or must not be kept in any form. */
const NOT_HASHED = new Set(['idempotency_key', 'wait_seconds', 'password']);

/** SHA-256 (hex) of a request in canonical form: sorted keys, absent fields left out. */
export function hashRequest(request: object): string {
  return createHash('sha256').update(canonical(request)).digest('hex');
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value !== null && typeof value === 'object') {
    const members = Object.entries(value)
      .filter(([key, member]) => member !== undefined && !NOT_HASHED.has(key))
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, member]) => `${JSON.stringify(key)}:${canonical(member)}`);
    return `{${members.join(',')}}`;
  }
  return JSON.stringify(value);
}

/**
 * The record of the same request under the same key, if it was answered before and is still known.
 * @throws Refusal IDEMPOTENCY_KEY_REUSED when the key was used for another request.
 */
export async function recall(
  work: Work,
  principal: Principal,
  operation: string,
  request: KeyedRequest,
  isStillKnown?: (record: IdempotencyRow) => Promise<boolean>,
): Promise<IdempotencyRow | undefined> {
  const record = await findRecord(work, principal, operation, request.idempotency_key);
  if (record && isStillKnown && !(await isStillKnown(record))) return undefined;
  if (record && record.request_hash !== hashRequest(request)) throw new Refusal('IDEMPOTENCY_KEY_REUSED');
  return record;
}

export function remember(
  work: Work,
  principal: Principal,
  operation: string,
  request: KeyedRequest,
  outcome: Pick<IdempotencyRow, 'outcome'> &
    Partial<Pick<IdempotencyRow, 'task_id' | 'claim_id' | 'resource_id' | 'token_hash'>>,
): Promise<void> {
  return insertReplay(work, principal, {
    ...outcome,
    operation,
    idempotency_key: request.idempotency_key,
    request_hash: hashRequest(request),
  });
}
