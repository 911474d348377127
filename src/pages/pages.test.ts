import { readdirSync } from 'node:fs';
import path from 'node:path';
import sharp from 'sharp';
import { csrfTokenOf } from '../access/sessions';
import { allFacts } from '../testing/all-facts';
import { makeDevice, makeUser, signInAdmin, signInDevice } from '../testing/people-and-devices';
import {
  openPageServer,
  PASSWORD,
  type PageAnswer,
  type PageClient,
  type PageServer,
  type Part,
  textOf,
  valueIn,
} from './testing/page-client';

let server: PageServer;
let png: Buffer;

beforeAll(async () => {
  png = await sharp({ create: { width: 40, height: 30, channels: 3, background: '#369' } })
    .png()
    .toBuffer();
});

/** One server for the tests of a group: starting one costs more than any test. */
function ownServer(): void {
  beforeAll(async () => {
    server = await openPageServer();
  });
  afterAll(() => server.close());
}

const wish = {
  title: '电热水壶 1.7L',
  quantity: '2',
  max_unit_price: '89.90',
  max_total: '179.80',
  keywords: '热水壶',
  product_url: 'https://example.com/kettle',
  shop_name: '',
  spec: '',
  buyer_note: '要白色。\r\n不要二手。',
  external_ref: '',
};

async function formParts(client: PageClient, fields: Record<string, string> = {}): Promise<Part[]> {
  const { html } = await client.get('/admin/tasks/new');
  const key = valueIn(html, 'idempotency_key');
  return Object.entries({ _csrf: valueIn(html, '_csrf'), idempotency_key: key, ...wish, ...fields });
}

async function createDraft(client: PageClient, fields: Record<string, string> = {}): Promise<string> {
  const answer = await client.postParts('/admin/tasks', await formParts(client, fields));
  expect(answer.status).toBe(303);
  return (answer.location as string).replace(/\?.*$/, '');
}

function expectPage(answer: PageAnswer, status: number): void {
  expect(answer.status).toBe(status);
  expect(answer.headers.get('content-type')).toBe('text/html; charset=utf-8');
  expect(answer.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
  expect(answer.headers.get('cache-control')).toBe('no-store');
  const policy = answer.headers.get('content-security-policy') ?? '';
  expect(policy).toContain("default-src 'none'");
  expect(policy).not.toContain('unsafe');
  expect(answer.html).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=/i);
  expect(answer.html).not.toMatch(/\b(undefined|NaN|\[object Object\])\b/);
}

const picturesKept = () => readdirSync(path.join(server.dataDir, 'images'), { recursive: true }).length;

