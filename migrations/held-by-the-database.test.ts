import { v7 as uuidv7 } from 'uuid';
import { allFacts } from '../src/testing/all-facts';
import { openPurchase, type Purchase, type Running, type Submitting } from '../src/testing/purchase';

/** What the database refuses by itself, whatever the code above it does. */

let purchase: Purchase;
let running: Running;
let submitting: Submitting;
let now: string;

beforeAll(async () => {
  purchase = await openPurchase();
  now = purchase.clock.now();
  running = await purchase.running(await purchase.addPhone());
  submitting = await purchase.submitting();
});
afterAll(() => purchase.close());

// biome-ignore lint/suspicious/noExplicitAny: rows of any table
type Row = Record<string, any>;

/** A row like an existing one, with changes. */
async function like(table: string, where: object, changes: Row): Promise<Row> {
  const [row] = await purchase.rows(table, where);
  const { seq: _seq, ...rest } = row;
  return { ...rest, ...changes };
}

/** Runs a write that the database itself must refuse as this kind of violation, with nothing changed. */
async function expectViolation(
  kind: 'CHECK' | 'UNIQUE' | 'FOREIGNKEY' | 'NOTNULL',
  write: () => Promise<void>,
) {
  const before = await allFacts(purchase.database);
  const error = await write().then(
    () => undefined,
    (reason: unknown) => reason as { code?: string },
  );
  const codes = {
    CHECK: ['SQLITE_CONSTRAINT_CHECK', '23514'],
    UNIQUE: ['SQLITE_CONSTRAINT_UNIQUE', 'SQLITE_CONSTRAINT_PRIMARYKEY', '23505'],
    FOREIGNKEY: ['SQLITE_CONSTRAINT_FOREIGNKEY', '23503'],
    NOTNULL: ['SQLITE_CONSTRAINT_NOTNULL', '23502'],
  };
  expect(codes[kind]).toContain(error?.code);
  expect(await allFacts(purchase.database)).toBe(before);
}

const insert = (table: string, row: Row) =>
  purchase.database.write(async (work) => void (await work.trx(table).insert(row)));
const update = (table: string, where: object, changes: Row) =>
  purchase.database.write(async (work) => void (await work.trx(table).where(where).update(changes)));

const hash = () => `${uuidv7()}${uuidv7()}`.replaceAll('-', '').slice(0, 64);
const newTask = (changes: Row = {}) =>
  like(
    'tasks',
    { id: running.task_id },
    {
      id: uuidv7(),
      status: 'DRAFT',
      version: 1,
      claim_generation: 0,
      external_ref: null,
      ...changes,
    },
  );
const newClaim = (changes: Row) =>
  like('claims', { id: running.claim_id }, { id: uuidv7(), token_hash: hash(), generation: 2, ...changes });
const newAttempt = (changes: Row) =>
  like(
    'attempts',
    { id: running.attempt_id },
    {
      id: uuidv7(),
      generation: 2,
      execution_id: uuidv7(),
      ...changes,
    },
  );

