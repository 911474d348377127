import type { Instant } from '../clock';
import { Refusal } from '../contract/errors';

/** What each value of a sort key must be. */
export type CursorShape = readonly ('instant' | 'uuid' | 'integer' | 'text')[];

export type CursorKey<S extends CursorShape> = {
  -readonly [K in keyof S]: S[K] extends 'integer' ? number : S[K] extends 'instant' ? Instant : string;
};

/** A page of a list, and where the next one begins. */
export interface Page<T> {
  items: T[];
  next_cursor?: string;
}

/** What every list is asked: `limit` is 1 to 100. */
export interface PageRequest {
  limit: number;
  cursor?: string;
}

/** The sort key of a page's last item as opaque text, good for this list (and sort) only. */
export function encodeCursor(key: readonly (string | number)[], list: string): string {
  return Buffer.from(JSON.stringify([list, ...key]), 'utf8').toString('base64url');
}

/**
 * Reads a cursor back; whatever `encodeCursor` cannot have written for this list and shape is refused.
 * @throws Refusal INVALID_CURSOR
 */
export function decodeCursor<const S extends CursorShape>(
  text: string,
  shape: S,
  list: string,
): CursorKey<S> {
  const written = parse(text);
  if (!Array.isArray(written) || written.length !== shape.length + 1) throw new Refusal('INVALID_CURSOR');
  const [writtenFor, ...key] = written;
  if (writtenFor !== list) throw new Refusal('INVALID_CURSOR');
  if (!shape.every((kind, index) => isOfKind(key[index], kind))) throw new Refusal('INVALID_CURSOR');
  return key as CursorKey<S>;
}

/** Cuts rows that were read with one more than `limit` into a page. */
export function pageOf<T>(
  rows: T[],
  limit: number,
  list: string,
  keyOf: (row: T) => readonly (string | number)[],
): Page<T> {
  if (rows.length <= limit) return { items: rows };
  const items = rows.slice(0, limit);
  return { items, next_cursor: encodeCursor(keyOf(items[limit - 1]!), list) };
}

function parse(text: string): unknown {
  const bytes = Buffer.from(text, 'base64url');
  if (bytes.toString('base64url') !== text) return undefined;
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    return undefined;
  }
}

const INSTANT = /^(19[7-9]\d|[2-9]\d{3})-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
/** PostgreSQL refuses NUL in text; no sort key holds any control character. */
const TEXT = /^[^\p{Cc}\p{Cs}]{1,200}$/u;

function isOfKind(value: unknown, kind: CursorShape[number]): boolean {
  if (kind === 'integer') return Number.isSafeInteger(value) && (value as number) >= 0;
  if (typeof value !== 'string') return false;
  if (kind === 'instant') return isInstant(value);
  return kind === 'uuid' ? UUID.test(value) : TEXT.test(value);
}

function isInstant(value: string): boolean {
  if (!INSTANT.test(value)) return false;
  const time = Date.parse(value);
  return !Number.isNaN(time) && new Date(time).toISOString() === value;
}
