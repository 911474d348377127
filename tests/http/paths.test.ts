import { allFacts } from '../../src/testing/all-facts';
import { operationOf, parametersOf, resolveSchema, sampleRequest } from '../../src/testing/contract-samples';
import {
  type Answer,
  contract,
  type OperationEntry,
  type OperationRequest,
  operationEntries,
  targetOf,
  useTestApp,
  type WireHeaders,
} from '../../src/testing/start-test-app';
import { claim, type Held, makeDraft, putPicture, startPurchase } from './scenario';

const app = useTestApp();

function headersFor(entry: OperationEntry): WireHeaders {
  if (operationOf(entry).security.length === 0) return [];
  return operationOf(entry).tags[0] === 'device' ? app().phone.headers : app().admin.headers;
}

function expectProblem(answer: Answer, ...codes: string[]): void {
  expect(codes).toContain(answer.json?.code);
  expect(answer.headers['content-type']).toBe('application/problem+json');
  expect(answer.status).toBe(answer.json.status);
  expect(answer.text).not.toMatch(/node_modules|at .*\.(ts|js):\d/);
}

const HOSTILE = [
  '%',
  '%zz',
  '%E0%A4%A',
  '%C0%AF',
  '%ED%A0%80',
  '%00',
  '%0a',
  '%2e%2e',
  'a%2Fb',
  'a%5Cb',
  '..;x=1',
  '%25',
  'x'.repeat(8 * 1024),
  '%e4%bd%a0%e5%a5%bd',
  '018f3a5c-7e10-7a00-8000-000000000001%20',
  '018F3A5C-7E10-7A00-8000-000000000001',
  '018f3a5c-7e10-7a00-8000-000000000001;v=1',
  '018f3a5c-7e10-4a00-8000-000000000001',
  '__proto__',
  '{task_id}',
];

const templated = operationEntries.filter(({ path }) => path.includes('{'));

