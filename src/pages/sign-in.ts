import { type Request, type Response, Router } from 'express';
import { loginAdmin } from '../access/login-admin';
import { logoutAdmin } from '../access/logout-admin';
import { readSessionToken } from '../access/sessions';
import { Refusal } from '../contract/errors';
import { headersOf } from '../http/problems';
import { sessionCookie } from '../http/session-cookie';
import {
  checkFormToken,
  checkOrigin,
  emptyForm,
  type FormView,
  parseActionForm,
  readForm,
  viewForm,
} from './forms';
import { readReturnTo } from './return-to';
import {
  admin,
  csrfOf,
  type Desk,
  isSignedIn,
  type Note,
  queryText,
  requireSession,
  seeOther,
  show,
  transact,
  type Visit,
  visitOf,
} from './visit';

const rules = {
  username: { kind: 'text', label: 'sign_in.username', required: true, max: 64 },
  password: { kind: 'password', label: 'sign_in.password', required: true, min: 1, max: 1_000 },
  return_to: { kind: 'hidden', pattern: /^.{0,2000}$/ },
} as const;

/** Signing in and out. */
export function signInPages(desk: Desk): Router {
  const router = Router();

  router.get('/admin/login', async (request, response) => {
    const returnTo = readReturnTo(queryText(request, 'return_to', 2_001));
    if (await isSignedIn(desk, request)) return seeOther(response, returnTo);
    const visit = await visitOf(desk, request, response);
    showSignIn(visit, emptyForm, returnTo, noteFor(visit));
  });

  router.post('/admin/login', parseActionForm, async (request, response) => {
    checkOrigin(request);
    const { fields, values, faults } = readForm(rules, request.body);
    const returnTo = readReturnTo(values.return_to);
    const visit = await visitOf(desk, request, response);
    if (!fields) return showSignIn(visit, viewForm(values, faults, visit.words), returnTo, undefined, 400);
    try {
      await signIn(desk, request, response, fields);
    } catch (error) {
      return refuseSignIn(visit, error, values, returnTo);
    }
    seeOther(response, returnTo);
  });

  router.post(
    '/admin/logout',
    requireSession(desk),
    parseActionForm,
    admin(desk, async (visit) => {
      checkFormToken(visit.request, csrfOf(visit.request, visit.response));
      readForm({}, visit.request.body);
      await transact(desk, visit, logoutAdmin);
      visit.response.append('Set-Cookie', sessionCookie(visit.request, '', 0));
      seeOther(visit.response, '/admin/login?note=signed_out');
    }),
  );
  return router;
}

async function signIn(
  { services }: Desk,
  request: Request,
  response: Response,
  { username, password }: { username: string; password: string },
): Promise<void> {
  const previousSessionToken = readSessionToken(request.headers.cookie);
  const address = request.ip ?? '';
  const input = { username, password, address, previousSessionToken };
  const { session_token } = await loginAdmin(services.database, input, services);
  response.append('Set-Cookie', sessionCookie(request, session_token, services.session_ttl_seconds));
}

function refuseSignIn(visit: Visit, error: unknown, values: Record<string, string>, returnTo: string): void {
  const { words, response } = visit;
  if (error instanceof Refusal && error.code === 'INVALID_CREDENTIALS') {
    response.set('WWW-Authenticate', 'Form realm="cmbuyer"');
    const form = viewForm(values, [{ field: 'username', key: 'fault.credentials' }], words);
    showSignIn(visit, form, returnTo, undefined, 401);
  } else if (error instanceof Refusal && error.code === 'RATE_LIMITED') {
    const headers = headersOf(error);
    response.set(headers);
    const wait = words.say('problem.retry_after', { seconds: headers['Retry-After'] ?? '' });
    const text = `${words.say('problem.text.429')}${words.language === 'en' ? ' ' : ''}${wait}`;
    showSignIn(visit, { values, faults: [] }, returnTo, { tone: 'danger', text }, 429);
  } else {
    throw error;
  }
}

function noteFor({ request, words }: Visit): Note | undefined {
  const note = queryText(request, 'note');
  if (note === 'signed_out') return { tone: 'good', text: words.say('sign_in.signed_out') };
  if (note === 'ended') return { tone: 'info', text: words.say('sign_in.expired') };
  return undefined;
}

function showSignIn(visit: Visit, form: FormView, returnTo: string, note?: Note, status = 200): void {
  visit.context.here ||= '/admin/login';
  show(
    visit,
    'sign-in',
    { title: visit.words.say('sign_in.title'), section: 'none' },
    { form, returnTo, note },
    status,
  );
}
