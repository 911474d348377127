import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { endSessions, endTokens, newSecret } from '../../src/store/credentials';
import { allFacts } from '../../src/testing/all-facts';
import { mediaTypeOf, operationOf, sampleRequest } from '../../src/testing/contract-samples';
import { signInAdmin, signInDevice } from '../../src/testing/people-and-devices';
import {
  adminWith,
  multipart,
  type OperationEntry,
  operationEntries,
  phoneWith,
  targetOf,
  useTestApp,
  type WireHeaders,
  wireOf,
} from '../../src/testing/start-test-app';

const app = useTestApp();

/** Operations that anyone may call; a new one is a decision to be written down here. */
const PUBLIC = ['loginDevice', 'loginAdmin', 'getHealth', 'getReadiness', 'getOpenapiYaml', 'getOpenapiJson'];

const needsDevice = (entry: OperationEntry) =>
  operationOf(entry).security.some((scheme) => 'deviceToken' in scheme);
const needsSession = (entry: OperationEntry) =>
  operationOf(entry).security.some((scheme) => 'adminSession' in scheme);
const needsCsrf = (entry: OperationEntry) =>
  operationOf(entry).security.some((scheme) => 'adminCsrf' in scheme);

interface Credential {
  name: string;
  headers: () => WireHeaders;
  code: string;
}

let deviceCredentials: Credential[];
let sessionCredentials: Credential[];
let csrfCredentials: Credential[];

beforeAll(async () => {
  const { database, clock, admin, phone, addAdmin, addPhone } = app();
  const expiredToken = (await signInDevice(database, phone.user, phone.device_id, 60)).raw;
  const expiredSession = (await signInAdmin(database, admin.user, 60)).raw;
  clock.advance(60_000);

  const loggedOut = await signInDevice(database, phone.user, phone.device_id);
  await database.write((work) => endTokens(work, { id: loggedOut.actor.token_id }, 'LOGGED_OUT'));
  const revoked = await addPhone('revoked');
  await app().call('revokeDevice', { as: admin, path: { device_id: revoked.device_id }, body: {} });
  const disabled = await addPhone('disabled');
  await app().call('updateUser', {
    as: admin,
    path: { user_id: disabled.user.id },
    body: { status: 'DISABLED' },
  });
  const reassigned = await addPhone('reassigned');
  await app().call('updateDevice', {
    as: admin,
    path: { device_id: reassigned.device_id },
    body: { label: 'Another', user_id: phone.user.id },
  });

  const loggedOutSession = await signInAdmin(database, admin.user);
  await database.write((work) => endSessions(work, { id: loggedOutSession.actor.session_id }, 'LOGGED_OUT'));
  const disabledAdmin = await addAdmin('disabled.admin');
  await app().call('updateUser', {
    as: admin,
    path: { user_id: disabledAdmin.user.id },
    body: { status: 'DISABLED' },
  });
  const other = await addAdmin('other.admin');
  const second = adminWith(admin.user, (await signInAdmin(database, admin.user)).raw);

  const bearer = (value: string): WireHeaders => [['Authorization', value]];
  deviceCredentials = [
    { name: 'no credential', headers: () => [], code: 'UNAUTHENTICATED' },
    { name: 'a garbage bearer', headers: () => bearer('Bearer garbage'), code: 'UNAUTHENTICATED' },
    { name: 'an unknown token', headers: () => bearer(`Bearer ${newSecret()}`), code: 'UNAUTHENTICATED' },
    { name: 'another scheme', headers: () => bearer(`Basic ${phone.token}`), code: 'UNAUTHENTICATED' },
    {
      name: 'two tokens in one header',
      headers: () => bearer(`Bearer ${phone.token}, Bearer ${phone.token}`),
      code: 'UNAUTHENTICATED',
    },
    { name: 'an empty header', headers: () => bearer(''), code: 'UNAUTHENTICATED' },
    { name: 'an expired token', headers: () => bearer(`Bearer ${expiredToken}`), code: 'TOKEN_EXPIRED' },
    { name: 'a logged-out token', headers: () => bearer(`Bearer ${loggedOut.raw}`), code: 'TOKEN_REVOKED' },
    { name: "a revoked device's token", headers: () => revoked.headers, code: 'TOKEN_REVOKED' },
    { name: "a disabled user's token", headers: () => disabled.headers, code: 'TOKEN_REVOKED' },
    { name: "the former buyer's token", headers: () => reassigned.headers, code: 'TOKEN_REVOKED' },
    { name: 'an admin session', headers: () => admin.headers, code: 'UNAUTHENTICATED' },
    {
      name: 'a session token as bearer',
      headers: () => phoneWith(phone.user, '', admin.session).headers,
      code: 'UNAUTHENTICATED',
    },
  ];
  sessionCredentials = [
    { name: 'no credential', headers: () => [], code: 'UNAUTHENTICATED' },
    {
      name: 'a garbage cookie',
      headers: () => [['Cookie', 'cmbuyer_session=%zz; x=%E0%A4%A']],
      code: 'UNAUTHENTICATED',
    },
    {
      name: 'an unknown session',
      headers: () => adminWith(admin.user, newSecret()).headers,
      code: 'UNAUTHENTICATED',
    },
    {
      name: 'two sessions in one cookie header',
      headers: () => [
        ['Cookie', `cmbuyer_session=${admin.session}; cmbuyer_session=${other.session}`],
        ['X-CSRF-Token', admin.csrf],
      ],
      code: 'UNAUTHENTICATED',
    },
    {
      name: 'an expired session',
      headers: () => adminWith(admin.user, expiredSession).headers,
      code: 'TOKEN_EXPIRED',
    },
    {
      name: 'a logged-out session',
      headers: () => adminWith(admin.user, loggedOutSession.raw).headers,
      code: 'TOKEN_REVOKED',
    },
    { name: "a disabled admin's session", headers: () => disabledAdmin.headers, code: 'TOKEN_REVOKED' },
    { name: 'a device bearer', headers: () => phone.headers, code: 'UNAUTHENTICATED' },
    {
      name: 'a device token as session',
      headers: () => adminWith(admin.user, phone.token).headers,
      code: 'UNAUTHENTICATED',
    },
    {
      name: 'a session as bearer',
      headers: () => bearer(`Bearer ${admin.session}`),
      code: 'UNAUTHENTICATED',
    },
  ];
  const session = (): WireHeaders => [['Cookie', `cmbuyer_session=${admin.session}`]];
  const csrf = (value: string): WireHeaders => [...session(), ['X-CSRF-Token', value]];
  csrfCredentials = [
    { name: 'no CSRF token', headers: session, code: 'CSRF_FAILED' },
    { name: 'an empty CSRF token', headers: () => csrf(''), code: 'CSRF_FAILED' },
    { name: "another admin's CSRF token", headers: () => csrf(other.csrf), code: 'CSRF_FAILED' },
    { name: "the CSRF token of one's other session", headers: () => csrf(second.csrf), code: 'CSRF_FAILED' },
    { name: 'the session token as CSRF token', headers: () => csrf(admin.session), code: 'CSRF_FAILED' },
    {
      name: 'the CSRF token twice in one header',
      headers: () => csrf(`${admin.csrf}, ${admin.csrf}`),
      code: 'CSRF_FAILED',
    },
  ];
});