describe('at most one', () => {
  it.each(['ACTIVE', 'FENCED'])(
    'authorization in force per task: a second one that is %s',
    async (status) => {
      const row = await like(
        'authorizations',
        { task_id: running.task_id },
        {
          id: uuidv7(),
          task_version: 9,
          status,
        },
      );
      await expectViolation('UNIQUE', () => insert('authorizations', row));
    },
  );

  it('authorization per task version', async () => {
    const closed = { id: uuidv7(), status: 'EXPIRED', closed_at: now };
    const row = await like('authorizations', { task_id: running.task_id }, closed);
    await expectViolation('UNIQUE', () => insert('authorizations', row));
  });

  it('open claim per task', async () => {
    await expectViolation('UNIQUE', async () => insert('claims', await newClaim({})));
  });

  it('claim and attempt per task and generation', async () => {
    const closed = { closed_at: now, closed_status: 'PENDING', closed_version: 4 };
    await expectViolation('UNIQUE', async () =>
      insert('claims', await newClaim({ ...closed, generation: 1 })),
    );
    const ended = { generation: 1, status: 'ABANDONED', ended_at: now };
    await expectViolation('UNIQUE', async () => insert('attempts', await newAttempt(ended)));
  });

  it('claim per token, of whatever task', async () => {
    const { task } = await purchase.draft();
    const row = await newClaim({ task_id: task.id, token_hash: submitting.token_hash });
    await expectViolation('UNIQUE', () => insert('claims', row));
  });

  it('live attempt per device, of whatever task', async () => {
    const { task } = await purchase.draft();
    const claim = await newClaim({ task_id: task.id, device_id: running.phone.device_id });
    await insert('claims', claim);
    const row = await newAttempt({ task_id: task.id, claim_id: claim.id });
    await expectViolation('UNIQUE', () => insert('attempts', row));
  });

  it('attempt per claim and per execution id', async () => {
    const { task } = await purchase.draft();
    const ended = { task_id: task.id, status: 'ABANDONED', ended_at: now };
    await expectViolation('UNIQUE', async () => insert('attempts', await newAttempt(ended)));
    const claim = await newClaim({ task_id: task.id });
    await insert('claims', claim);
    await expectViolation('UNIQUE', async () =>
      insert(
        'attempts',
        await newAttempt({ ...ended, claim_id: claim.id, execution_id: running.execution_id }),
      ),
    );
  });

  it('open confirmation per attempt, and one per ordinal', async () => {
    const row = {
      id: uuidv7(),
      task_id: running.task_id,
      attempt_id: running.attempt_id,
      ordinal: 1,
      status: 'REQUESTED',
      title: 't',
      shop_name: 's',
      unit_price_cents: 1,
      quantity: 1,
      total_cents: 1,
      evidence_ids: '[]',
      requested_at: now,
    };
    await insert('confirmations', row);
    await expectViolation('UNIQUE', () => insert('confirmations', { ...row, id: uuidv7(), ordinal: 2 }));
    const withdrawn = { status: 'WITHDRAWN', decided_at: now };
    await expectViolation('UNIQUE', () => insert('confirmations', { ...row, ...withdrawn, id: uuidv7() }));
  });

  it('submission per task, per attempt and per authorization, ever', async () => {
    const { id, ...rest } = await like('order_submissions', { task_id: submitting.task_id }, {});
    const others = {
      task_id: running.task_id,
      attempt_id: running.attempt_id,
      authorization_id: running.authorization_id,
    };
    for (const same of ['task_id', 'attempt_id', 'authorization_id']) {
      const row = { ...rest, ...others, [same]: rest[same], id: uuidv7() };
      await expectViolation('UNIQUE', () => insert('order_submissions', row));
    }
    expect(id).toBe(submitting.submission_id);
  });

  it('record per principal, operation and key', async () => {
    const [record] = await purchase.rows('idempotency_records', { operation: 'startTask' });
    await expectViolation('UNIQUE', () => insert('idempotency_records', record));
  });

  it('task per external reference', async () => {
    await purchase.draft({ external_ref: 'REQ-1' });
    await expectViolation('UNIQUE', async () => insert('tasks', await newTask({ external_ref: 'REQ-1' })));
  });

  it('user per name without case, and one credential per token', async () => {
    const user = await like('users', { username: 'boss' }, { id: uuidv7(), username: 'BOSS' });
    await expectViolation('UNIQUE', () => insert('users', user));
    for (const table of ['sessions', 'access_tokens']) {
      const row = await like(table, {}, { id: uuidv7() });
      await expectViolation('UNIQUE', () => insert(table, row));
    }
  });

  it('picture and progress event per client id of an attempt', async () => {
    const sha256 = await purchase.picture();
    const shared = { task_id: running.task_id, attempt_id: running.attempt_id, late: false, created_at: now };
    const evidence = {
      ...shared,
      id: uuidv7(),
      client_evidence_id: 'e',
      kind: 'OFFER',
      image_sha256: sha256,
      received_sha256: sha256,
    };
    const progress = { ...shared, id: uuidv7(), client_event_id: 'p', step: 'S', content_sha256: sha256 };
    for (const [table, row] of [
      ['evidence', evidence],
      ['progress_events', progress],
    ] as const) {
      await insert(table, row);
      await expectViolation('UNIQUE', () => insert(table, { ...row, id: uuidv7() }));
      await update(table, { id: row.id }, { attempt_id: submitting.attempt_id });
    }
  });
});