describe('signing in', () => {
  ownServer();

  test('leads back to the page that was asked for, with a session cookie that scripts cannot read', async () => {
    const client = server.visitor();
    const asked = await client.get('/admin/tasks?status=DRAFT');
    expect(asked.status).toBe(303);
    expect(asked.location).toBe('/admin/login?return_to=%2Fadmin%2Ftasks%3Fstatus%3DDRAFT');

    const form = await client.get(asked.location as string);
    expectPage(form, 200);
    const answer = await client.post('/admin/login', {
      username: 'boss',
      password: PASSWORD,
      return_to: valueIn(form.html.slice(form.html.indexOf('action="/admin/login"')), 'return_to'),
    });
    expect(answer.status).toBe(303);
    expect(answer.location).toBe('/admin/tasks?status=DRAFT');
    const cookie = answer.headers.get('set-cookie') ?? '';
    expect(cookie).toMatch(/^cmbuyer_session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=\d+$/);
    expectPage(await client.get(answer.location as string), 200);
  });

  test('answers a wrong password, an unknown name and a buyer alike, keeping the name', async () => {
    await makeUser(server.database, 'buyer', 'BUYER');
    const texts = new Set<string>();
    for (const [username, password] of [
      ['boss', 'not the password'],
      ['nobody', PASSWORD],
      ['buyer', PASSWORD],
    ] as const) {
      const answer = await server.visitor().post('/admin/login', { username, password });
      expectPage(answer, 401);
      expect(answer.headers.get('set-cookie')).toBeNull();
      expect(valueIn(answer.html, 'username')).toBe(username);
      expect(answer.html).not.toContain(password);
      texts.add(textOf(answer.html));
    }
    expect(texts.size).toBe(1);
  });

  test('refuses a place to return to that is not ours, INVALID_RETURN_TO', async () => {
    const before = await allFacts(server.database);
    for (const return_to of ['https://evil.example', '//evil.example', '/\\evil.example', '/admin/%2f%2fx']) {
      const posted = await server
        .visitor()
        .post('/admin/login', { username: 'boss', password: PASSWORD, return_to });
      expectPage(posted, 400);
      const got = await server.visitor().get(`/admin/login?return_to=${encodeURIComponent(return_to)}`);
      expectPage(got, 400);
      expect(textOf(got.html)).toContain('INVALID_RETURN_TO');
    }
    expect(await allFacts(server.database)).toBe(before);
  });

  test('from another site is refused', async () => {
    const fields = { username: 'boss', password: PASSWORD };
    const foreign = { origin: 'https://evil.example' };
    expectPage(await server.visitor().post('/admin/login', fields, foreign), 403);
    expectPage(await server.visitor().post('/admin/login', fields, { 'sec-fetch-site': 'cross-site' }), 403);
  });

  test('too many tries are answered 429 with the time to wait', async () => {
    let answer: PageAnswer | undefined;
    for (let tried = 0; tried < 11; tried++) {
      answer = await server.visitor().post('/admin/login', { username: 'boss', password: 'wrong' });
    }
    expectPage(answer as PageAnswer, 429);
    expect(Number(answer?.headers.get('retry-after'))).toBeGreaterThan(0);
  });

  test('out ends the session, and the old cookie opens nothing', async () => {
    const client = await server.signedIn();
    const old = client.cookies.get('cmbuyer_session') as string;
    const _csrf = await client.token();
    expectPage(await client.post('/admin/logout', {}), 403);
    const answer = await client.post('/admin/logout', { _csrf });
    expect([answer.status, answer.location]).toEqual([303, '/admin/login?note=signed_out']);
    expect(client.cookies.has('cmbuyer_session')).toBe(false);

    client.cookies.set('cmbuyer_session', old);
    expect((await client.get('/admin/tasks')).location).toContain('/admin/login');
    expectPage(await client.postParts('/admin/tasks', [['_csrf', _csrf], ...Object.entries(wish)]), 403);
  });

  test('a session that ran out says so', async () => {
    const client = await server.signedIn();
    server.clock.advance(43_200_000);
    const answer = await client.get('/admin/users');
    expect(answer.location).toBe('/admin/login?return_to=%2Fadmin%2Fusers&note=ended');
  });

  test('a device token opens no page', async () => {
    const buyer = await makeUser(server.database, 'phone.user', 'BUYER');
    const { actor } = await signInAdmin(server.database, server.admin);
    await makeDevice(server.database, actor, buyer, 'phone-0001');
    const { raw } = await signInDevice(server.database, buyer, 'phone-0001');
    const carried: Record<string, string>[] = [
      { authorization: `Bearer ${raw}` },
      { cookie: `cmbuyer_session=${raw}` },
    ];
    for (const headers of carried) {
      const answer = await server.visitor().get('/admin/tasks', headers);
      expect([answer.status, answer.location]).toEqual([303, '/admin/login?return_to=%2Fadmin%2Ftasks']);
    }
  });
});

