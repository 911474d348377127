import { randomUUID } from 'node:crypto';
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import type { Logger } from 'pino';
import { confirmActor } from '../access/confirm-actor';
import { authenticateSession, csrfTokenOf, readSessionToken } from '../access/sessions';
import type { Instant } from '../clock';
import type { AdminActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import { mustStillBeThere } from '../http/request-body';
import type { Services } from '../http/services';
import type { Work } from '../store/database';
import { listTasks } from '../store/reports';
import type { Tone } from './markup';
import { readLanguage, readTheme } from './preferences';
import { type PageContext, type PageFrame, renderPage } from './render';
import { returnToOf } from './return-to';
import { type Speaker, speaker, type WordKey } from './words/words';

/** The zone in which pages show times: the purchasing team's. */
export const PAGE_ZONE = 'Asia/Shanghai';

/** Tasks counted for the bar; more are shown as "99+". */
const COUNTED = 100;

/** What the page handlers share; built once. */
export interface Desk {
  services: Services;
  log: Logger;
}

/** A request that somebody, signed in or not, makes of a page. */
export interface Visit {
  request: Request;
  response: Response;
  words: Speaker;
  now: Instant;
  context: PageContext;
}

/** A visit of a signed-in admin. */
export interface AdminVisit extends Visit {
  actor: AdminActor;
  csrf: string;
}

export interface Note {
  tone: Tone;
  text: string;
}

interface Caller {
  actor: AdminActor;
  user: { id: string; username: string; display_name: string | null };
  csrf: string;
}

/** What travels with one request through the middlewares. */
interface PageLocals {
  requestId: string;
  caller?: Caller;
}

export function localsOf(response: Response): PageLocals {
  return response.locals as PageLocals;
}

/** Names the request in the log and the answer, and logs it once it is answered. */
export function nameRequest({ log }: Desk): RequestHandler {
  return (request, response, next) => {
    const requestId = randomUUID();
    localsOf(response).requestId = requestId;
    response.setHeader('X-Request-Id', requestId);
    response.setHeader('Cache-Control', 'no-store');
    response.on('finish', () => {
      log.info({
        request_id: requestId,
        method: request.method,
        page: request.path,
        status: response.statusCode,
      });
    });
    next();
  };
}

/** Lets only a live admin session through; whatever else a request carries opens nothing. */
export function requireSession({ services }: Desk): RequestHandler {
  return async (request, response, next) => {
    localsOf(response).caller = await findCaller(services, request);
    mustStillBeThere(request);
    next();
  };
}

/** @throws Refusal UNAUTHENTICATED, TOKEN_EXPIRED, TOKEN_REVOKED */
async function findCaller({ database }: Services, request: Request): Promise<Caller> {
  const sessionToken = readSessionToken(request.headers.cookie);
  if (sessionToken === undefined) throw new Refusal('UNAUTHENTICATED');
  const { actor, user } = await authenticateSession(database.read, sessionToken, await database.now());
  return { actor, user, csrf: csrfTokenOf(sessionToken) };
}

/** Whether the request comes with a live session. */
export async function isSignedIn({ services }: Desk, request: Request): Promise<boolean> {
  try {
    await findCaller(services, request);
    return true;
  } catch (error) {
    if (error instanceof Refusal) return false;
    throw error;
  }
}

/** The CSRF token of the session that a request was let through with. */
export function csrfOf(_request: Request, response: Response): string {
  const { caller } = localsOf(response);
  if (!caller) throw new Refusal('UNAUTHENTICATED');
  return caller.csrf;
}

/** A visit of anyone: for signing in and for problems. */
export async function visitOf(desk: Desk, request: Request, response: Response): Promise<Visit> {
  const now = await desk.services.database.now();
  const language = readLanguage(request);
  const { caller } = localsOf(response);
  return {
    request,
    response,
    now,
    words: speaker(language),
    context: {
      language,
      theme: readTheme(request),
      zone: PAGE_ZONE,
      now: new Date(now),
      here:
        request.method === 'GET' && request.originalUrl.startsWith('/admin/')
          ? returnToOf(request.originalUrl)
          : '',
      ...(caller && {
        account: {
          user_id: caller.user.id,
          username: caller.user.username,
          display_name: caller.user.display_name ?? undefined,
          csrf: caller.csrf,
          attention_count: await countAttention(desk.services, now),
        },
      }),
    },
  };
}

async function countAttention({ database }: Services, now: Instant): Promise<number> {
  const { items } = await listTasks(database.read, { attention: 'ANY', limit: COUNTED }, now);
  return items.length;
}

/** Wraps a page handler: it gets the visit of the admin whom `requireSession` let through. */
export function admin(desk: Desk, handle: (visit: AdminVisit) => Promise<void>): RequestHandler {
  return async (request: Request, response: Response, _next: NextFunction) => {
    const { caller } = localsOf(response);
    if (!caller) throw new Refusal('UNAUTHENTICATED');
    const visit = await visitOf(desk, request, response);
    await handle({ ...visit, actor: caller.actor, csrf: caller.csrf });
  };
}

/** One verb in one transaction, after its caller was read again in it. */
export function transact<T>(
  { services }: Desk,
  { actor }: AdminVisit,
  verb: (work: Work, actor: AdminActor) => Promise<T>,
): Promise<T> {
  return services.database.write(async (work) => {
    await confirmActor(work, actor);
    return verb(work, actor);
  });
}

/** Answers with a page. */
export function show(visit: Visit, view: string, frame: PageFrame, data: object, status = 200): void {
  visit.response
    .status(status)
    .type('html')
    .send(renderPage(view, visit.context, frame, data));
}

/** Post/Redirect/Get: the browser fetches the next page, so that a reload repeats nothing. */
export function seeOther(response: Response, path: string): void {
  response.redirect(303, path);
}

/** The note that a redirect brought along as `?done=`; anything that is not one of `notes` says nothing. */
export function noteOf(visit: Visit, notes: Readonly<Record<string, WordKey>>): Note | undefined {
  const { done } = visit.request.query;
  if (typeof done !== 'string' || !Object.hasOwn(notes, done)) return undefined;
  return { tone: 'good', text: visit.words.say(notes[done] as WordKey) };
}

/** A single query parameter as text without control characters; empty and repeated ones count as absent. */
export function queryText(request: Request, name: string, max = 200): string | undefined {
  const value = request.query[name];
  if (typeof value !== 'string') return undefined;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out
  const text = value.replace(/[\u0000-\u001f\u007f-\u009f]/g, ' ').trim();
  return text === '' ? undefined : [...text].slice(0, max).join('');
}

/** Links to the next and the first page of a list, with its other parameters kept. */
export function pagerOf(visit: Visit, path: string, page: { items: unknown[]; next_cursor?: string }) {
  const link = (cursor: string | undefined) => {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(visit.request.query)) {
      if (typeof value === 'string' && value !== '' && !['cursor', 'done'].includes(name))
        query.set(name, value);
    }
    if (cursor !== undefined) query.set('cursor', cursor);
    return query.size > 0 ? `${path}?${query}` : path;
  };
  return {
    count: page.items.length,
    next: page.next_cursor === undefined ? undefined : link(page.next_cursor),
    first: queryText(visit.request, 'cursor', 2_000) === undefined ? undefined : link(undefined),
  };
}
