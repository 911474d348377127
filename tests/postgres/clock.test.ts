import path from 'node:path';
import { canSignIn } from '../process/program';
import { beat, beatTask, claim, fence, newAsk, type Phone, report, Shop, start } from '../processes/shop';
import { verdictOf, type Wire } from '../processes/wire';

/** One clock: the database's. A server whose own clock is wrong, in a zone of its own, judges as all others do. */
jest.setTimeout(120_000);

const MINUTE = 60_000;
const preload = path.join(__dirname, '../processes/preload/shift-clock.cjs');

function wrongBy(milliseconds: number): Record<string, string> {
  return {
    NODE_OPTIONS: `--require ${JSON.stringify(preload)}`,
    SHIFT_CLOCK_MS: String(milliseconds),
    TZ: 'Asia/Shanghai',
  };
}

const TIMES = {
  CMBUYER_CLAIM_LEASE_SECONDS: '60',
  CMBUYER_RUN_LEASE_SECONDS: '60',
  CMBUYER_DEVICE_HEARTBEAT_TTL_SECONDS: '60',
  CMBUYER_AUTHORIZATION_TTL_SECONDS: '120',
  CMBUYER_ACCESS_TOKEN_TTL_SECONDS: '120',
  CMBUYER_SESSION_TTL_SECONDS: '120',
};

let shop: Shop;
let right: Wire;
/** Each of them sees what is live as long over, or what is over as live still, if it believes itself. */
let wrong: [fast: Wire, slow: Wire];

beforeAll(async () => {
  shop = await Shop.open();
  // Every new session of this database begins in another zone than the servers'.
  const name = new URL(shop.settings.CMBUYER_DATABASE_URL as string).pathname.slice(1);
  await shop.database.read.knex.raw(`alter database ?? set timezone to 'America/New_York'`, [name]);
  right = await shop.serve(TIMES);
  wrong = [
    await shop.serve({ ...TIMES, ...wrongBy(5 * MINUTE) }),
    await shop.serve({ ...TIMES, ...wrongBy(-5 * MINUTE) }),
  ];
});
afterAll(() => shop.close());
afterEach(async () => {
  expect(await shop.findings()).toEqual([]);
});

/** Moves an instant of a row to that many milliseconds from the database's now. */
async function setInstant(table: string, where: object, column: string, inMs: number): Promise<void> {
  const instant = new Date(Date.parse(await shop.database.now()) + inMs).toISOString();
  await shop.database.write(({ trx }) =>
    trx(table)
      .where(where)
      .update({ [column]: instant }),
  );
}

it('the wrong servers are wrong, and say the time of the database', async () => {
  const [phone] = (await shop.seedPhones(1)) as [Phone];
  for (const [index, shift] of [0, 5 * MINUTE, -5 * MINUTE].entries()) {
    const wire = shop.wires[index] as Wire;
    const before = Date.now();
    const { json } = await beat(wire, phone);
    expect(json.server_time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(Date.parse(json.server_time)).toBeGreaterThanOrEqual(before - 1_000);
    expect(Date.parse(json.server_time)).toBeLessThanOrEqual(Date.now() + 1_000);
    // The log is written by the process's own clock.
    const logged = /"time":"([^"]+)"/.exec(shop.servers[index]?.program.stdout ?? '')?.[1] ?? '';
    expect(Math.abs(Date.parse(logged) - Date.now() - shift)).toBeLessThan(2 * MINUTE);
  }
});

it('a live claim is not taken over through a fast server, and an ended one is not kept through a slow one', async () => {
  const [phone, rival] = (await shop.seedPhones(2)) as [Phone, Phone];
  const [fast, slow] = wrong;
  await shop.seedPending(1);
  const ask = newAsk();
  const claimed = await claim(right, phone, ask);
  const { task_id, claim_generation, version } = claimed.json;
  expect(Date.parse(claimed.json.lease_expires_at) - Date.parse(claimed.json.server_time)).toBe(MINUTE);
  const held = { ...ask, phone, task_id, claim_generation, version };

  expect(verdictOf(await claim(fast, rival, newAsk()))).toBe('204');
  expect(verdictOf(await claim(fast, phone, newAsk()))).toBe('DEVICE_HAS_ACTIVE_TASK');
  const again = await claim(fast, phone, ask);
  expect([again.status, again.json.lease_expires_at]).toEqual([200, claimed.json.lease_expires_at]);
  expect(again.json.lease_expires_in_ms).toBeGreaterThan(MINUTE / 2);

  await shop.endLease(task_id, -1_000);
  for (const wire of [right, ...wrong]) {
    expect(verdictOf(await start(wire, held))).toBe('LEASE_EXPIRED');
    expect(verdictOf(await claim(wire, phone, ask))).toBe('CLAIM_REPLAY_EXPIRED');
  }
  const taken = await claim(slow, rival, newAsk());
  expect([taken.status, taken.json.task_id, taken.json.claim_generation]).toEqual([200, task_id, 2]);
  expect(Date.parse(taken.json.lease_expires_at) - Date.parse(taken.json.server_time)).toBe(MINUTE);
});