describe('preferences', () => {
  ownServer();

  test('the language and the theme are remembered by cookies and lead back', async () => {
    const client = await server.signedIn();
    expect((await client.get('/admin/tasks')).html).toContain('<html lang="zh-CN" data-theme="auto">');
    const switched = await client.post('/admin/preferences', { language: 'en', return_to: '/admin/users' });
    expect([switched.status, switched.location]).toEqual([303, '/admin/users']);
    await client.post('/admin/preferences', { theme: 'dark', return_to: '/admin/users' });
    const { html } = await client.get('/admin/users');
    expect(html).toContain('<html lang="en" data-theme="dark">');
    expect(textOf(html)).toContain('Users');
  });

  test('an unknown choice or a foreign place to return to changes nothing', async () => {
    const client = server.visitor();
    expectPage(await client.post('/admin/preferences', { theme: 'dark', return_to: '//evil.example' }), 400);
    expect((await client.post('/admin/preferences', { theme: '"><script>' })).status).toBe(303);
    expect(client.cookies.size).toBe(0);
  });
});

describe('a new task', () => {
  ownServer();

  test('is created once, whatever is pressed twice, and shows what was typed', async () => {
    const client = await server.signedIn();
    const parts = await formParts(client, { external_ref: 'ONCE-1' });
    const first = await client.postParts('/admin/tasks', parts);
    expect(first.status).toBe(303);
    expect((await client.postParts('/admin/tasks', parts)).location).toBe(first.location);

    const detail = await client.get(first.location as string);
    expectPage(detail, 200);
    const text = textOf(detail.html);
    for (const shown of ['电热水壶 1.7L', '草稿', '¥89.90', '¥179.80', '要白色。 不要二手。', '草稿已保存']) {
      expect(text).toContain(shown);
    }
    const list = await client.get('/admin/tasks?q=ONCE-1');
    expectPage(list, 200);
    expect(list.html.split('class="row-link"').length - 1).toBe(1);
  });

  test('with a picture shows it from our own door, as a fresh JPEG', async () => {
    const client = await server.signedIn();
    const parts: Part[] = [
      ...(await formParts(client)),
      ['picture', { bytes: png, filename: '../../参考图.png' }],
    ];
    const { location } = await client.postParts('/admin/tasks', parts);
    const { html } = await client.get(location as string);
    const src = /<img src="([^"]+)"/.exec(html)?.[1] as string;
    const picture = await client.get(src);
    expect(picture.headers.get('content-type')).toBe('image/jpeg');
    expect(picture.headers.get('cache-control')).toBe('private, no-store');
    expect((await server.visitor().get(src)).status).toBe(303);
    expect(html).not.toContain('参考图.png');
  });

  test('with faults keeps everything typed, says each beside its field and links to it', async () => {
    const client = await server.signedIn();
    const before = await allFacts(server.database);
    const parts = await formParts(client, {
      title: '',
      quantity: '两',
      max_total: '1.999',
      product_url: 'javascript:x',
    });
    const answer = await client.postParts('/admin/tasks', parts);
    expectPage(answer, 400);
    for (const field of ['title', 'quantity', 'max_total', 'product_url']) {
      expect(answer.html).toContain(`<a href="#field-${field}">`);
      expect(answer.html).toMatch(new RegExp(`id="field-${field}"[^>]*aria-invalid="true"`));
      expect(answer.html).toContain(`id="field-${field}-fault"`);
    }
    expect(valueIn(answer.html, 'quantity')).toBe('两');
    expect(valueIn(answer.html, 'max_unit_price')).toBe('89.90');
    expect(answer.html).toContain('不要二手。');
    expect(valueIn(answer.html, 'idempotency_key')).toBe(
      String(parts.find(([name]) => name === 'idempotency_key')?.[1]),
    );
    expect(await allFacts(server.database)).toBe(before);
  });

  test('a taken external reference is told at its field', async () => {
    const client = await server.signedIn();
    await createDraft(client, { external_ref: 'PO-1' });
    const answer = await client.postParts('/admin/tasks', await formParts(client, { external_ref: 'PO-1' }));
    expectPage(answer, 409);
    expect(answer.html).toContain('<a href="#field-external_ref">');
  });

  test.each([
    ['an SVG called JPEG', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>'), 400],
    ['HTML', Buffer.from('<html><script>alert(1)</script>'), 400],
    ['a picture over 10 MB', Buffer.alloc(10 * 1024 * 1024 + 1, 7), 413],
  ])('%s is refused with the form kept and nothing stored', async (_name, bytes, status) => {
    const client = await server.signedIn();
    const before = await allFacts(server.database);
    const kept = picturesKept();
    const file = { bytes, filename: 'a.jpg', type: 'image/jpeg' };
    const answer = await client.postParts('/admin/tasks', [...(await formParts(client)), ['picture', file]]);
    expectPage(answer, status);
    expect(answer.html).toContain('<a href="#field-picture">');
    expect(valueIn(answer.html, 'max_total')).toBe('179.80');
    expect(await allFacts(server.database)).toBe(before);
    expect(picturesKept()).toBe(kept);
  });

  test('two pictures, or one in a wrong field, are refused with the form kept', async () => {
    const client = await server.signedIn();
    const kept = picturesKept();
    const file = { bytes: png, filename: 'a.png' };
    for (const more of [
      [
        ['picture', file],
        ['picture', file],
      ],
      [['photo', file]],
    ] as Part[][]) {
      const answer = await client.postParts('/admin/tasks', [...(await formParts(client)), ...more]);
      expectPage(answer, 400);
      expect(valueIn(answer.html, 'title')).toBe(wish.title);
    }
    expect(picturesKept()).toBe(kept);
  });

  test('unknown, repeated and oversized fields are refused', async () => {
    const client = await server.signedIn();
    const before = await allFacts(server.database);
    const parts = await formParts(client);
    expectPage(await client.postParts('/admin/tasks', [...parts, ['status', 'PENDING']]), 400);
    expectPage(await client.postParts('/admin/tasks', [...parts, ['title', 'again']]), 400);
    expectPage(await client.postParts('/admin/tasks', [...parts, ['title[x]', 'again']]), 400);
    const long = await formParts(client, { buyer_note: 'x'.repeat(65 * 1024) });
    expectPage(await client.postParts('/admin/tasks', long), 413);
    expect(await allFacts(server.database)).toBe(before);
  });

  describe('is refused 403 before the picture is looked at', () => {
    const decoded = jest.spyOn(sharp.prototype, 'toBuffer');

    test('while the right token lets it be looked at', async () => {
      const client = await server.signedIn();
      decoded.mockClear();
      const file: Part = ['picture', { bytes: png, filename: 'a.png' }];
      expect((await client.postParts('/admin/tasks', [...(await formParts(client)), file])).status).toBe(303);
      expect(decoded).toHaveBeenCalled();
    });

    const attempts: [string, (client: PageClient, good: Part[], file: Part) => Promise<PageAnswer>][] = [
      ['without a token', (client, good, file) => client.postParts('/admin/tasks', [...good.slice(1), file])],
      [
        'with a wrong token',
        (client, good, file) =>
          client.postParts('/admin/tasks', [['_csrf', 'A'.repeat(43)], ...good.slice(1), file]),
      ],
      [
        'with the token of another live session',
        async (client, good, file) => {
          const other = await signInAdmin(server.database, server.admin);
          return client.postParts('/admin/tasks', [
            ['_csrf', csrfTokenOf(other.raw)],
            ...good.slice(1),
            file,
          ]);
        },
      ],
      [
        'with the token behind the file',
        (client, good, file) => client.postParts('/admin/tasks', [...good.slice(1), file, good[0] as Part]),
      ],
      [
        'with the token in the query only',
        (client, good, file) =>
          client.postParts(`/admin/tasks?_csrf=${String(good[0]?.[1])}`, [...good.slice(1), file]),
      ],
      [
        'with the token twice',
        (client, good, file) => client.postParts('/admin/tasks', [good[0] as Part, ...good, file]),
      ],
      [
        'with a JSON body',
        (client, good) =>
          client.send('/admin/tasks', {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify(Object.fromEntries(good)),
          }),
      ],
      [
        'with a plain text body',
        (client) => client.send('/admin/tasks', { method: 'POST', body: 'title=x' }),
      ],
      [
        'from another origin',
        (client, good, file) =>
          client.postParts('/admin/tasks', [...good, file], { origin: 'https://evil.example' }),
      ],
      [
        'from another site',
        (client, good, file) =>
          client.postParts('/admin/tasks', [...good, file], { 'sec-fetch-site': 'cross-site' }),
      ],
      [
        'after signing out',
        async (client, good, file) => {
          const session = client.cookies.get('cmbuyer_session') as string;
          await client.post('/admin/logout', { _csrf: String(good[0]?.[1]) });
          client.cookies.set('cmbuyer_session', session);
          return client.postParts('/admin/tasks', [...good, file]);
        },
      ],
    ];

    test.each(attempts)('%s', async (_name, attempt) => {
      const client = await server.signedIn();
      const good = await formParts(client);
      const countTasks = async () => (await server.database.read.knex('tasks').select('id')).length;
      const [kept, tasks] = [picturesKept(), await countTasks()];
      decoded.mockClear();
      const answer = await attempt(client, good, ['picture', { bytes: png, filename: 'a.png' }]);
      expectPage(answer, 403);
      expect(await countTasks()).toBe(tasks);
      expect(decoded).not.toHaveBeenCalled();
      expect(picturesKept()).toBe(kept);
    });
  });
});

