import { gzipSync } from 'node:zlib';
import { allFacts } from '../../src/testing/all-facts';
import {
  bodySchemaOf,
  entryOf,
  mediaTypeOf,
  operationOf,
  resolveSchema,
  sampleRequest,
  textPathsOf,
  withValue,
} from '../../src/testing/contract-samples';
import {
  type Answer,
  type OperationEntry,
  operationEntries,
  type TestApp,
  targetOf,
  useTestApp,
  type WireHeaders,
  wireOf,
} from '../../src/testing/start-test-app';
import { claim, expectStatus, makeDraft, makePending, newKey, sendHeartbeat, WISH } from './scenario';

const app = useTestApp();

/** Looks like a claim token; must be seen nowhere once it was sent in a body. */
const SECRET = 'SECRETsecretSECRETsecretSECRETsecretSECRET0';

const bodyOperations = operationEntries.filter((entry) => mediaTypeOf(operationOf(entry)) !== undefined);
const jsonOperations = bodyOperations.filter(
  (entry) => mediaTypeOf(operationOf(entry)) === 'application/json',
);

function credentialsOf(entry: OperationEntry): TestApp['admin'] | TestApp['phone'] | undefined {
  if (operationOf(entry).security.length === 0) return undefined;
  return operationOf(entry).tags[0] === 'device' ? app().phone : app().admin;
}

/** Sends bytes as the body of a request that is right otherwise. */
function sendBytes(entry: OperationEntry, headers: WireHeaders, body?: Buffer | string): Promise<Answer> {
  const { path, query, key, claimToken } = sampleRequest(entry);
  const wire = wireOf({ as: credentialsOf(entry), key, claimToken });
  return app().send(entry.method.toUpperCase(), targetOf(entry.path, { path, query }), {
    headers: [...wire.headers, ...headers],
    body,
  });
}

/** What was stored after the last refusal of the same test. */
let stored: string | undefined;
beforeEach(() => {
  stored = undefined;
});

/** A refusal with this code that wrote nothing, and said and logged nothing of the body. */
async function expectRefused(send: () => Promise<Answer>, code: string): Promise<Answer> {
  const { database, log } = app();
  const before = stored ?? (await allFacts(database));
  const logged = log.text().length;
  const answer = await send();
  expect(answer.json?.code).toBe(code);
  expect(answer.headers['content-type']).toBe('application/problem+json');
  expect(answer.text).not.toContain(SECRET.slice(0, 12));
  expect(log.text().slice(logged)).not.toContain(SECRET.slice(0, 12));
  stored = await allFacts(database);
  expect(stored).toBe(before);
  return answer;
}

describe.each(bodyOperations)('$id', (entry) => {
  const taken = mediaTypeOf(operationOf(entry)) as string;
  const TYPES: [name: string, type: string | undefined][] = [
    ['no type', undefined],
    ['an empty type', ''],
    ['text/plain', 'text/plain'],
    ['a form', 'application/x-www-form-urlencoded'],
    ['multipart/form-data without a boundary', 'multipart/form-data'],
    ['multipart/mixed', 'multipart/mixed; boundary=x'],
    ['JSON of another kind', 'application/merge-patch+json'],
    ['a problem', 'application/problem+json'],
    ['JSON in GBK', 'application/json;charset=gbk'],
    ['JSON in UTF-16', 'application/json; charset=utf-16'],
    ['two types in one header', 'application/json, text/plain'],
    ['JSON with another parameter', 'application/json; charset=utf-8; x=y'],
    ['a JPEG', 'image/jpeg'],
    [
      'what the other operations take',
      taken === 'application/json' ? 'multipart/form-data; boundary=x' : 'application/json',
    ],
  ];

  it.each(TYPES)('refuses %s', async (_name, type) => {
    const body = JSON.stringify({ secret: SECRET });
    await expectRefused(
      () => sendBytes(entry, type === undefined ? [] : [['Content-Type', type]], body),
      'UNSUPPORTED_MEDIA_TYPE',
    );
  });

  it('refuses a type that is sent twice', async () => {
    const types: WireHeaders = [
      ['Content-Type', taken],
      ['Content-Type', taken],
    ];
    await expectRefused(() => sendBytes(entry, types, '{}'), 'INVALID_REQUEST');
  });
});

