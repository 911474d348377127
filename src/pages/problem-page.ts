import type { ErrorRequestHandler, Request, Response } from 'express';
import { Refusal } from '../contract/errors';
import { headersOf, logFailure, refusalOf } from '../http/problems';
import type { Tone } from './markup';
import { home, returnToOf } from './return-to';
import { type Desk, localsOf, seeOther, show, visitOf } from './visit';
import type { WordKey } from './words/words';

const statusTones: Record<number, Tone> = { 404: 'neutral', 405: 'neutral', 500: 'danger', 503: 'warning' };

/** The one place where a failure becomes a page. Whoever is not signed in is sent to sign in first. */
export function problemPages(desk: Desk): ErrorRequestHandler {
  return async (thrown, request, response, next) => {
    const error = toRefusal(thrown);
    const { requestId } = localsOf(response);
    logFailure(desk.log, error, requestId);
    if (response.headersSent) return next(thrown);
    if (!request.complete) response.set('Connection', 'close');
    if (error.status === 401 && isRead(request)) return seeOther(response, signInFor(request, error));
    await showProblem(desk, request, response, error);
  };
}

/** The body of a request that cannot be read, a path that cannot be decoded: the parsers' own errors carry a status. */
function toRefusal(thrown: unknown): Refusal {
  const status = (thrown as { status?: unknown } | undefined)?.status;
  if (!(thrown instanceof Refusal) && status === 400) return new Refusal('NOT_FOUND');
  return refusalOf(thrown);
}

function isRead(request: Request): boolean {
  return request.method === 'GET' || request.method === 'HEAD';
}

function signInFor(request: Request, { code }: Refusal): string {
  const query = new URLSearchParams();
  if (request.originalUrl.startsWith('/admin/')) query.set('return_to', returnToOf(request.originalUrl));
  if (code !== 'UNAUTHENTICATED') query.set('note', 'ended');
  return query.size > 0 ? `/admin/login?${query}` : '/admin/login';
}

async function showProblem(desk: Desk, request: Request, response: Response, error: Refusal): Promise<void> {
  const visit = await visitOf(desk, request, response);
  const { say, knows } = visit.words;
  // A form sent without a live session is refused like one with a foreign token: nothing is done, sign in again.
  const status = error.status === 401 ? 403 : error.status;
  const text = `problem.${error.code}`;
  const general = `problem.text.${status}`;
  const title = `problem.title.${status}`;
  const headers = headersOf(error);
  const retryAfter = headers['Retry-After'];
  if (retryAfter !== undefined) response.set('Retry-After', retryAfter);
  visit.context.here ||= home;
  show(
    visit,
    'problem',
    { title: say(knows(title) ? (title as WordKey) : 'problem.title.500'), section: 'none' },
    {
      width: 'page-narrow',
      tone: statusTones[status] ?? 'warning',
      text: say((knows(text) ? text : knows(general) ? general : 'problem.text.400') as WordKey),
      code: error.code,
      requestId: localsOf(response).requestId,
      report: status >= 500,
      retryAfter,
      back:
        error.status === 401
          ? { href: '/admin/login', text: say('sign_in.submit') }
          : { href: home, text: say('problem.home') },
    },
    status,
  );
}