describe('a draft', () => {
  ownServer();

  test('is edited, its picture with it, in one step that a second press does not repeat', async () => {
    const client = await server.signedIn();
    const home = await createDraft(client);
    const form = await client.get(`${home}/edit`);
    expectPage(form, 200);
    expect(valueIn(form.html, 'max_unit_price')).toBe('89.90');
    const parts: Part[] = [
      ['_csrf', await client.token()],
      ['expected_task_version', valueIn(form.html, 'expected_task_version')],
      ...Object.entries({ ...wish, quantity: '3', max_total: '300' }),
      ['picture', { bytes: png, filename: 'a.png' }],
    ];
    const saved = await client.postParts(`${home}/edit`, parts);
    expect([saved.status, saved.location]).toEqual([303, `${home}?done=updated`]);
    expect((await client.postParts(`${home}/edit`, parts)).status).toBe(303);

    const detail = await client.get(home);
    expect(textOf(detail.html)).toContain('版本 3');
    expect(textOf(detail.html)).toContain('¥300.00');
    expect(detail.html).toContain(`${home}/reference-image?v=`);
  });

  test('loses its picture on request', async () => {
    const client = await server.signedIn();
    const _csrf = await client.token();
    const file: Part = ['picture', { bytes: png, filename: 'a.png' }];
    const bound: Part[] = [
      ['_csrf', _csrf],
      ['expected_task_version', '1'],
    ];
    const home = await createDraft(client);
    const put = await client.postParts(`${home}/reference-image`, [...bound, file]);
    expect([put.status, put.location]).toEqual([303, `${home}?done=PUT_REFERENCE_IMAGE`]);
    expect((await client.get(`${home}/reference-image`)).status).toBe(200);
    const taken = await client.post(`${home}/reference-image/delete`, { _csrf, expected_task_version: '2' });
    expect(taken.status).toBe(303);
    expectPage(await client.get(`${home}/reference-image`), 404);
  });

  test('that somebody else changed shows what changed and keeps what was typed on a fresh form', async () => {
    const client = await server.signedIn();
    const home = await createDraft(client);
    const _csrf = await client.token();
    const edit = (version: string, fields: Record<string, string>) =>
      client.postParts(
        `${home}/edit`,
        Object.entries({ _csrf, expected_task_version: version, ...wish, ...fields }),
      );
    expect((await edit('1', { quantity: '5' })).status).toBe(303);
    const before = await allFacts(server.database);

    const conflict = await edit('1', { quantity: '7', spec: '白色' });
    expectPage(conflict, 409);
    expect(await allFacts(server.database)).toBe(before);
    const text = textOf(conflict.html);
    expect(text).toContain('你看到的是版本 1，现在是版本 2');
    expect(text).toContain('修改草稿');
    expect(valueIn(conflict.html, 'quantity')).toBe('7');
    expect(valueIn(conflict.html, 'spec')).toBe('白色');
    expect(valueIn(conflict.html, 'expected_task_version')).toBe('2');

    expect((await edit('2', { quantity: '7', spec: '白色' })).status).toBe(303);
  });

  test('is started for purchase once; then nothing of it can be edited', async () => {
    const client = await server.signedIn();
    const home = await createDraft(client);
    const detail = await client.get(home);
    const actions = [...detail.html.matchAll(/data-action="(\w+)"/g)].map(([, action]) => action);
    expect(actions.sort()).toEqual(['PUT_REFERENCE_IMAGE', 'START_PURCHASE', 'UPDATE']);

    const press = {
      _csrf: await client.token(),
      expected_task_version: '1',
      authorization_ttl_seconds: '3600',
    };
    const started = await client.post(`${home}/start-purchase`, press);
    expect([started.status, started.location]).toEqual([303, `${home}?done=START_PURCHASE`]);
    expect((await client.post(`${home}/start-purchase`, press)).status).toBe(303);

    const after = await client.get(started.location as string);
    expectPage(after, 200);
    expect(after.html).not.toContain('data-action=');
    expect(textOf(after.html)).toContain('待领取');
    expect(textOf(after.html)).toContain('采购授权 1 小时后到期');
    expectPage(await client.get(`${home}/edit`), 409);

    const before = await allFacts(server.database);
    const late = await client.post(`${home}/reference-image/delete`, {
      _csrf: press._csrf,
      expected_task_version: '1',
    });
    expectPage(late, 409);
    expect(textOf(late.html)).toContain('开始采购');
    expect(await allFacts(server.database)).toBe(before);
  });

  test('a forged or oversized press is refused', async () => {
    const client = await server.signedIn();
    const home = await createDraft(client);
    const _csrf = await client.token();
    const before = await allFacts(server.database);
    const press = { _csrf, expected_task_version: '1' };
    expectPage(await client.post(`${home}/start-purchase`, { expected_task_version: '1' }), 403);
    expectPage(
      await client.post(`${home}/start-purchase?_csrf=${_csrf}`, { expected_task_version: '1' }),
      403,
    );
    expectPage(
      await client.post(`${home}/start-purchase`, { ...press, expected_task_version: ['1', '1'] }),
      400,
    );
    expectPage(await client.post(`${home}/start-purchase`, { ...press, pay: 'yes' }), 400);
    expectPage(await client.post(`${home}/start-purchase`, { ...press, x: 'y'.repeat(9_000) }), 413);
    expectPage(
      await client.post(`${home}/start-purchase`, { ...press, authorization_ttl_seconds: '1' }),
      400,
    );
    expect(await allFacts(server.database)).toBe(before);
  });

  test('shows hostile text as text', async () => {
    const client = await server.signedIn();
    const hostile = `"><svg onload=alert(1)>' onfocus='x' {{7*7}} <%= 7*7 %> </script ><script>`;
    const home = await createDraft(client, { title: hostile, buyer_note: hostile, keywords: hostile });
    for (const page of [
      home,
      `${home}/edit`,
      '/admin/tasks',
      `/admin/tasks?q=${encodeURIComponent(hostile)}`,
    ]) {
      const answer = await client.get(page);
      expect(answer.html).not.toContain('<svg onload');
      expect(answer.html).not.toContain('<script>');
      expect(answer.html).not.toContain("' onfocus");
      expect(textOf(answer.html)).toContain('{{7*7}} <%= 7*7 %>');
    }
  });
});

