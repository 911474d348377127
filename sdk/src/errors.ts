import type { ErrorCode, Problem } from './gen/index.js';

/** A known code, or one that a later version of the contract added. */
export type ProblemCode = ErrorCode | (string & {});

/** The server refused or failed. Decide by `code`; `message` is for people. */
export class CmbuyerProblem extends Error {
  override readonly name = 'CmbuyerProblem';
  readonly status: number;
  readonly code: ProblemCode;
  /** The whole body; made up from the status where something other than cmbuyer answered. */
  readonly problem: Problem;
  /** From `Retry-After`, in seconds. */
  readonly retryAfterSeconds?: number;
  /** Name it when asking for help. */
  readonly requestId?: string;

  constructor(problem: Problem, response: Response) {
    super(`${response.status} ${problem.code}: ${problem.detail || problem.title}`);
    this.status = response.status;
    this.code = problem.code;
    this.problem = problem;
    this.retryAfterSeconds = readRetryAfter(response.headers, Date.now());
    this.requestId = response.headers.get('x-request-id') ?? (problem.request_id || undefined);
  }
}

/**
 * No usable answer came: the connection failed or was lost, or something other than cmbuyer answered. What
 * was asked may or may not have been done: ask again with the same keys.
 */
export class CmbuyerNetworkError extends Error {
  override readonly name = 'CmbuyerNetworkError';
}

/** Reads `Retry-After` (seconds or a date) as seconds from `now`, in ms since 1970. */
export function readRetryAfter(headers: Headers, now: number): number | undefined {
  const text = headers.get('retry-after')?.trim();
  if (!text) return undefined;
  if (/^\d+$/.test(text)) return Number(text);
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, Math.ceil((date - now) / 1000));
}

/** Makes the error for an answer that is not a success. */
export function toProblem(body: unknown, response: Response): CmbuyerProblem {
  if (isProblem(body)) return new CmbuyerProblem(body, response);
  const problem: Problem = {
    type: 'about:blank',
    title: response.statusText || `HTTP ${response.status}`,
    status: response.status,
    code: `HTTP_${response.status}`,
    detail: 'The answer did not come from cmbuyer.',
    instance: '',
    request_id: response.headers.get('x-request-id') ?? '',
  };
  return new CmbuyerProblem(problem, response);
}

function isProblem(body: unknown): body is Problem {
  return typeof body === 'object' && body !== null && 'code' in body && typeof body.code === 'string';
}
