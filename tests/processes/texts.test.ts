import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beatTask, fence, type Held, newAsk, OFFER, READY, report, Shop, start, WISH } from './shop';
import { type Answer, verdictOf, type Wire } from './wire';

/** One verdict on a text or a number, whatever the engine: here it is written down, and both must give it. */
jest.setTimeout(180_000);

const FAMILY = '👨‍👩‍👧‍👦';

/** As JSON writes them: some of them are no text that a program could hold. */
const BROKEN: Record<string, string> = {
  NUL: '"a\\u0000b"',
  'a lone high surrogate': '"a\\ud800b"',
  'a lone low surrogate': '"\\udc00"',
  'a pair the wrong way round': '"\\udc68\\ud83d and more"',
};
const WHOLE: Record<string, string> = {
  'an emoji family': FAMILY,
  'an emoji as two escapes': '\ud83d\udc68',
  'a byte order mark': '\ufeffa\ufeff',
  'a noncharacter': 'a\ufffeb\uffffc',
  'the last code point': 'a\u{10ffff}',
  'text from right to left, and back': '\u202eabc\u202c אבג',
  'a letter under many accents': `e${'\u0301'.repeat(150)}`,
  'two spellings of one letter': 'é e\u0301',
  'quotes and backslashes': `'"\\%_;--`,
  'as many families as fit': FAMILY.repeat(28),
};

const ENGINES = process.env.TEST_DATABASE_URL ? ['sqlite', 'postgres'] : ['sqlite'];