describe.each(jsonOperations)('$id', (entry) => {
  const json: WireHeaders = [['Content-Type', 'application/json']];

  it('takes no body that is not one JSON object in UTF-8', async () => {
    const broken: [name: string, body: string | Buffer | undefined][] = [
      ['nothing at all', undefined],
      ['nothing', ''],
      ['blanks', ' \n'],
      ['a trailing comma', `{"secret":"${SECRET}",}`],
      ['single quotes', `{'secret':'${SECRET}'}`],
      ['no quotes', `{secret:${SECRET}}`],
      ['an open brace', `{"secret":"${SECRET}"`],
      ['something after it', `{"secret":"${SECRET}"} ${SECRET}`],
      ['a raw newline in a text', `{"secret":"${SECRET}\n"}`],
      [
        'truncated UTF-8',
        Buffer.concat([Buffer.from(`{"secret":"${SECRET}`), Buffer.from([0xe4, 0xb8]), Buffer.from('"}')]),
      ],
      [
        'an overlong slash',
        Buffer.concat([Buffer.from(`{"secret":"${SECRET}`), Buffer.from([0xc0, 0xaf]), Buffer.from('"}')]),
      ],
      [
        'a raw surrogate',
        Buffer.concat([
          Buffer.from(`{"secret":"${SECRET}`),
          Buffer.from([0xed, 0xa0, 0x80]),
          Buffer.from('"}'),
        ]),
      ],
      ['UTF-16', Buffer.from(`\ufeff{"secret":"${SECRET}"}`, 'utf16le')],
      ['a comment', `{"secret":/*${SECRET}*/1}`],
      ['NaN', `{"secret":NaN,"x":"${SECRET}"}`],
    ];
    for (const [name, body] of broken) {
      const answer = await expectRefused(() => sendBytes(entry, json, body), 'MALFORMED_JSON');
      expect([name, answer.json.errors]).toEqual([name, undefined]);
    }
  });

  it('takes no other JSON value in its place, nor JSON inside a text', async () => {
    const good = JSON.stringify(sampleRequest(entry).body);
    const values = [
      'null',
      'true',
      'false',
      '0',
      '1',
      '""',
      `"${SECRET}"`,
      '[]',
      `["${SECRET}"]`,
      `[${good}]`,
      JSON.stringify(good),
      '"{}"',
      '"null"',
    ];
    for (const value of values) await expectRefused(() => sendBytes(entry, json, value), 'INVALID_REQUEST');
  });

  it('takes no compressed body', async () => {
    const good = JSON.stringify(sampleRequest(entry).body);
    for (const encoding of ['gzip', 'deflate', 'br', 'foo', 'identity, gzip']) {
      await expectRefused(
        () => sendBytes(entry, [...json, ['Content-Encoding', encoding]], gzipSync(good)),
        'UNSUPPORTED_MEDIA_TYPE',
      );
    }
  });

  it('measures bodies in bytes: 65,536 are read, 65,537 are not', async () => {
    const filled = (bytes: number) => `{"filler":"${'字'.repeat(1000)}${'x'.repeat(bytes - 13 - 3000)}"}`;
    expect(Buffer.byteLength(filled(65_536))).toBe(65_536);
    await expectRefused(() => sendBytes(entry, json, filled(65_536)), 'INVALID_REQUEST');
    await expectRefused(() => sendBytes(entry, json, filled(65_537)), 'PAYLOAD_TOO_LARGE');
  });

  it('is not shaken by depth or by names that mean something to JavaScript', async () => {
    const deep = [
      `{"filler":${'['.repeat(32_000)}${']'.repeat(32_000)}}`,
      `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`,
      `${'['.repeat(32_768)}${']'.repeat(32_768)}`,
    ];
    for (const body of deep) await expectRefused(() => sendBytes(entry, json, body), 'INVALID_REQUEST');

    const good = JSON.stringify(sampleRequest(entry).body);
    const members = [
      '"__proto__":{"admin":true}',
      '"__proto__":null',
      '"constructor":{"prototype":{}}',
      '"toString":1',
      '"hasOwnProperty":1',
    ];
    for (const member of members) {
      const body = good === '{}' ? `{${member}}` : `${good.slice(0, -1)},${member}}`;
      await expectRefused(() => sendBytes(entry, json, body), 'INVALID_REQUEST');
    }
    expect(({} as { admin?: boolean }).admin).toBeUndefined();
  });

  it('refuses NUL and lone surrogates in every text, and in every name', async () => {
    const good = sampleRequest(entry).body;
    const places = textPathsOf(bodySchemaOf(operationOf(entry))!);
    for (const place of places) {
      for (const broken of [
        'a\u0000b',
        '\u0000',
        'abc\ud800',
        '\udc00abcdefghijkl',
        '\udfff\ud800 swapped text',
      ]) {
        const body = JSON.stringify(withValue(good, place, broken));
        const answer = await expectRefused(() => sendBytes(entry, json, body), 'INVALID_REQUEST');
        expect(answer.json.errors.length).toBeGreaterThan(0);
      }
    }
    for (const name of ['a\\u0000', '\\ud800', `${'n'.repeat(600)}`]) {
      const body =
        good && JSON.stringify(good) !== '{}'
          ? `${JSON.stringify(good).slice(0, -1)},"${name}":1}`
          : `{"${name}":1}`;
      await expectRefused(() => sendBytes(entry, json, body), 'INVALID_REQUEST');
    }
    const deepName = `{"${'n'.repeat(600)}":{"${'m'.repeat(600)}":"\\u0000"}}`;
    await expectRefused(() => sendBytes(entry, json, deepName), 'INVALID_REQUEST');
  });

  it('takes only whole numbers within bounds for whole numbers, and only true or false for those', async () => {
    const schema = bodySchemaOf(operationOf(entry))!;
    const good = sampleRequest(entry).body as Record<string, unknown>;
    for (const [name, given] of Object.entries(schema.properties ?? {})) {
      const { type } = resolveSchema(given);
      const wrong =
        type === 'integer'
          ? [
              '9007199254740992',
              '1e300',
              '-1',
              '1.5',
              '"1"',
              'true',
              'null',
              '[1]',
              '-1e300',
              '1e-300',
              '9007199254740993',
            ]
          : type === 'boolean'
            ? ['"true"', '"false"', '0', '1', 'null', '""']
            : type === 'string'
              ? ['1', 'true', 'null', '[]', '{}', '["x"]']
              : [];
      for (const value of wrong) {
        const body = JSON.stringify({ ...good, [name]: '@' }).replace('"@"', value);
        await expectRefused(() => sendBytes(entry, json, body), 'INVALID_REQUEST');
      }
    }
  });

  it('refuses what it does not know, and lacks', async () => {
    const schema = bodySchemaOf(operationOf(entry))!;
    const good = sampleRequest(entry).body as Record<string, unknown>;
    await expectRefused(
      () => sendBytes(entry, json, JSON.stringify({ ...good, surprise: 1 })),
      'INVALID_REQUEST',
    );
    for (const name of schema.required ?? []) {
      const { [name]: _left, ...rest } = good;
      const answer = await expectRefused(
        () => sendBytes(entry, json, JSON.stringify(rest)),
        'INVALID_REQUEST',
      );
      expect(answer.json.errors[0].path).toBe(`/body/${name}`);
    }
  });
});