describe('the list of tasks', () => {
  ownServer();

  test('filters by state, words and day, and says when nothing matches', async () => {
    await createDraft(await server.signedIn(), { title: '白色水壶' });
    server.clock.advance(2 * 86_400_000);
    const client = await server.signedIn();
    await createDraft(client, { title: '复印纸', external_ref: 'PO-7' });
    const titles = async (query: string) => {
      const answer = await client.get(`/admin/tasks?${query}`);
      expectPage(answer, 200);
      return [...answer.html.matchAll(/class="row-link"[^>]*>([^<]*)</g)].map(([, title]) => title);
    };
    expect(await titles('')).toEqual(['复印纸', '白色水壶']);
    expect(await titles('sort=created_at')).toEqual(['白色水壶', '复印纸']);
    expect(await titles('q=PO-7')).toEqual(['复印纸']);
    expect(await titles('status=PENDING')).toEqual([]);
    expect(await titles('created_from=2026-03-02&created_to=2026-03-03')).toEqual(['白色水壶']);
    expect(await titles('attention=ANY')).toEqual([]);
    expect(textOf((await client.get('/admin/tasks?attention=ANY')).html)).toContain('没有需要处理的任务');
    expectPage(await client.get('/admin/tasks?created_from=2026-02-30'), 400);
    expectPage(await client.get('/admin/tasks?cursor=nonsense'), 400);
  });

  test('pages by cursor and keeps the filter', async () => {
    const client = await server.signedIn();
    for (let index = 0; index < 31; index++) await createDraft(client, { title: `分页 ${index}` });
    const first = await client.get('/admin/tasks?status=DRAFT&q=%E5%88%86%E9%A1%B5');
    const next = /href="([^"]+)" rel="next"/.exec(first.html)?.[1]?.replaceAll('&amp;', '&') as string;
    expect(next).toContain('status=DRAFT');
    const second = await client.get(next);
    expect(second.html.split('class="row-link"').length - 1).toBe(1);
    expect(second.html).toContain('href="/admin/tasks?status=DRAFT&amp;q=%E5%88%86%E9%A1%B5"');
  });
});