describe('a task', () => {
  it.each<[string, Row]>([
    ['an unknown status', { status: 'DONE' }],
    ['version 0', { version: 0 }],
    ['a negative generation', { claim_generation: -1 }],
    ['no pieces', { quantity: 0 }],
    ['1000 pieces', { quantity: 1_000 }],
    ['a free piece', { max_unit_price_cents: 0 }],
    ['a piece above a million', { max_unit_price_cents: 100_000_001 }],
    ['no money', { max_total_cents: 0 }],
    ['more than a million', { max_total_cents: 100_000_001 }],
    ['a terminal status without its end', { status: 'CANCELED' }],
    ['an end without a terminal status', { ended_at: '2026-03-02T08:00:00.000Z' }],
    ['PENDING without the end of its authorization', { status: 'PENDING' }],
    ['a draft with the end of an authorization', { authorization_expires_at: '2026-03-02T08:00:00.000Z' }],
    ['CLAIMED without a lease', { status: 'CLAIMED', authorization_expires_at: '2026-03-02T08:00:00.000Z' }],
    ['a draft with a lease', { lease_expires_at: '2026-03-02T08:00:00.000Z' }],
  ])('with %s is refused', async (_what, changes) => {
    await expectViolation('CHECK', async () => insert('tasks', await newTask(changes)));
  });

  it('as of the tests above is otherwise accepted', async () => {
    await insert('tasks', await newTask());
    await insert('tasks', await newTask({ status: 'CANCELED', ended_at: now }));
  });

  it.each(['title', 'status', 'version', 'created_at', 'created_by', 'confirmation_required'])(
    'without %s is refused',
    async (column) => {
      await expectViolation('NOTNULL', async () => insert('tasks', await newTask({ [column]: null })));
    },
  );

  it.each<[string, Row]>([
    ['its author', { created_by: uuidv7() }],
    ['its picture', { reference_image_sha256: 'a'.repeat(64) }],
    ['its original', { duplicated_from: uuidv7() }],
  ])('without %s anywhere is refused', async (_what, changes) => {
    await expectViolation('FOREIGNKEY', async () => insert('tasks', await newTask(changes)));
  });

  it('is not deleted while anything tells of it', async () => {
    const remove = () =>
      purchase.database.write(
        async (work) => void (await work.trx('tasks').where('id', running.task_id).delete()),
      );
    await expectViolation('FOREIGNKEY', remove);
  });
});

describe('an attempt', () => {
  it.each<[string, Row]>([
    ['CLAIMED that has ended', { status: 'CLAIMED', execution_id: null, started_at: null, ended_at: 'now' }],
    ['ORDERING that has ended', { ended_at: 'now' }],
    ['SUCCEEDED that has not ended', { status: 'SUCCEEDED' }],
    ['ABANDONED that has not ended', { status: 'ABANDONED' }],
    ['FAILED that has not ended', { status: 'FAILED', failure_code: 'OTHER' }],
    ['FAILED without a code', { status: 'FAILED', ended_at: 'now' }],
    ['not FAILED with a code', { failure_code: 'OTHER' }],
    ['CLAIMED with an execution', { status: 'CLAIMED' }],
    ['ORDERING without an execution', { execution_id: null, started_at: null }],
    ['FENCED without an execution', { status: 'FENCED', execution_id: null, started_at: null }],
    ['with an execution that never started', { started_at: null }],
    ['of an unknown status', { status: 'LOST' }],
  ])('%s is refused', async (_what, changes) => {
    const written = { ...changes, ...(changes.ended_at && { ended_at: now }) };
    await expectViolation('CHECK', () => update('attempts', { id: running.attempt_id }, written));
  });

  it('FENCED may have ended or not', async () => {
    await update('attempts', { id: submitting.attempt_id }, { ended_at: now });
    await update('attempts', { id: submitting.attempt_id }, { ended_at: null });
  });
});

