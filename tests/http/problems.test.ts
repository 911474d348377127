import path from 'node:path';
import BetterSqlite from 'better-sqlite3';
import { errorCatalogue } from '../../src/contract/errors';
import { allFacts } from '../../src/testing/all-facts';
import { operationOf, sampleRequest } from '../../src/testing/contract-samples';
import { type Answer, operationEntries, useTestApp } from '../../src/testing/start-test-app';
import { claimedTask, expectStatus, makeDraft, newClaimToken, newKey, WISH } from './scenario';

const app = useTestApp();

function expectShape({ json, headers, status }: Answer, instance: string): void {
  const { code } = json as { code: keyof typeof errorCatalogue };
  const { title, detail, status: documented } = errorCatalogue[code];
  expect(json).toMatchObject({
    type: `urn:cmbuyer:problem:${code}`,
    title,
    detail,
    status: documented,
    instance,
    request_id: headers['x-request-id'],
  });
  expect(status).toBe(documented);
  expect(headers['content-type']).toBe('application/problem+json');
}

it('a problem has its seven members and those that belong to its code', async () => {
  const { admin, phone, call, send } = app();
  expectShape(await send('GET', '/nowhere?token=x'), '/nowhere');
  expectShape(await send('PATCH', '/healthz'), '/healthz');
  expectShape(await send('GET', '/api/v1/admin/tasks/%zz'), '/api/v1/admin/tasks/%zz');
  expectShape(await send('GET', `/${'x'.repeat(4000)}`), `/${'x'.repeat(2047)}`);
  expectShape(await call('getAdminContext'), '/api/v1/admin/me');

  const draft = await makeDraft(app());
  const target = { as: admin, path: { task_id: draft.id } };
  const conflict = await call('startPurchase', { ...target, body: { expected_task_version: 9 } });
  expectShape(conflict, `/api/v1/admin/tasks/${draft.id}/start-purchase`);
  expect(conflict.json.current).toEqual({ task_id: draft.id, status: 'DRAFT', version: 1 });

  const body = { device_id: phone.device_id };
  const ask = () => ({ as: phone, key: newKey(), claimToken: newClaimToken(), body });
  const unready = await call('claimNextTask', ask());
  expect(unready.json.readiness_reasons).toContain('NO_HEARTBEAT');
  const held = await claimedTask(app(), phone);
  expect((await call('claimNextTask', ask())).json.active_task_id).toBe(held.task_id);
});

it('a fault of form names its place', async () => {
  const { admin, phone, call } = app();
  const faultOf = async (answer: Promise<Answer>) => {
    const { json } = await answer;
    expect(json.code).toBe('INVALID_REQUEST');
    return json.errors[0].path;
  };
  const create = (body: object, key = newKey()) => call('createTask', { as: admin, key, body });
  expect(await faultOf(create({ ...WISH, title: 1 }))).toBe('/body/title');
  expect(await faultOf(create({ ...WISH, surprise: 1 }))).toBe('/body/surprise');
  expect(await faultOf(create({}))).toBe('/body/title');
  expect(await faultOf(create(WISH, 'a b'))).toMatch(/^\/header\/idempotency-key$/i);
  expect(await faultOf(call('listTasks', { as: admin, query: { limit: 0 } }))).toBe('/query/limit');
  expect(await faultOf(call('listTasks', { as: admin, query: { surprise: 0 } }))).toBe('/query/surprise');
  expect(await faultOf(call('getTask', { as: admin, path: { task_id: 'x' } }))).toBe('/path/task_id');
  const evidence_ids = [newKey(), 'x'];
  const result = { execution_id: newKey(), claim_generation: 1, outcome: 'UNKNOWN', evidence_ids };
  const report = {
    as: phone,
    key: newKey(),
    claimToken: newClaimToken(),
    path: { task_id: newKey() },
    body: result,
  };
  expect(await faultOf(call('reportSubmissionResult', report))).toBe('/body/evidence_ids/1');
  const withoutNumber = { ...report, body: { ...result, evidence_ids: [], outcome: 'ORDER_CREATED' } };
  expect(await faultOf(call('reportSubmissionResult', withoutNumber))).toBe('/body/order_no');
});

const onTasks = operationEntries.filter(
  (entry) => operationOf(entry).tags[0] === 'device' && entry.path.includes('{task_id}'),
);