it('a run lease is renewed from now, whoever renews it, and ends for everyone at once', async () => {
  const [one] = await shop.seedHeld(await shop.seedPhones(1), 'RUNNING');
  if (!one) throw new Error('nothing is running');
  for (const wire of [right, ...wrong]) {
    const { status, json } = await beatTask(wire, one);
    expect(status).toBe(200);
    expect(Date.parse(json.lease_expires_at) - Date.parse(json.server_time)).toBe(MINUTE);
    const [claimRow] = await shop.rows('claims', { task_id: one.task_id });
    expect(claimRow.lease_expires_at).toBe(json.lease_expires_at);
  }
  await shop.endLease(one.task_id, -1_000);
  for (const wire of [right, ...wrong]) {
    expect(verdictOf(await beatTask(wire, one))).toBe('LEASE_EXPIRED');
    expect(verdictOf(await fence(wire, one))).toBe('LEASE_EXPIRED');
  }
});

it('a heartbeat is as fresh as the database says', async () => {
  const [phone] = (await shop.seedPhones(1)) as [Phone];
  for (const wire of [right, ...wrong]) {
    await setInstant('devices', { device_id: phone.device_id }, 'last_heartbeat_at', -30_000);
    expect(verdictOf(await claim(wire, phone, newAsk()))).toBe('204');
    await setInstant('devices', { device_id: phone.device_id }, 'last_heartbeat_at', -61_000);
    const stale = await claim(wire, phone, newAsk());
    expect([verdictOf(stale), stale.json.readiness_reasons]).toEqual([
      'DEVICE_NOT_READY',
      ['HEARTBEAT_STALE'],
    ]);
  }
  // A phone's own clock is information only, however wrong.
  const now = Date.now();
  for (const client_time of [now - 24 * 60 * MINUTE, now + 24 * 60 * MINUTE, 0, 253_402_300_799_000]) {
    const sent = { client_time: new Date(client_time).toISOString() };
    expect((await beat(wrong[0], phone, sent)).json.ready).toBe(true);
    expect(verdictOf(await claim(right, phone, newAsk()))).toBe('204');
  }
});

it('a permission lasts as long as the database says', async () => {
  const [draft] = await shop.seedDrafts(1);
  const { headers } = shop.admin;
  const pressed = await wrong[0].send(`/api/v1/admin/tasks/${draft}/start-purchase`, {
    headers,
    body: { expected_task_version: 1 },
  });
  expect(pressed.status).toBe(200);
  const [authorization] = await shop.rows('authorizations', { task_id: draft });
  expect(Date.parse(authorization.expires_at) - Date.parse(authorization.created_at)).toBe(2 * MINUTE);
  expect(Math.abs(Date.parse(authorization.created_at) - Date.now())).toBeLessThan(MINUTE);

  const [phone] = (await shop.seedPhones(1)) as [Phone];
  const ask = newAsk();
  const claimed = await claim(wrong[0], phone, ask);
  expect([claimed.status, claimed.json.task_id]).toEqual([200, draft]);
  const { task_id, claim_generation, version } = claimed.json;
  const held = { ...ask, phone, task_id, claim_generation, version };
  const started = await start(wrong[1], held);
  expect(started.status).toBe(200);
  const running = { ...held, version: started.json.version, execution_id: started.json.execution_id };

  await setInstant('authorizations', { task_id }, 'expires_at', -1_000);
  for (const wire of [right, ...wrong])
    expect(verdictOf(await fence(wire, running))).toBe('AUTHORIZATION_EXPIRED');
  await setInstant('authorizations', { task_id }, 'expires_at', MINUTE);
  expect(verdictOf(await fence(wrong[0], running))).toBe('200');
  expect(verdictOf(await report(wrong[0], running, { outcome: 'ORDER_CREATED', order_no: 'P-1' }))).toBe(
    '200',
  );
});

it('sessions and access tokens last as long as the database says', async () => {
  const [phone] = (await shop.seedPhones(1)) as [Phone];
  const me = async (wire: Wire) => [
    verdictOf(await wire.send('/api/v1/admin/me', { headers: shop.admin.headers })),
    verdictOf(await wire.send('/api/v1/device/me', { headers: phone.headers })),
  ];
  const session = { id: shop.admin.actor.session_id };
  const token = { id: phone.actor.token_id };
  const [{ expires_at }] = await shop.rows('sessions', session);
  for (const wire of [right, ...wrong]) {
    await setInstant('sessions', session, 'expires_at', 30_000);
    await setInstant('access_tokens', token, 'expires_at', 30_000);
    expect(await me(wire)).toEqual(['200', '200']);
    await setInstant('sessions', session, 'expires_at', -1_000);
    await setInstant('access_tokens', token, 'expires_at', -1_000);
    expect(await me(wire)).toEqual(['TOKEN_EXPIRED', 'TOKEN_EXPIRED']);
  }
  await shop.database.write(({ trx }) => trx('sessions').where(session).update({ expires_at }));
});

it('a session begins when the database says', async () => {
  const password = 'correct horse battery staple';
  const created = await wrong[0].send('/api/v1/admin/users', {
    headers: { ...shop.admin.headers, 'idempotency-key': newAsk().key },
    body: { username: 'second.admin', password, role: 'ADMIN' },
  });
  expect(verdictOf(created)).toBe('201');
  expect(await canSignIn(wrong[0].address, 'second.admin', password)).toBe(true);
  const [session] = await shop.rows('sessions', { user_id: created.json.id });
  expect(Date.parse(session.expires_at) - Date.parse(session.created_at)).toBe(2 * MINUTE);
  expect(Math.abs(Date.parse(session.created_at) - Date.now())).toBeLessThan(MINUTE);
});
