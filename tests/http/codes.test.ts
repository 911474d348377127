import type { OperationId } from '../../src/contract/generated/operations.gen';
import { endSessions, endTokens } from '../../src/store/credentials';
import { mediaTypeOf, operationOf, sampleRequest } from '../../src/testing/contract-samples';
import { signInAdmin, signInDevice } from '../../src/testing/people-and-devices';
import {
  type Answer,
  adminWith,
  type OperationRequest,
  operationEntries,
  PASSWORD,
  phoneWith,
  type TestPhone,
  useTestApp,
} from '../../src/testing/start-test-app';
import {
  claim,
  claimedTask,
  expectStatus,
  fence,
  fencedTask,
  type Held,
  makeDraft,
  makePending,
  newClaimToken,
  newKey,
  newPicture,
  offerOf,
  on,
  putPicture,
  report,
  runningTask,
  sendHeartbeat,
  start,
  startPurchase,
  WISH,
} from './scenario';

/**
 * Every operation once well and once with each code that it lists. The response check of the test app holds every answer
 * to the list; what was produced is collected here and compared with the list at the end of the file.
 */
const app = useTestApp();

const produced = new Set<string>();

async function call(id: OperationId, request: OperationRequest = {}): Promise<Answer> {
  const answer = await app().call(id, request);
  produced.add(`${id} ${answer.json?.code && answer.status >= 400 ? answer.json.code : answer.status}`);
  return answer;
}

async function expectCode(id: OperationId, request: OperationRequest, code: string): Promise<Answer> {
  const answer = await call(id, request);
  expect([id, answer.json?.code]).toEqual([id, code]);
  expect(answer.status).toBe(answer.json.status);
  return answer;
}

async function expectGood(id: OperationId, request: OperationRequest, status = 200): Promise<Answer> {
  const answer = await call(id, request);
  expectStatus(answer, status);
  return answer;
}

/** What no request can bring about, and why. */
const NOT_PRODUCED: Record<string, string> = {
  'fenceSubmission CANCEL_REQUESTED': 'no operation asks a device to stop yet',
};
const NEVER_PRODUCED: Record<string, string> = {
  INTERNAL_ERROR: 'means a bug; its shape is tested with a server that is broken on purpose',
};

const credentialsOf = (tag: string | undefined, phone: TestPhone) => (tag === 'device' ? phone : app().admin);
const UNKNOWN_TASK = { task_id: '018f3a5c-7e10-7a00-8000-000000000001' };
const UNKNOWN_USER = { user_id: '018f3a5c-7e10-7a00-8000-000000000002' };