it.each(templated)('$id: a segment that is no id is refused, signed in or not', async (entry) => {
  const { database, send } = app();
  const before = await allFacts(database);
  for (const segment of HOSTILE) {
    const target = entry.path.replace(/\{[^}]+\}/, segment);
    const method = entry.method.toUpperCase();
    const { query, body } = sampleRequest(entry);
    const withQuery = `${target}${targetOf('', { query })}`;
    const known = await send(method, withQuery, {
      headers: [...headersFor(entry), ['Content-Type', 'application/json'], ['Idempotency-Key', 'k']],
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    expectProblem(known, 'INVALID_REQUEST', 'NOT_FOUND', 'UNSUPPORTED_MEDIA_TYPE', 'METHOD_NOT_ALLOWED');
    expectProblem(await send(method, target), 'UNAUTHENTICATED', 'NOT_FOUND', 'METHOD_NOT_ALLOWED');
  }
  expect(await allFacts(database)).toBe(before);
});

it('a path has one spelling; every other one is unknown, signed in or not', async () => {
  const spellings = [
    '/api/v1/admin/me/',
    '//api/v1/admin/me',
    '/api//v1/admin/me',
    '/API/v1/admin/me',
    '/api/v1/admin/ME',
    '/./api/v1/admin/me',
    '/api/v1/admin/./me',
    '/api/v1/x/../admin/me',
    '/api/v1/admin/%2e/me',
    '/api/v1/admin/me;x=1',
    '/api/v1/admin;x=1/me',
    '/api/v1/admin/%6de',
    '/api/v1/admin/me%20',
    '/api/v1/admin/me%00',
    '/api/v1/admin/me/%',
    '/api/v1/admin',
    '/api/v1',
    '/api',
    '/healthz/',
    '/openapi.YAML',
    '/openapiXyaml',
  ];
  for (const target of spellings) {
    for (const headers of [app().admin.headers, []]) {
      const answer = await app().send('GET', target, { headers });
      expect([target, answer.json?.code]).toEqual([target, 'NOT_FOUND']);
      expectProblem(answer, 'NOT_FOUND');
    }
  }
  expect((await app().send('GET', '/api/v1/admin/me?', { headers: app().admin.headers })).status).toBe(200);
});

describe.each(Object.keys(contract.document.paths))('%s', (path) => {
  const declared = Object.keys(contract.document.paths[path]!).map((method) => method.toUpperCase());
  const entry = operationEntries.find((one) => one.path === path) as OperationEntry;
  const target = targetOf(path, sampleRequest(entry)).split('?')[0] as string;

  it('answers every other method with what it allows, and does nothing', async () => {
    const { database, send } = app();
    const before = await allFacts(database);
    const allowed = [...declared, ...(declared.includes('GET') ? ['HEAD'] : [])].sort();
    for (const method of [
      'GET',
      'HEAD',
      'POST',
      'PUT',
      'DELETE',
      'PATCH',
      'OPTIONS',
      'TRACE',
      'PROPFIND',
    ].filter((one) => !allowed.includes(one))) {
      for (const headers of [headersFor(entry), []]) {
        const answer = await send(method, target, { headers });
        expect([method, answer.status]).toEqual([method, 405]);
        expect(String(answer.headers.allow).split(', ').sort()).toEqual(allowed);
        if (method === 'HEAD') expect(answer.bytes.length).toBe(0);
        else expectProblem(answer, 'METHOD_NOT_ALLOWED');
      }
    }
    expect(await allFacts(database)).toBe(before);
  });
});

describe('HEAD', () => {
  let held: Held;

  beforeAll(async () => {
    await startPurchase(app(), await putPicture(app(), await makeDraft(app())));
    held = await claim(app(), app().phone);
  });

  it.each(operationEntries.filter(({ method }) => method === 'get'))(
    'on $id has the headers of GET, no body and no effect',
    async (entry) => {
      const { database, call, send, phone } = app();
      const sample = sampleRequest(entry);
      const request: OperationRequest = {
        ...sample,
        path: { task_id: held.task_id, device_id: phone.device_id },
        ...(sample.claimToken && { claimToken: held.claimToken }),
        as: { headers: headersFor(entry) },
      };
      const before = await allFacts(database);
      const get = await call(entry.id, request);
      expect(get.status).toBe(200);
      const claimToken: WireHeaders = sample.claimToken ? [['X-Claim-Token', held.claimToken]] : [];
      const head = await send('HEAD', targetOf(entry.path, request), {
        headers: [...headersFor(entry), ...claimToken],
      });
      expect([head.status, head.bytes.length]).toEqual([200, 0]);
      const { 'x-request-id': _a, date: _b, ...ofGet } = get.headers;
      const { 'x-request-id': _c, date: _d, ...ofHead } = head.headers;
      expect(ofHead).toEqual(ofGet);
      expect(Number(head.headers['content-length'])).toBe(get.bytes.length);
      expect(await allFacts(database)).toBe(before);

      const refused = await send('HEAD', targetOf(entry.path, { ...request, query: { surprise: '1' } }), {
        headers: [...headersFor(entry), ...claimToken],
      });
      expect([refused.status, refused.bytes.length]).toEqual([400, 0]);
    },
  );
});

describe.each(operationEntries)('the query of $id', (entry) => {
  const parameters = parametersOf(operationOf(entry)).filter(({ in: place }) => place === 'query');
  it('knows only its own parameters, and each scalar once', async () => {
    const sample = sampleRequest(entry);
    const required = targetOf('', { query: sample.query }).slice(1);
    const ask = (query: string) =>
      sendQuery(entry, [required, query].filter((part) => part !== '').join('&'));
    const unknown = [
      'surprise=1',
      'surprise',
      '__proto__=1',
      'constructor=1',
      'toString=1',
      'a[b]=1',
      '%zz=1',
      '%00=1',
      '=1',
      'Limit=1',
    ];
    for (const query of unknown) {
      const answer = await ask(query);
      expect([query, answer.json?.code]).toEqual([query, codeForQuery(entry)]);
    }
    for (const { name, schema, required: isRequired, example } of parameters) {
      const type = resolveSchema(schema).type;
      if (type === 'array') continue;
      const value = String(example ?? (type === 'integer' ? 1 : 'x'));
      const answer = await ask(isRequired ? `${name}=${value}` : `${name}=${value}&${name}=${value}`);
      expect([name, answer.json?.code]).toEqual([name, codeForQuery(entry)]);
    }
  });

  it('takes values of the right kind only, however they are encoded', async () => {
    for (const { name, schema } of parameters) {
      const { type, maximum } = resolveSchema(schema);
      const wrong =
        type === 'integer'
          ? [
              '',
              'abc',
              '0',
              '-1',
              '1.5',
              '1e300',
              '9007199254740992',
              'null',
              'true',
              '%00',
              ...(maximum === 100 ? ['101'] : []),
            ]
          : ['', '%00', 'a%0ab', '%ED%A0%80%00', 'x'.repeat(2100)];
      const others = targetOf('', {
        query: Object.fromEntries(
          Object.entries(sampleRequest(entry).query ?? {}).filter(([other]) => other !== name),
        ),
      }).slice(1);
      for (const value of wrong) {
        const query = [others, `${name}=${value}`].filter((part) => part !== '').join('&');
        const answer = await sendQuery(entry, query);
        expect([name, value.slice(0, 30), answer.json?.code]).toEqual([
          name,
          value.slice(0, 30),
          codeForQuery(entry),
        ]);
      }
    }
  });
});

/** An upload is refused for its missing body before its query is looked at. */
function codeForQuery(entry: OperationEntry): string {
  return entry.id === 'putReferenceImage' ? 'UNSUPPORTED_MEDIA_TYPE' : 'INVALID_REQUEST';
}

function sendQuery(entry: OperationEntry, query: string): Promise<Answer> {
  const { path, key, claimToken, body } = sampleRequest(entry);
  const headers: WireHeaders = [...headersFor(entry)];
  if (key !== undefined) headers.push(['Idempotency-Key', key]);
  if (claimToken !== undefined) headers.push(['X-Claim-Token', claimToken]);
  if (body !== undefined) headers.push(['Content-Type', 'application/json']);
  return app().send(entry.method.toUpperCase(), `${targetOf(entry.path, { path })}?${query}`, {
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
  });
}

it('a search text that cannot be decoded is searched for as it stands', async () => {
  for (const q of ['%', '%zz', '%E0%A4%A', '%C0%AF', '%ED%A0%80', '%25_', "'", '%F0%9F%A5%9B']) {
    const answer = await app().send('GET', `/api/v1/admin/tasks?q=${q}`, { headers: app().admin.headers });
    expect([q, answer.status]).toEqual([q, 200]);
  }
});