describe('other facts', () => {
  it.each<[string, string, Row]>([
    ['an authorization of an unknown status', 'authorizations', { status: 'GIVEN' }],
    ['an authorization that is over without its end', 'authorizations', { status: 'EXPIRED' }],
    ['an authorization in force with an end', 'authorizations', { closed_at: 'now' }],
    ['a claim of generation 0', 'claims', { generation: 0 }],
    ['a claim with a raw token', 'claims', { token_hash: 'x'.repeat(43) }],
    ['a closed claim that forgot the status', 'claims', { closed_at: 'now', closed_version: 4 }],
    ['a closed claim that forgot the version', 'claims', { closed_at: 'now', closed_status: 'DRAFT' }],
    ['an open claim with a closing status', 'claims', { closed_status: 'DRAFT' }],
    [
      'a claim closed in an unknown status',
      'claims',
      { closed_at: 'now', closed_status: 'GONE', closed_version: 4 },
    ],
    ['a submission of an unknown status', 'order_submissions', { status: 'DONE' }],
    ['a submission SUBMITTED without an order', 'order_submissions', { status: 'SUBMITTED' }],
    ['a submission resolved without a resolution', 'order_submissions', { status: 'MANUAL_RESOLVED' }],
    [
      'a resolution without anybody',
      'order_submissions',
      { status: 'MANUAL_RESOLVED', resolution: 'NO_ORDER', resolved_at: 'now', note: 'n' },
    ],
    [
      'a resolution at no time',
      'order_submissions',
      { status: 'MANUAL_RESOLVED', resolution: 'NO_ORDER', resolved_by: 'admin', note: 'n' },
    ],
    [
      'an order found without its number',
      'order_submissions',
      { status: 'MANUAL_RESOLVED', resolution: 'ORDER_CREATED', resolved_at: 'now', resolved_by: 'admin' },
    ],
    [
      'no order found without a note',
      'order_submissions',
      { status: 'MANUAL_RESOLVED', resolution: 'NO_ORDER', resolved_at: 'now', resolved_by: 'admin' },
    ],
    ['a fenced submission with a resolution', 'order_submissions', { resolution: 'NO_ORDER' }],
    ['an event by nobody known', 'task_events', { actor_type: 'ROBOT' }],
    ['an event to an unknown status', 'task_events', { to_status: 'DONE' }],
    ['a record of an unknown outcome', 'idempotency_records', { outcome: 'MAYBE' }],
    ['a record of a task without it', 'idempotency_records', { outcome: 'TASK', task_id: null }],
    ['a record of a creation without it', 'idempotency_records', { outcome: 'CREATED', resource_id: null }],
    [
      'a record of no task without its token',
      'idempotency_records',
      { outcome: 'NO_TASK', token_hash: null },
    ],
    ['a record with a short hash', 'idempotency_records', { request_hash: 'abc' }],
    ['a user of an unknown role', 'users', { role: 'ROOT' }],
    ['a user of an unknown status', 'users', { status: 'AWAY' }],
    ['a user disabled at no time', 'users', { status: 'DISABLED' }],
    ['a device of an unknown status', 'devices', { status: 'LOST' }],
    ['a device revoked at no time', 'devices', { status: 'REVOKED' }],
    ['a session that ended for no reason', 'sessions', { ended_at: 'now' }],
    ['a session with a reason that did not end', 'sessions', { end_reason: 'LOGGED_OUT' }],
    ['a token that ended for no reason', 'access_tokens', { ended_at: 'now' }],
    ['a token that ended for an unknown reason', 'access_tokens', { ended_at: 'now', end_reason: 'WHIM' }],
    ['an audit event by nobody known', 'audit_events', { actor_type: 'ROBOT' }],
  ])('%s is refused', async (_what, table, changes) => {
    const written = Object.fromEntries(
      Object.entries(changes).map(([column, value]) => {
        if (column.endsWith('_at') && value === 'now') return [column, now];
        return value === 'admin' ? [column, purchase.admin.user_id] : [column, value];
      }),
    );
    const where: Row = {
      authorizations: { id: running.authorization_id },
      claims: { id: running.claim_id },
      order_submissions: { id: submitting.submission_id },
      task_events: { task_id: running.task_id },
      idempotency_records: { operation: 'startTask' },
    };
    await expectViolation('CHECK', () => update(table, where[table] ?? {}, written));
  });

  it.each<[string, Row]>([
    ['an order without its number', { outcome: 'ORDER_CREATED', order_no: null }],
    ['an unknown outcome', { outcome: 'MAYBE' }],
    ['an acknowledgement by nobody', { acknowledged_at: '2026-03-02T08:00:00.000Z' }],
  ])('a report of %s is refused', async (_what, changes) => {
    const report = {
      id: uuidv7(),
      task_id: running.task_id,
      attempt_id: running.attempt_id,
      outcome: 'UNKNOWN',
      evidence_ids: '[]',
      late: true,
      contradicting: false,
      reported_at: now,
    };
    await expectViolation('CHECK', () => insert('submission_reports', { ...report, ...changes }));
  });

  it.each<[string, Row]>([
    ['an unknown status', { status: 'ASKED' }],
    ['an open question with an answer', { decided_at: '2026-03-02T08:00:00.000Z' }],
    ['an approval at no time', { status: 'APPROVED' }],
    ['an approval by nobody', { status: 'APPROVED', decided_at: '2026-03-02T08:00:00.000Z' }],
  ])('a confirmation with %s is refused', async (_what, changes) => {
    const confirmation = {
      id: uuidv7(),
      task_id: submitting.task_id,
      attempt_id: submitting.attempt_id,
      ordinal: 1,
      status: 'REQUESTED',
      title: 't',
      shop_name: 's',
      unit_price_cents: 1,
      quantity: 1,
      total_cents: 1,
      evidence_ids: '[]',
      requested_at: now,
    };
    await expectViolation('CHECK', () => insert('confirmations', { ...confirmation, ...changes }));
  });

  it.each<[string, Row]>([
    ['claims', { task_id: uuidv7() }],
    ['claims', { device_id: 'phone-of-nobody' }],
    ['claims', { user_id: uuidv7() }],
    ['claims', { authorization_id: uuidv7() }],
    ['attempts', { claim_id: uuidv7() }],
    ['order_submissions', { attempt_id: uuidv7() }],
    ['task_events', { task_id: uuidv7() }],
    ['task_events', { attempt_id: uuidv7() }],
    ['idempotency_records', { user_id: uuidv7() }],
    ['access_tokens', { device_id: 'phone-of-nobody' }],
    ['devices', { user_id: uuidv7() }],
  ])('%s never point at nothing: %j', async (table, changes) => {
    const first: Row = {
      claims: { id: running.claim_id },
      attempts: { id: running.attempt_id },
      order_submissions: { id: submitting.submission_id },
      idempotency_records: { operation: 'startTask', device_id: running.phone.device_id },
      devices: { device_id: running.phone.device_id },
      access_tokens: { id: running.phone.token_id },
    };
    const [event] = await purchase.rows('task_events');
    await expectViolation('FOREIGNKEY', () => update(table, first[table] ?? { id: event.id }, changes));
  });

  it('a picture without its whole digest is refused', async () => {
    const image = { sha256: 'abc', bytes: 1, width: 1, height: 1, created_at: now };
    await expectViolation('CHECK', () => insert('images', image));
  });
});