describe('devices and users', () => {
  ownServer();

  test('a buyer is created once, their phone authorised once, renamed and revoked', async () => {
    const client = await server.signedIn();
    const create = {
      _csrf: await client.token(),
      idempotency_key: valueIn((await client.get('/admin/users/new')).html, 'idempotency_key'),
      username: 'li.wei',
      display_name: '李伟',
      role: 'BUYER',
      password: 'four unrelated words',
    };
    for (let press = 0; press < 2; press++) {
      const created = await client.post('/admin/users', create);
      expect([created.status, created.location]).toEqual([303, '/admin/users?done=created']);
    }
    const users = await client.get('/admin/users');
    expectPage(users, 200);
    expect(users.html.split('li.wei').length - 1).toBe(1);

    const form = await client.get('/admin/devices/new');
    expectPage(form, 200);
    const user_id = /<option value="([0-9a-f-]{36})"/.exec(form.html)?.[1] as string;
    const authorize = {
      _csrf: create._csrf,
      idempotency_key: valueIn(form.html, 'idempotency_key'),
      device_id: 'phone-0001',
      label: '3 号机',
      user_id,
    };
    for (let press = 0; press < 2; press++) {
      expect((await client.post('/admin/devices', authorize)).location).toBe(
        '/admin/devices?done=authorized',
      );
    }
    const taken = await client.post('/admin/devices', { ...authorize, idempotency_key: 'another' });
    expectPage(taken, 409);
    expect(taken.html).toContain('<a href="#field-device_id">');

    const { _csrf } = create;
    const renamed = await client.post('/admin/devices/phone-0001', { _csrf, label: '4 号机', user_id });
    expect(renamed.location).toBe('/admin/devices/phone-0001?done=updated');
    const revoked = await client.post('/admin/devices/phone-0001/revoke', { _csrf, reason: '丢了' });
    expect(revoked.location).toBe('/admin/devices/phone-0001?done=revoked');
    const device = await client.get(revoked.location as string);
    expectPage(device, 200);
    expect(textOf(device.html)).toContain('丢了');
    expectPage(await client.get('/admin/devices'), 200);
  });

  test('a name that is taken, and the last admin, are told at their fields', async () => {
    const client = await server.signedIn();
    const _csrf = await client.token();
    const fields = { _csrf, idempotency_key: 'k', username: 'BOSS', display_name: '', role: 'ADMIN' };
    const taken = await client.post('/admin/users', { ...fields, password: 'four unrelated words' });
    expectPage(taken, 409);
    expect(taken.html).toContain('<a href="#field-username">');
    expect(taken.html).not.toContain('four unrelated words');
    expectPage(await client.post('/admin/users', { ...fields, password: 'short' }), 400);
    const last = await client.post(`/admin/users/${server.admin.id}`, {
      _csrf,
      display_name: '',
      status: 'DISABLED',
    });
    expectPage(last, 409);
    expect(last.html).toContain('<a href="#field-status">');
  });

  test('a reset password ends the sign-ins of its user', async () => {
    const other = await makeUser(server.database, 'second', 'ADMIN');
    const theirs = await server.signedIn(other);
    const client = await server.signedIn();
    const page = `/admin/users/${other.id}`;
    const _csrf = await client.token();
    expectPage(await client.post(`${page}/reset-password`, { _csrf, new_password: 'short' }), 400);
    const reset = await client.post(`${page}/reset-password`, {
      _csrf,
      new_password: 'four unrelated words',
    });
    expect(reset.location).toBe(`${page}?done=reset`);
    expect((await theirs.get('/admin/tasks')).location).toContain('note=ended');
  });

  test('one’s own password changes only with the present one', async () => {
    const client = await server.signedIn();
    const _csrf = await client.token();
    const change = { _csrf, current_password: PASSWORD, new_password: 'four unrelated words' };
    const differs = await client.post('/admin/password', {
      ...change,
      repeat_password: 'five unrelated words',
    });
    expectPage(differs, 400);
    expect(differs.html).toContain('<a href="#field-repeat_password">');
    const repeat_password = change.new_password;
    expectPage(
      await client.post('/admin/password', { ...change, repeat_password, current_password: 'wrong' }),
      400,
    );
    expect((await client.post('/admin/password', { ...change, repeat_password })).location).toBe(
      '/admin/password?done=changed',
    );
    expectPage(await client.get('/admin/password?done=changed'), 200);
  });
});