it('lets strangers call only what is meant for them', () => {
  const open = operationEntries
    .filter((entry) => operationOf(entry).security.length === 0)
    .map(({ id }) => id);
  expect(open).toEqual(PUBLIC);
});

it('asks for the CSRF token on every unsafe admin operation, and for a credential of its own side everywhere', () => {
  for (const entry of operationEntries.filter(({ id }) => !PUBLIC.includes(id))) {
    const [tag] = operationOf(entry).tags;
    expect([entry.id, tag === 'device' ? needsDevice(entry) : needsSession(entry)]).toEqual([entry.id, true]);
    expect([entry.id, needsCsrf(entry)]).toEqual([entry.id, tag === 'admin' && entry.method !== 'get']);
  }
});

describe.each(operationEntries.filter(({ id }) => !PUBLIC.includes(id)))('$id', (entry) => {
  it('refuses every credential that is not good, whatever the body, and writes nothing', async () => {
    const { database, send, imagesDir } = app();
    const before = await allFacts(database);
    const credentials = needsDevice(entry)
      ? deviceCredentials
      : [...sessionCredentials, ...(needsCsrf(entry) ? csrfCredentials : [])];

    for (const { name, headers, code } of credentials) {
      const answers = [];
      for (const wire of bodiesOf(entry)) {
        const target = targetOf(entry.path, sampleRequest(entry));
        const answer = await send(entry.method.toUpperCase(), target, {
          headers: [...headers(), ...wire.headers],
          body: wire.body,
        });
        const { request_id, ...problem } = answer.json;
        expect([name, problem.code]).toEqual([name, code]);
        expect(answer.status).toBe(code === 'CSRF_FAILED' ? 403 : 401);
        expect(answer.headers['www-authenticate']).toBe(
          answer.status === 401 ? 'Bearer realm="cmbuyer"' : undefined,
        );
        expect(answer.headers['x-request-id']).toBe(request_id);
        expect(Object.keys(problem).sort()).toEqual([
          'code',
          'detail',
          'instance',
          'status',
          'title',
          'type',
        ]);
        answers.push(JSON.stringify(problem));
      }
      // The good and the bad body get the very same answer: its shape is not disclosed.
      expect(new Set(answers).size).toBe(1);
      expect(await allFacts(database)).toBe(before);
    }
    expect(readdirSync(imagesDir)).toEqual([]);
  });
});

const closedWithBody = operationEntries.filter(
  (entry) => !PUBLIC.includes(entry.id) && mediaTypeOf(operationOf(entry)) !== undefined,
);

it.each(closedWithBody)('$id refuses a stranger without waiting for the body', async (entry) => {
  const target = targetOf(entry.path, sampleRequest(entry));
  const type = mediaTypeOf(operationOf(entry));
  const head = `${entry.method.toUpperCase()} ${target} HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}; boundary=x\r\nContent-Length: 100000\r\n\r\n`;
  expect(await firstLineFor(app().port, head)).toBe('HTTP/1.1 401 Unauthorized');
});

/** A right body, a wrong one, one of another type and one that is no body at all. */
function bodiesOf(entry: OperationEntry): { headers: WireHeaders; body?: Buffer | string }[] {
  const good = wireOf(sampleRequest(entry));
  const mediaType = mediaTypeOf(operationOf(entry));
  if (mediaType === undefined) return [good, { headers: [], body: 'surprise' }];
  const named = good.headers.filter(([name]) => name !== 'Content-Type');
  const form = multipart([{ name: 'other', filename: '../../x', type: 'text/html', content: '<script>' }]);
  const bad =
    mediaType === 'application/json'
      ? { headers: [['Content-Type', mediaType]] as WireHeaders, body: '{"surprise":1,}' }
      : { headers: [['Content-Type', form.type]] as WireHeaders, body: form.body };
  return [
    good,
    { headers: [...named, ...bad.headers], body: bad.body },
    { headers: [['Content-Type', 'text/plain']], body: 'x' },
    { headers: [] },
  ];
}

function firstLineFor(port: number, head: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(head));
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk;
      if (!text.includes('\r\n')) return;
      resolve(text.split('\r\n', 1)[0] as string);
      socket.destroy();
    });
    socket.on('error', reject);
  });
}