it.each(onTasks)("$id tells nothing about another device's task", async (entry) => {
  const { addPhone, call } = app();
  const holder = await addPhone(`holder-${entry.id}`);
  const held = await claimedTask(app(), holder);
  const stranger = await addPhone(`stranger-${entry.id}`);
  const ask = (task_id: string, claimToken = newClaimToken()) =>
    call(entry.id, { ...sampleRequest(entry), as: stranger, key: entry.id, claimToken, path: { task_id } });
  const answers = [
    await ask('018f3a5c-7e10-7a00-8000-0000000000aa'),
    await ask(held.task_id),
    await ask(held.task_id, held.claimToken),
  ];
  const alike = answers.map(({ status, json, headers }) => {
    const { request_id: _a, instance: _b, ...problem } = json;
    const { 'x-request-id': _c, date: _d, 'content-length': _e, ...rest } = headers;
    return { status, problem, rest };
  });
  expect(alike[0]?.problem.code).toBe('TASK_NOT_FOUND');
  expect(alike[1]).toEqual(alike[0]);
  expect(alike[2]).toEqual(alike[0]);
  // Even the length is the same: both ids are.
  expect(new Set(answers.map(({ headers }) => headers['content-length'])).size).toBe(1);
});

it('Retry-After is never 0, not even a moment before the end', async () => {
  const { call, clock, admin } = app();
  const body = { username: admin.user.username, password: 'wrong' };
  for (let tries = 0; tries < 10; tries += 1) await call('loginAdmin', { body });
  const waits = [];
  for (const step of [0, 899_000, 999]) {
    clock.advance(step);
    const answer = await call('loginAdmin', { body });
    expect(answer.status).toBe(429);
    waits.push(answer.headers['retry-after']);
  }
  expect(waits).toEqual(['900', '1', '1']);
  clock.advance(1);
  expect((await call('loginAdmin', { body })).json.code).toBe('INVALID_CREDENTIALS');
});

it('a failure inside says that and no more, and its cause is in the log', async () => {
  const { call, log, outage, admin } = app();
  outage.code = 'SOMETHING_ODD';
  const answer = await call('getTask', { as: admin, path: { task_id: newKey() }, mayFail: true });
  outage.code = undefined;
  expect([answer.status, answer.json.code]).toEqual([500, 'INTERNAL_ERROR']);
  expect(Object.keys(answer.json).sort()).toEqual([
    'code',
    'detail',
    'instance',
    'request_id',
    'status',
    'title',
    'type',
  ]);
  expect(answer.text).not.toMatch(/SOMETHING_ODD|out of reach|\.ts/);
  const [line] = log
    .lines()
    .filter(({ request_id, stack }) => request_id === answer.json.request_id && stack);
  expect(line).toMatchObject({
    code: 'INTERNAL_ERROR',
    cause: 'SOMETHING_ODD',
    stack: expect.stringContaining('out of reach'),
  });
});

it('while another process keeps the database locked, reads go on and writes are refused unchanged', async () => {
  const { database, dataDir, call, admin, addPhone, clock } = app();
  if (database.engine !== 'sqlite') return;
  clock.advance(1000);
  const phone = await addPhone('patient');
  const before = await allFacts(database);
  const rival = new BetterSqlite(path.join(dataDir, 'cmbuyer.sqlite'));
  rival.exec('begin immediate');
  const create = { as: admin, key: newKey(), body: WISH };
  const heartbeat = {
    as: phone,
    body: {
      device_id: phone.device_id,
      app_version: '1',
      android_version: '1',
      accessibility_connected: true,
      pinduoduo_installed: true,
    },
  };
  const waiting = Promise.all([
    call('createTask', create),
    call('sendDeviceHeartbeat', heartbeat),
    call('logoutDevice', { as: phone }),
  ]);
  expect((await call('getHealth')).status).toBe(200);
  expect((await call('getReadiness')).status).toBe(200);
  expect((await call('listTasks', { as: admin })).status).toBe(200);
  for (const answer of await waiting) {
    expect(answer.json.code).toBe('SERVICE_UNAVAILABLE');
    expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1);
  }
  rival.exec('rollback');
  rival.close();
  expect(await allFacts(database)).toBe(before);
  const again = await call('createTask', create);
  expect([again.status, again.headers['idempotent-replayed']]).toEqual([201, undefined]);
  expectStatus(await call('sendDeviceHeartbeat', heartbeat), 200);
});