describe('problems are pages', () => {
  ownServer();

  test.each([
    '/admin/nothing',
    '/admin/tasks/not-an-id',
    '/admin/tasks/01938a5c-7d2e-7003-9b1e-5f20c7ad34e1',
    '/admin/tasks/01938a5c-7d2e-7003-9b1e-5f20c7ad34e1/edit',
    '/admin/devices/unknown-device',
    '/admin/users/01938a5c-7d2e-7003-9b1e-5f20c7ad34e1',
    '/admin/tasks/%zz',
    '/admin/assets/nothing.css',
    '/admin/assets/..%2fpages.ts',
  ])('404 for %s', async (page) => {
    expectPage(await (await server.signedIn()).get(page), 404);
  });

  test('/admin and / lead to the tasks', async () => {
    const client = await server.signedIn();
    for (const page of ['/admin', '/admin/']) {
      expect(await client.get(page)).toMatchObject({ status: 303, location: '/admin/tasks' });
    }
  });

  test('in both languages, with the request id that the log has', async () => {
    const client = await server.signedIn();
    client.cookies.set('cmbuyer_language', 'en');
    const answer = await client.get('/admin/nothing');
    expectPage(answer, 404);
    expect(answer.html).toContain('<html lang="en"');
    expect(answer.html).toContain(answer.headers.get('x-request-id') as string);
  });

  test('a broken machine is 500 without its reasons', async () => {
    const client = await server.signedIn();
    const rename = (from: string, to: string) =>
      server.database.write(async ({ trx }) => {
        await trx.schema.renameTable(from, to);
      });
    await rename('users', 'gone');
    const answer = await client.get('/admin/login');
    await rename('gone', 'users');
    expect(answer.status).toBe(500);
    expect(answer.html).not.toMatch(/no such table|select|knex/i);
  });
});