describe.each(operationEntries)('$id', (entry) => {
  const operation = operationOf(entry);
  const codes = operation['x-error-codes'];
  const isOpen = operation.security.length === 0;
  const request = (changes: OperationRequest = {}): OperationRequest => ({
    ...sampleRequest(entry),
    as: isOpen ? undefined : credentialsOf(operation.tags[0], app().phone),
    ...changes,
  });
  const withoutBody = () => request({ body: undefined, file: undefined });
  const produces = (code: string, make: () => OperationRequest) => {
    if (codes.includes(code)) it(code, () => expectCode(entry.id, make(), code).then(() => undefined));
  };

  produces('INVALID_REQUEST', () => request({ query: { ...sampleRequest(entry).query, surprise: '1' } }));
  produces('NOT_ACCEPTABLE', () => request({ headers: [['Accept', 'text/x-unheard-of']] }));
  produces('UNSUPPORTED_MEDIA_TYPE', () => ({ ...withoutBody(), headers: [['Content-Type', 'text/plain']] }));
  produces('UNAUTHENTICATED', () => request({ as: undefined }));
  produces('CSRF_FAILED', () =>
    request({ as: { headers: [['Cookie', `cmbuyer_session=${app().admin.session}`]] } }),
  );
  if (mediaTypeOf(operation) === 'application/json') {
    produces('MALFORMED_JSON', () => ({ ...withoutBody(), headers: [['Content-Type', 'application/json']] }));
    produces('PAYLOAD_TOO_LARGE', () => request({ body: { filler: 'x'.repeat(65 * 1024) } }));
  }

  if (codes.includes('SERVICE_UNAVAILABLE')) {
    it('SERVICE_UNAVAILABLE', async () => {
      app().outage.code = 'ECONNREFUSED';
      try {
        const answer = await expectCode(entry.id, request(), 'SERVICE_UNAVAILABLE');
        expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1);
      } finally {
        app().outage.code = undefined;
      }
    });
  }

  if (codes.includes('TOKEN_EXPIRED')) {
    it('TOKEN_EXPIRED and TOKEN_REVOKED', async () => {
      const { database, clock, phone, admin } = app();
      const isDevice = operation.tags[0] === 'device';
      const credential = async (end: boolean, ttl: number) => {
        if (isDevice) {
          const { raw, actor } = await signInDevice(database, phone.user, phone.device_id, ttl);
          if (end) await database.write((work) => endTokens(work, { id: actor.token_id }, 'LOGGED_OUT'));
          return phoneWith(phone.user, phone.device_id, raw);
        }
        const { raw, actor } = await signInAdmin(database, admin.user, ttl);
        if (end) await database.write((work) => endSessions(work, { id: actor.session_id }, 'LOGGED_OUT'));
        return adminWith(admin.user, raw);
      };
      const expired = await credential(false, 1);
      clock.advance(1000);
      await expectCode(entry.id, request({ as: expired }), 'TOKEN_EXPIRED');
      await expectCode(entry.id, request({ as: await credential(true, 60) }), 'TOKEN_REVOKED');
    });
  }
  if (codes.includes('TASK_NOT_FOUND') && operation.tags[0] === 'admin') {
    produces('TASK_NOT_FOUND', () => request({ path: UNKNOWN_TASK }));
  }
  if (codes.includes('INVALID_CURSOR')) {
    it('INVALID_CURSOR', async () => {
      const { id } = await makeDraft(app());
      await expectCode(
        entry.id,
        request({ path: { task_id: id }, query: { cursor: 'garbage' } }),
        'INVALID_CURSOR',
      );
    });
  }
});

describe('signing in and out', () => {
  it('works for a phone, and for nobody else', async () => {
    const { phone, addPhone } = app();
    const body = { username: phone.user.username, password: PASSWORD, device_id: phone.device_id };
    const answer = await expectGood('loginDevice', { body });
    await expectCode('loginDevice', { body: { ...body, password: 'wrong' } }, 'INVALID_CREDENTIALS');
    await expectCode(
      'loginDevice',
      { body: { ...body, device_id: 'unknown-device' } },
      'DEVICE_NOT_AUTHORIZED',
    );
    const one = phoneWith(phone.user, phone.device_id, answer.json.access_token);
    await expectGood('getDeviceContext', { as: one });
    await expectGood('logoutDevice', { as: one }, 204);

    const unlucky = await addPhone('unlucky');
    await exhaust('loginDevice', {
      username: unlucky.user.username,
      password: 'wrong',
      device_id: unlucky.device_id,
    });
  });

  it('works for an admin, and for nobody else', async () => {
    const { admin, addAdmin } = app();
    const body = { username: admin.user.username, password: PASSWORD };
    const answer = await expectGood('loginAdmin', { body });
    await expectCode('loginAdmin', { body: { ...body, password: 'wrong' } }, 'INVALID_CREDENTIALS');
    const session = /cmbuyer_session=([^;]+)/.exec(String(answer.headers['set-cookie']))?.[1] as string;
    const one = adminWith(admin.user, session);
    expect(one.csrf).toBe(answer.json.csrf_token);
    await expectGood('getAdminContext', { as: one });
    await expectGood('logoutAdmin', { as: one }, 204);

    const unlucky = await addAdmin('unlucky.admin');
    await exhaust('loginAdmin', { username: unlucky.user.username, password: 'wrong' });
    const forgetful = await addAdmin('forgetful.admin');
    const passwords = { current_password: 'wrong', new_password: 'another long password' };
    await expectCode('changeOwnPassword', { as: forgetful, body: passwords }, 'INVALID_CREDENTIALS');
    await exhaust('changeOwnPassword', passwords, { as: forgetful });
    const careful = await addAdmin('careful.admin');
    await expectGood(
      'changeOwnPassword',
      { as: careful, body: { ...passwords, current_password: PASSWORD } },
      204,
    );
  });

  async function exhaust(id: OperationId, body: object, request: OperationRequest = {}): Promise<void> {
    for (let tries = 0; tries < 10; tries += 1) await app().call(id, { ...request, body });
    const answer = await expectCode(id, { ...request, body }, 'RATE_LIMITED');
    expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1);
  }
});

