import type { Request, Response } from 'express';
import type { Logger } from 'pino';
import { errorCatalogue, problemType, Refusal } from '../contract/errors';
import type { Problem } from '../contract/generated/types.gen';
import { isTransient, unavailable } from '../store/outages';

/** What the contract allows for `instance`. */
const INSTANCE_LIMIT = 2048;

/** The one place where a failure becomes `application/problem+json`. */
export function problemOf(error: unknown, request: Request, requestId: string): Problem {
  const { code, extra } = refusalOf(error);
  const { status, title, detail } = errorCatalogue[code];
  const { current, readiness_reasons, active_task_id, errors } = extra;
  return {
    type: problemType(code),
    title,
    status,
    code,
    detail,
    instance: request.path.slice(0, INSTANCE_LIMIT),
    request_id: requestId,
    ...(errors && { errors: errors.slice(0, 50) }),
    ...(current && { current }),
    ...(readiness_reasons && { readiness_reasons }),
    ...(active_task_id !== undefined && { active_task_id }),
  };
}

export function headersOf(error: unknown, allow?: string[]): Record<string, string> {
  const { code, extra, status } = refusalOf(error);
  return {
    ...(status === 401 && { 'WWW-Authenticate': 'Bearer realm="cmbuyer"' }),
    ...((status === 429 || status === 503) && {
      'Retry-After': String(Math.max(1, extra.retryAfterSeconds ?? 1)),
    }),
    ...(code === 'METHOD_NOT_ALLOWED' && allow && { Allow: allow.join(', ') }),
  };
}

/** What is not a refusal is a bug or a broken machine: the answer says so and no more. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof URIError) return new Refusal('NOT_FOUND');
  // A write comes with its refusal; a read comes as the driver threw it.
  if (isTransient(error)) return unavailable(error);
  return new Refusal('INTERNAL_ERROR', { cause: error });
}

export function sendProblem(
  response: Response,
  problem: Problem,
  headers: Record<string, string>,
  isHead: boolean,
): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const body = Buffer.from(JSON.stringify(problem));
  response.statusCode = problem.status;
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  response.setHeader('Content-Type', 'application/problem+json');
  response.setHeader('Cache-Control', 'no-store');
  response.setHeader('Content-Length', body.length);
  response.end(isHead ? undefined : body);
}

/** Logs what an answer may not say: the cause of a 500 or 503. */
export function logFailure(log: Logger, error: unknown, requestId: string): void {
  const refusal = refusalOf(error);
  if (refusal.status < 500) return;
  const cause = refusal.cause as { message?: string; code?: string; stack?: string } | undefined;
  log.error(
    { request_id: requestId, code: refusal.code, cause: cause?.code, stack: cause?.stack },
    'request failed',
  );
}