describe('a body that is right', () => {
  it.each([
    'application/json',
    'application/json; charset=utf-8',
    'application/json;charset="UTF-8"',
    'APPLICATION/JSON',
  ])('may be sent as %s', async (type) => {
    const headers: WireHeaders = [
      ...app().admin.headers,
      ['Idempotency-Key', newKey()],
      ['Content-Type', type],
    ];
    expectStatus(
      await app().send('POST', '/api/v1/admin/tasks', { headers, body: JSON.stringify(WISH) }),
      201,
    );
  });

  it('may begin with a byte order mark', async () => {
    const headers: WireHeaders = [
      ...app().admin.headers,
      ['Idempotency-Key', newKey()],
      ['Content-Type', 'application/json'],
    ];
    const body = `\ufeff${JSON.stringify(WISH)}`;
    expectStatus(await app().send('POST', '/api/v1/admin/tasks', { headers, body }), 201);
  });

  it('keeps every other character exactly', async () => {
    const texts = [
      'noncharacter \ufffe and \uffff',
      'right-to-left \u202eoverride\u202c',
      'family 👨‍👩‍👧‍👦 and flag 🇨🇳',
      `combining e${'\u0301'.repeat(100)}`,
      '\ufeffinner and outer mark\ufeff',
      'é and e\u0301 stay apart',
      '\u2028 and \u2029',
      '</script><script>alert(1)</script> {{7*7}} <%= 7*7 %>',
      '𠮷'.repeat(200),
      "'; drop table tasks; --",
    ];
    for (const title of texts) {
      const draft = await makeDraft(app(), { title, buyer_note: 'line one\nline two\ttab' });
      const read = await app().call('getTask', { as: app().admin, path: { task_id: draft.id } });
      expect([read.json.title, read.json.buyer_note]).toEqual([title, 'line one\nline two\ttab']);
    }
    const versions = { app_version: '1.0 🥛', android_version: '\u202e14', pinduoduo_version: '</td>' };
    expectStatus(await sendHeartbeat(app(), app().phone, versions), 200);
    const device = await app().call('getDevice', {
      as: app().admin,
      path: { device_id: app().phone.device_id },
    });
    expect(device.json).toMatchObject(versions);
  });

  it('counts characters as people do, not as UTF-16 does', async () => {
    await makeDraft(app(), { title: '𠮷'.repeat(200) });
    const headers: WireHeaders = [
      ...app().admin.headers,
      ['Idempotency-Key', newKey()],
      ['Content-Type', 'application/json'],
    ];
    const body = JSON.stringify({ ...WISH, title: '𠮷'.repeat(201) });
    await expectRefused(
      () => app().send('POST', '/api/v1/admin/tasks', { headers, body }),
      'INVALID_REQUEST',
    );
  });

  it('refuses control characters, but newline and tab in notes', async () => {
    for (const changes of [
      { title: 'a\nb' },
      { title: 'a\u0085b' },
      { buyer_note: 'a\rb' },
      { buyer_note: '\u001b[31m' },
      { title: 'a\u007f' },
    ]) {
      const headers: WireHeaders = [
        ...app().admin.headers,
        ['Idempotency-Key', newKey()],
        ['Content-Type', 'application/json'],
      ];
      const body = JSON.stringify({ ...WISH, ...changes });
      await expectRefused(
        () => app().send('POST', '/api/v1/admin/tasks', { headers, body }),
        'INVALID_REQUEST',
      );
    }
  });

  it('may write a whole number in any way that JSON knows', async () => {
    const held = await makePending(app()).then(() => claim(app(), app().phone));
    expect(held.claim_generation).toBe(1);
    for (const [quantity, meant] of [
      ['1.0', 1],
      ['1e0', 1],
      ['20e-1', 2],
    ] as const) {
      const headers: WireHeaders = [
        ...app().admin.headers,
        ['Idempotency-Key', newKey()],
        ['Content-Type', 'application/json'],
      ];
      const body = JSON.stringify({ ...WISH, quantity: '@' }).replace('"@"', quantity);
      const answer = expectStatus(await app().send('POST', '/api/v1/admin/tasks', { headers, body }), 201);
      expect(answer.quantity).toBe(meant);
    }
  });

  it('takes -0 for a wait of 0', async () => {
    const entry = entryOf('claimNextTask');
    const phone = await app().addPhone('minus.zero');
    expectStatus(await sendHeartbeat(app(), phone), 200);
    const { headers } = wireOf({ as: phone, key: newKey(), claimToken: SECRET });
    const body = `{"device_id":"${phone.device_id}","wait_seconds":-0}`;
    const answer = await app().send('POST', entry.path, {
      headers: [...headers, ['Content-Type', 'application/json']],
      body,
    });
    expect(answer.status).toBe(204);
  });
});