describe('users and devices', () => {
  it('are made, changed and ended', async () => {
    const { admin } = app();
    const key = newKey();
    const user = { username: 'new.buyer', password: PASSWORD, role: 'BUYER' };
    const created = await expectGood('createUser', { as: admin, key, body: user }, 201);
    const again = await expectGood('createUser', { as: admin, key, body: user }, 201);
    expect([again.json, again.headers['idempotent-replayed']]).toEqual([created.json, 'true']);
    await expectCode(
      'createUser',
      { as: admin, key, body: { ...user, role: 'ADMIN' } },
      'IDEMPOTENCY_KEY_REUSED',
    );
    await expectCode('createUser', { as: admin, key: newKey(), body: user }, 'DUPLICATE_USERNAME');
    await expectGood('listUsers', { as: admin, query: { q: 'new', limit: 1 } });
    const path = { user_id: created.json.id };
    await expectGood('updateUser', { as: admin, path, body: { display_name: '小李', status: 'ACTIVE' } });
    await expectCode(
      'updateUser',
      { as: admin, path: UNKNOWN_USER, body: { status: 'ACTIVE' } },
      'NOT_FOUND',
    );
    await expectGood('resetUserPassword', { as: admin, path, body: { new_password: PASSWORD } }, 204);
    await expectCode(
      'resetUserPassword',
      { as: admin, path: UNKNOWN_USER, body: { new_password: PASSWORD } },
      'NOT_FOUND',
    );

    const deviceKey = newKey();
    const device = { device_id: 'device-of-new-buyer', label: '手机', user_id: path.user_id };
    await expectGood('authorizeDevice', { as: admin, key: deviceKey, body: device }, 201);
    await expectGood('authorizeDevice', { as: admin, key: deviceKey, body: device }, 201);
    await expectCode(
      'authorizeDevice',
      { as: admin, key: deviceKey, body: { ...device, label: 'x' } },
      'IDEMPOTENCY_KEY_REUSED',
    );
    await expectCode('authorizeDevice', { as: admin, key: newKey(), body: device }, 'DUPLICATE_DEVICE');
    await expectGood('listDevices', { as: admin });
    const at = { device_id: device.device_id };
    await expectGood('getDevice', { as: admin, path: at });
    await expectGood('updateDevice', { as: admin, path: at, body: { label: 'y', user_id: path.user_id } });
    await expectGood('revokeDevice', { as: admin, path: at, body: { reason: '丢了' } });
    const unknown = { device_id: 'device-unheard-of' };
    await expectCode('getDevice', { as: admin, path: unknown }, 'NOT_FOUND');
    await expectCode(
      'updateDevice',
      { as: admin, path: unknown, body: { label: 'y', user_id: path.user_id } },
      'NOT_FOUND',
    );
    await expectCode('revokeDevice', { as: admin, path: unknown, body: {} }, 'NOT_FOUND');
  });

  it('keep the last admin, and the buyer of a device at work', async () => {
    const { admin, addPhone, database, phone } = app();
    for (const id of await database.read
      .knex('users')
      .where({ role: 'ADMIN' })
      .whereNot({ id: admin.user.id })
      .pluck('id')) {
      await call('updateUser', { as: admin, path: { user_id: id }, body: { status: 'DISABLED' } });
    }
    await expectCode(
      'updateUser',
      { as: admin, path: { user_id: admin.user.id }, body: { status: 'DISABLED' } },
      'LAST_ADMIN',
    );

    const busy = await addPhone('busy');
    await claimedTask(app(), busy);
    const body = { label: 'x', user_id: phone.user.id };
    const path = { device_id: busy.device_id };
    await expectCode('updateDevice', { as: admin, path, body }, 'DEVICE_BUSY');
    await call('revokeDevice', { as: admin, path, body: {} });
    await expectCode(
      'authorizeDevice',
      { as: admin, key: newKey(), body: { ...body, ...path } },
      'DEVICE_BUSY',
    );
  });
});

