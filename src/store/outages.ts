import { Refusal } from '../contract/errors';

/** How long a write waits for another's lock or a lost server before it is refused: longer than a checkpoint or a backup step. */
export const BUSY_WAIT_MS = 5_000;

/** Another transaction is in the way: SQLite's lock, PostgreSQL's serialization failure, deadlock or lock timeout. */
const BUSY = /^(SQLITE_(BUSY|LOCKED)|40001$|40P01$|55P03$)/;
/** The engine is full, broken, restarting or unreachable. */
const OUT_OF_REACH =
  /^(SQLITE_(FULL|IOERR|CANTOPEN|READONLY)|08|57P0|57014|25P0[34]|53|ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENOTFOUND)/;
/** What the PostgreSQL driver and the pool say without a code. */
const LOST_CONNECTION =
  /Connection terminated|connection error and is not queryable|^timeout expired$|Timeout acquiring a connection|Query read timeout|Connection ended unexpectedly/;

function codeOf(error: unknown): string {
  return String((error as { code?: unknown } | undefined)?.code ?? '');
}

export function isBusy(error: unknown): boolean {
  return BUSY.test(codeOf(error));
}

/** Whether the same may succeed a moment later: the fault is the engine's, not the statement's. */
export function isTransient(error: unknown): boolean {
  if (isBusy(error) || OUT_OF_REACH.test(codeOf(error))) return true;
  return codeOf(error) === '' && error instanceof Error && LOST_CONNECTION.test(error.message);
}

export function unavailable(cause?: unknown): Refusal {
  return new Refusal('SERVICE_UNAVAILABLE', { retryAfterSeconds: 1, cause });
}