describe.each(ENGINES)('on %s', (engine) => {
  let shop: Shop;
  let wire: Wire;
  let folder: string;
  let running: Held;
  let held: Held;

  beforeAll(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'cmbuyer-texts-'));
    shop = engine === 'sqlite' ? await Shop.openOn('', folder) : await Shop.open();
    wire = await shop.serve();
    [running] = (await shop.seedHeld(await shop.seedPhones(1), 'RUNNING')) as [Held];
    [held] = (await shop.seedHeld(await shop.seedPhones(1), 'CLAIMED')) as [Held];
  });
  afterAll(async () => {
    await shop.close();
    rmSync(folder, { recursive: true, force: true });
  });
  afterEach(async () => {
    expect(await shop.findings()).toEqual([]);
  });

  let count = 0;
  const next = () => {
    count += 1;
    return count;
  };
  const admin = (target: string, body: string, method = 'POST') =>
    wire.send(target, { method, headers: { ...shop.admin.headers, 'idempotency-key': newAsk().key }, body });
  const device = (target: string, body: string, headers = running.phone.headers, key = newAsk().key) =>
    wire.send(target, {
      headers: { ...headers, 'idempotency-key': key, 'x-claim-token': running.token },
      body,
    });

  /** An object with one member written by hand. */
  function withMember(body: object, name: string, json: string): string {
    const { [name]: _replaced, ...others } = body as Record<string, unknown>;
    return `${JSON.stringify(others).slice(0, -1)}${Object.keys(others).length > 0 ? ',' : ''}"${name}":${json}}`;
  }

  const task = (member: string) => (json: string) =>
    admin('/api/v1/admin/tasks', withMember(WISH, member, json));
  const phoneSays = (member: string) => (json: string) =>
    device(
      '/api/v1/device/heartbeat',
      withMember({ device_id: running.phone.device_id, ...READY }, member, json),
    );
  const taskCall = (call: string, body: object, member: string) => (json: string) => {
    const { claim_generation, execution_id } = running;
    return device(
      `/api/v1/device/tasks/${running.task_id}/${call}`,
      withMember({ claim_generation, execution_id, ...body }, member, json),
    );
  };

  /** Every place where a text comes in. */
  const places: Record<string, (json: string) => Promise<Answer>> = {
    title: task('title'),
    keywords: task('keywords'),
    shop_name: task('shop_name'),
    spec: task('spec'),
    buyer_note: task('buyer_note'),
    external_ref: task('external_ref'),
    product_url: task('product_url'),
    label: (json) =>
      admin(
        '/api/v1/admin/devices',
        withMember(
          { device_id: `texts-${next()}-device`, user_id: running.phone.actor.user_id },
          'label',
          json,
        ),
      ),
    device_id: (json) =>
      admin(
        '/api/v1/admin/devices',
        withMember({ label: 'x', user_id: running.phone.actor.user_id }, 'device_id', json),
      ),
    display_name: (json) =>
      admin(
        '/api/v1/admin/users',
        withMember(
          { username: `texts.${next()}`, password: 'correct horse battery', role: 'BUYER' },
          'display_name',
          json,
        ),
      ),
    username: (json) =>
      admin(
        '/api/v1/admin/users',
        withMember({ password: 'correct horse battery', role: 'BUYER' }, 'username', json),
      ),
    password: (json) =>
      admin(
        '/api/v1/admin/users',
        withMember({ username: `texts.${next()}`, role: 'BUYER' }, 'password', json),
      ),
    'revoke reason': (json) =>
      admin(`/api/v1/admin/devices/${held.phone.device_id}x/revoke`, withMember({}, 'reason', json)),
    'login username': (json) =>
      admin('/api/v1/admin/login', withMember({ password: 'x'.repeat(12) }, 'username', json)),
    'login device_id': (json) =>
      admin(
        '/api/v1/device/login',
        withMember({ username: 'nobody', password: 'x'.repeat(12) }, 'device_id', json),
      ),
    app_version: phoneSays('app_version'),
    android_version: phoneSays('android_version'),
    pinduoduo_version: phoneSays('pinduoduo_version'),
    client_time: phoneSays('client_time'),
    step: taskCall('heartbeat', {}, 'step'),
    order_no: taskCall('submission-result', { outcome: 'UNKNOWN' }, 'order_no'),
    'member name': (json) => admin('/api/v1/admin/tasks', `${JSON.stringify(WISH).slice(0, -1)},${json}:1}`),
  };

  for (const [name, json] of Object.entries(BROKEN)) {
    it(`refuses ${name} wherever a text comes in, and writes nothing`, async () => {
      const before = await counted();
      const verdicts: Record<string, string> = {};
      for (const [place, send] of Object.entries(places)) verdicts[place] = verdictOf(await send(json));
      expect(verdicts).toEqual(
        Object.fromEntries(Object.keys(places).map((place) => [place, 'INVALID_REQUEST'])),
      );
      expect(await counted()).toEqual(before);
    });
  }

  async function counted(): Promise<number[]> {
    const tables = ['tasks', 'task_events', 'devices', 'users', 'submission_reports', 'idempotency_records'];
    return Promise.all(tables.map(async (table) => (await shop.rows(table)).length));
  }

  it.each(Object.entries(WHOLE))('keeps %s exactly as it came', async (_name, text) => {
    const json = JSON.stringify(text);
    for (const place of ['title', 'keywords', 'shop_name', 'spec', 'buyer_note']) {
      const created = await places[place]?.(json);
      expect([place, created?.status]).toEqual([place, 201]);
      const read = await wire.send(`/api/v1/admin/tasks/${created?.json.id}`, {
        headers: shop.admin.headers,
      });
      expect(read.json[place]).toBe(text);
    }
    const fits = [...text].length <= 80;
    const label = await places.label?.(json);
    expect(verdictOf(label as Answer)).toBe(fits ? '201' : 'INVALID_REQUEST');
    if (fits) expect(label?.json.label).toBe(text);
    if ([...text].length > 32) return;
    expect(verdictOf((await places.app_version?.(json)) as Answer)).toBe('200');
    const { device_id } = running.phone;
    const phone = await wire.send(`/api/v1/admin/devices/${device_id}`, { headers: shop.admin.headers });
    expect(phone.json.app_version).toBe(text);
  });

  it('counts code points, not the units that the engines count in', async () => {
    const verdicts = async (place: string, text: string) =>
      verdictOf((await places[place]?.(JSON.stringify(text))) as Answer);
    expect(await verdicts('title', '𠮷'.repeat(200))).toBe('201');
    expect(await verdicts('title', '𠮷'.repeat(201))).toBe('INVALID_REQUEST');
    expect(await verdicts('title', `e${'\u0301'.repeat(10_000)}`)).toBe('INVALID_REQUEST');
    expect(await verdicts('label', '𠮷'.repeat(80))).toBe('201');
    expect(await verdicts('label', '𠮷'.repeat(81))).toBe('INVALID_REQUEST');
  });

  it('finds by a hostile text what has it, and refuses what cannot be one', async () => {
    const look = async (q: string) => {
      const answer = await wire.send(`/api/v1/admin/devices?q=${q}`, { headers: shop.admin.headers });
      return answer.status === 200 ? answer.json.items.length : verdictOf(answer);
    };
    await places.label?.(JSON.stringify(`50%_'"\\ ${FAMILY}`));
    for (const q of ['50%_\'"\\', `\\ ${FAMILY}`, '50%_']) expect(await look(encodeURIComponent(q))).toBe(1);
    expect(await look('51%25')).toBe(0);
    expect(await look('%00')).toBe('INVALID_REQUEST');
    // A lone surrogate has no spelling in UTF-8: these bytes stand for something that no label holds.
    expect(await look('%ED%A0%80')).toBe(0);
  });

  it.each([
    ['0', 'INVALID_REQUEST'],
    ['-1', 'INVALID_REQUEST'],
    ['1.5', 'INVALID_REQUEST'],
    ['"1"', 'INVALID_REQUEST'],
    ['1e1000', 'INVALID_REQUEST'],
    ['9007199254740993', 'INVALID_REQUEST'],
    ['9007199254740992', 'INVALID_REQUEST'],
    ['9007199254740991', 'VERSION_CONFLICT'],
    ['2147483648', 'VERSION_CONFLICT'],
    ['4.0', '200'],
  ])('judges %s as a version: %s', async (json, verdict) => {
    const { claim_generation, execution_id } = running;
    const body = { claim_generation, execution_id, ...OFFER };
    const answer = await device(
      `/api/v1/device/tasks/${running.task_id}/submission-fence`,
      withMember(body, 'expected_version', json),
    );
    expect(verdictOf(answer)).toBe(verdict);
  });

  it('judges large numbers wherever one comes in', async () => {
    const [draft] = await shop.seedDrafts(1);
    const large = ['2147483647', '2147483648', '9007199254740991', '9007199254740992', '9223372036854775808'];
    const sends: Record<string, (json: string) => Promise<Answer>> = {
      expected_task_version: (json) =>
        admin(`/api/v1/admin/tasks/${draft}/start-purchase`, `{"expected_task_version":${json}}`),
      claim_generation: (json) =>
        wire.send(`/api/v1/device/tasks/${held.task_id}/start`, {
          headers: { ...held.phone.headers, 'idempotency-key': newAsk().key, 'x-claim-token': held.token },
          body: `{"expected_version":3,"claim_generation":${json}}`,
        }),
      quantity: task('quantity'),
      max_total_cents: task('max_total_cents'),
      amount_cents: taskCall('submission-result', { outcome: 'UNKNOWN' }, 'amount_cents'),
    };
    const verdicts = Object.fromEntries(
      await Promise.all(
        Object.entries(sends).map(async ([place, send]) => {
          const given: string[] = [];
          for (const json of large) given.push(verdictOf(await send(json)));
          return [place, given];
        }),
      ),
    );
    const refused = 'INVALID_REQUEST';
    expect(verdicts).toEqual({
      expected_task_version: ['VERSION_CONFLICT', 'VERSION_CONFLICT', 'VERSION_CONFLICT', refused, refused],
      claim_generation: [
        'GENERATION_MISMATCH',
        'GENERATION_MISMATCH',
        'GENERATION_MISMATCH',
        refused,
        refused,
      ],
      quantity: Array(5).fill(refused),
      max_total_cents: Array(5).fill(refused),
      amount_cents: Array(5).fill(refused),
    });
  });

  it('stays of use after all of that', async () => {
    expect(verdictOf(await start(wire, held))).toBe('200');
    expect(verdictOf(await beatTask(wire, running))).toBe('200');
    expect(verdictOf(await fence(wire, running))).toBe('INVALID_TASK_STATE');
    expect(
      verdictOf(await report(wire, running, { outcome: 'ORDER_CREATED', order_no: `P-${FAMILY}` })),
    ).toBe('200');
    const [submission] = await shop.rows('order_submissions', { task_id: running.task_id });
    expect(submission.order_no).toBe(`P-${FAMILY}`);
  });
});