describe('drafts', () => {
  it('are written, rewritten and permitted', async () => {
    const { admin } = app();
    const key = newKey();
    const wish = { ...WISH, external_ref: 'ref-1' };
    const { json: task } = await expectGood('createTask', { as: admin, key, body: wish }, 201);
    await expectGood('createTask', { as: admin, key, body: wish }, 201);
    await expectCode('createTask', { as: admin, key, body: WISH }, 'IDEMPOTENCY_KEY_REUSED');
    await expectCode('createTask', { as: admin, key: newKey(), body: wish }, 'DUPLICATE_EXTERNAL_REF');
    await expectGood('listTasks', {
      as: admin,
      query: { status: ['DRAFT', 'PENDING'], q: '牛', sort: '-created_at' },
    });

    const path = { task_id: task.id };
    await expectGood('getTask', { as: admin, path });
    const { json: edited } = await expectGood('updateTask', {
      as: admin,
      path,
      body: { ...WISH, expected_task_version: 1 },
    });
    await expectCode(
      'updateTask',
      { as: admin, path, body: { ...WISH, title: 'x', expected_task_version: 1 } },
      'VERSION_CONFLICT',
    );
    const other = await makeDraft(app(), { external_ref: 'ref-2' });
    const taken = { ...WISH, external_ref: 'ref-2', expected_task_version: edited.version };
    await expectCode('updateTask', { as: admin, path, body: taken }, 'DUPLICATE_EXTERNAL_REF');
    expect(other.external_ref).toBe('ref-2');

    await expectGood('listTaskEvents', { as: admin, path });
    await expectCode('getTaskReferenceImage', { as: admin, path }, 'NOT_FOUND');
    await expectCode(
      'deleteReferenceImage',
      { as: admin, path, query: { expected_task_version: edited.version } },
      'NOT_FOUND',
    );
    const file = await newPicture();
    const put = (version: number, picture = file) =>
      ({ as: admin, path, query: { expected_task_version: version }, file: picture }) as const;
    const { json: pictured } = await expectGood('putReferenceImage', put(edited.version));
    await expectCode('putReferenceImage', put(1), 'VERSION_CONFLICT');
    await expectCode('putReferenceImage', put(pictured.version, Buffer.from('<svg/>')), 'INVALID_IMAGE');
    await expectCode(
      'putReferenceImage',
      put(pictured.version, Buffer.alloc(10 * 1024 * 1024 + 1)),
      'PAYLOAD_TOO_LARGE',
    );
    await expectGood('getTaskReferenceImage', { as: admin, path });
    await expectCode(
      'deleteReferenceImage',
      { as: admin, path, query: { expected_task_version: 1 } },
      'VERSION_CONFLICT',
    );
    const { json: bare } = await expectGood('deleteReferenceImage', {
      as: admin,
      path,
      query: { expected_task_version: pictured.version },
    });

    const permit = { as: admin, path, body: { expected_task_version: bare.version } };
    const { json: pending } = await expectGood('startPurchase', permit);
    await expectGood('startPurchase', permit);
    await expectCode('startPurchase', { ...permit, body: { expected_task_version: 1 } }, 'VERSION_CONFLICT');
    const now = pending.version;
    await expectCode(
      'startPurchase',
      { ...permit, body: { expected_task_version: now } },
      'INVALID_TASK_STATE',
    );
    await expectCode(
      'updateTask',
      { as: admin, path, body: { ...WISH, expected_task_version: now } },
      'INVALID_TASK_STATE',
    );
    await expectCode('putReferenceImage', put(now), 'INVALID_TASK_STATE');
    await expectCode(
      'deleteReferenceImage',
      { as: admin, path, query: { expected_task_version: now } },
      'INVALID_TASK_STATE',
    );
    await drain();
  });
});

/** Brings every waiting task to an end of its own, so that the next test claims only its own. */
async function drain(): Promise<void> {
  const waiting = await app().call('listTasks', {
    as: app().admin,
    query: { status: ['PENDING', 'CLAIMED'] },
  });
  for (const { status } of waiting.json.items) {
    app().clock.advance(3600_000);
    const phone = await app().addPhone(`drain-${newKey().slice(-12)}`);
    if (status !== undefined) await start(app(), await claim(app(), phone));
  }
}

describe('claiming', () => {
  it('asks for a ready, free device and one key and token for each claim', async () => {
    const { addPhone, clock } = app();
    await drain();
    const phone = await addPhone('claimant');
    const ask = (changes: OperationRequest = {}): OperationRequest => ({
      as: phone,
      key: newKey(),
      claimToken: newClaimToken(),
      body: { device_id: phone.device_id },
      ...changes,
    });
    await expectCode('claimNextTask', ask({ body: { device_id: 'another-device' } }), 'DEVICE_MISMATCH');
    await expectCode('claimNextTask', ask(), 'DEVICE_NOT_READY');
    await expectGood('sendDeviceHeartbeat', {
      as: phone,
      body: {
        device_id: phone.device_id,
        app_version: '1',
        android_version: '14',
        accessibility_connected: true,
        pinduoduo_installed: true,
      },
    });
    expect((await sendHeartbeat(app(), phone, { device_id: 'another-device' })).json.code).toBe(
      'DEVICE_MISMATCH',
    );
    produced.add('sendDeviceHeartbeat DEVICE_MISMATCH');

    const none = ask();
    await expectGood('claimNextTask', none, 204);
    expect((await expectGood('claimNextTask', none, 204)).headers['idempotent-replayed']).toBe('true');
    await expectCode('claimNextTask', ask({ claimToken: none.claimToken }), 'CLAIM_TOKEN_REUSED');
    await expectCode('claimNextTask', ask({ key: none.key }), 'IDEMPOTENCY_KEY_REUSED');

    await makePending(app());
    const one = ask();
    await expectGood('claimNextTask', one);
    await expectGood('claimNextTask', one);
    await expectCode('claimNextTask', ask(), 'DEVICE_HAS_ACTIVE_TASK');
    clock.advance(600_000);
    await expectCode('claimNextTask', one, 'CLAIM_REPLAY_EXPIRED');
  });
});

describe('a held task', () => {
  let phone: TestPhone;
  let held: Held;
  let count = 0;

  beforeEach(async () => {
    await drain();
    count += 1;
    phone = await app().addPhone(`holder-${count}`);
  });

  const bodyOf: Partial<Record<OperationId, (one: Held) => object>> = {
    startTask: (one) => ({ claim_generation: one.claim_generation, expected_version: one.version }),
    sendTaskHeartbeat: (one) => ({
      execution_id: one.execution_id,
      claim_generation: one.claim_generation,
      step: 'SEARCHING',
    }),
    fenceSubmission: offerOf,
    reportSubmissionResult: ({ execution_id, claim_generation }) => ({
      execution_id,
      claim_generation,
      outcome: 'UNKNOWN',
    }),
  };
  const KEYED: OperationId[] = ['startTask', 'fenceSubmission', 'reportSubmissionResult'];

  function requestFor(id: OperationId, one: Held, changes: object = {}): OperationRequest {
    const body = bodyOf[id]?.(one);
    return {
      ...on(one),
      ...(KEYED.includes(id) && { key: newKey() }),
      ...(body && { body: { ...body, ...changes } }),
      ...(id === 'getReferenceImage' && { query: { claim_generation: one.claim_generation, ...changes } }),
    };
  }

  it('is worked on to its end', async () => {
    const draft = await makeDraft(app());
    await startPurchase(app(), await putPicture(app(), draft));
    held = await claim(app(), phone);
    await expectGood('getHeldTask', on(held));
    await expectGood('getReferenceImage', requestFor('getReferenceImage', held));
    const begin = requestFor('startTask', held);
    const { json: started } = await expectGood('startTask', begin);
    await expectGood('startTask', begin);
    await expectCode(
      'startTask',
      { ...begin, body: { ...(begin.body as object), expected_version: 99 } },
      'IDEMPOTENCY_KEY_REUSED',
    );
    held = { ...held, version: started.version, execution_id: started.execution_id };
    await expectGood('sendTaskHeartbeat', requestFor('sendTaskHeartbeat', held));
    const fencing = requestFor('fenceSubmission', held);
    await expectGood('fenceSubmission', fencing);
    await expectGood('fenceSubmission', fencing);
    await expectCode(
      'fenceSubmission',
      { ...fencing, body: { ...offerOf(held), total_cents: 1 } },
      'IDEMPOTENCY_KEY_REUSED',
    );
    const result = requestFor('reportSubmissionResult', held, {
      outcome: 'ORDER_CREATED',
      order_no: 'PDD-1',
    });
    await expectGood('reportSubmissionResult', result);
    await expectGood('reportSubmissionResult', result);
    const other = { ...result, body: { ...(result.body as object), order_no: 'PDD-2' } };
    await expectCode('reportSubmissionResult', other, 'IDEMPOTENCY_KEY_REUSED');
    const path = { task_id: held.task_id };
    await expectCode(
      'startPurchase',
      { as: app().admin, path, body: { expected_task_version: 1 } },
      'SUBMISSION_EXISTS',
    );
  });

  const HELD_CALLS: OperationId[] = [
    'getHeldTask',
    'getReferenceImage',
    'startTask',
    'sendTaskHeartbeat',
    'fenceSubmission',
    'reportSubmissionResult',
  ];

  it.each(HELD_CALLS)('%s: not this task, token, claim, generation, execution', async (id) => {
    const { clock } = app();
    const codes = operationOf(operationEntries.find((entry) => entry.id === id)!)['x-error-codes'];
    const old = await claimedTask(app(), phone);
    clock.advance(600_000);
    held = await start(app(), await claim(app(), phone));
    expect(held.task_id).toBe(old.task_id);

    const good = requestFor(id, held);
    await expectCode(id, { ...good, path: UNKNOWN_TASK }, 'TASK_NOT_FOUND');
    await expectCode(id, { ...good, claimToken: newClaimToken() }, 'CLAIM_TOKEN_MISMATCH');
    if (codes.includes('CLAIM_NOT_CURRENT'))
      await expectCode(id, { ...good, claimToken: old.claimToken }, 'CLAIM_NOT_CURRENT');
    if (codes.includes('GENERATION_MISMATCH'))
      await expectCode(id, requestFor(id, held, { claim_generation: 99 }), 'GENERATION_MISMATCH');
    if (codes.includes('EXECUTION_MISMATCH')) {
      const execution_id = UNKNOWN_TASK.task_id;
      await expectCode(id, requestFor(id, held, { execution_id }), 'EXECUTION_MISMATCH');
    }
    if (codes.includes('LEASE_EXPIRED') && id !== 'startTask') {
      clock.advance(90_000);
      await expectCode(id, requestFor(id, held), 'LEASE_EXPIRED');
    }
  });

  it('getReferenceImage: NOT_FOUND without a picture', async () => {
    held = await claimedTask(app(), phone);
    await expectCode('getReferenceImage', requestFor('getReferenceImage', held), 'NOT_FOUND');
  });

  it('startTask: version, lease and state', async () => {
    held = await claimedTask(app(), phone);
    await expectCode(
      'startTask',
      requestFor('startTask', held, { expected_version: 99 }),
      'VERSION_CONFLICT',
    );
    app().clock.advance(600_000);
    await expectCode('startTask', requestFor('startTask', held), 'LEASE_EXPIRED');
    held = await start(app(), await claim(app(), phone));
    await expectCode('startTask', requestFor('startTask', held), 'INVALID_TASK_STATE');
  });

  it('after an unknown result nothing but a result is accepted', async () => {
    held = await fencedTask(app(), phone);
    expectStatus(await report(app(), held, { outcome: 'UNKNOWN' }), 200);
    for (const id of ['getReferenceImage', 'sendTaskHeartbeat', 'fenceSubmission'] as const) {
      await expectCode(id, requestFor(id, held), 'INVALID_TASK_STATE');
    }
  });

  it('fenceSubmission: version, offer, price and confirmation', async () => {
    held = await runningTask(app(), phone);
    const changed = (changes: object) => requestFor('fenceSubmission', held, changes);
    await expectCode('fenceSubmission', changed({ expected_version: 99 }), 'VERSION_CONFLICT');
    await expectCode('fenceSubmission', changed({ quantity: 3 }), 'OFFER_MISMATCH');
    await expectCode('fenceSubmission', changed({ total_cents: 10_001 }), 'PRICE_LIMIT_EXCEEDED');
    await expectCode(
      'fenceSubmission',
      changed({ confirmation_id: UNKNOWN_TASK.task_id }),
      'CONFIRMATION_STALE',
    );
    await fence(app(), held);
  });

  it('fenceSubmission: CONFIRMATION_REQUIRED where the wish asks for one', async () => {
    held = await runningTask(app(), phone, { confirmation_required: true });
    await expectCode('fenceSubmission', requestFor('fenceSubmission', held), 'CONFIRMATION_REQUIRED');
  });

  it('fenceSubmission: AUTHORIZATION_EXPIRED once the permission ran out', async () => {
    held = await runningTask(app(), phone, {}, { authorization_ttl_seconds: 60 });
    app().clock.advance(60_000);
    await expectCode('fenceSubmission', requestFor('fenceSubmission', held), 'AUTHORIZATION_EXPIRED');
  });
});

describe('the server itself', () => {
  it.each(['getHealth', 'getReadiness', 'getOpenapiYaml', 'getOpenapiJson'] as const)('%s', async (id) => {
    await expectGood(id, {});
  });
});

// Last: it looks back at the whole file.
describe('each listed code', () => {
  it('is produced', () => {
    const expected = operationEntries.flatMap((entry) =>
      operationOf(entry)
        ['x-error-codes'].filter(
          (code) => !(code in NEVER_PRODUCED) && !(`${entry.id} ${code}` in NOT_PRODUCED),
        )
        .map((code) => `${entry.id} ${code}`),
    );
    expect(expected.filter((one) => !produced.has(one))).toEqual([]);
  });

  it('and each good status too', () => {
    const expected = operationEntries.flatMap((entry) =>
      Object.keys(operationOf(entry).responses)
        .filter((status) => status.startsWith('2'))
        .map((status) => `${entry.id} ${status}`),
    );
    expect(expected.filter((one) => !produced.has(one))).toEqual([]);
  });

  it('is left out only for a reason that still holds', () => {
    const listed = operationEntries.flatMap((entry) =>
      operationOf(entry)['x-error-codes'].map((code) => `${entry.id} ${code}`),
    );
    expect(Object.keys(NOT_PRODUCED).filter((one) => produced.has(one) || !listed.includes(one))).toEqual([]);
  });
});
