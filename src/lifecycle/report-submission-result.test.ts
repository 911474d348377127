import { v7 as uuidv7 } from 'uuid';
import type { ErrorCode } from '../contract/generated/types.gen';
import { lockTask, moveTask } from '../store/tasks';
import { allFacts } from '../testing/all-facts';
import { expectRefusal } from '../testing/expect-refusal';
import { expectInvariants } from '../testing/invariants';
import { openPurchase, type Purchase, type Running, type Submitting } from '../testing/purchase';
import type { ResultRequest } from './report-submission-result';

let purchase: Purchase;

beforeEach(async () => {
  purchase = await openPurchase();
});
afterEach(async () => {
  await expectInvariants(purchase.database);
  await purchase.close();
});

const send = (running: Running, over: Partial<ResultRequest> = {}) =>
  purchase.callResult(running.phone, purchase.resultRequest(running, over));
const reports = (task_id: string) =>
  purchase.database.read.knex('submission_reports').where({ task_id }).orderBy('id');

/** Sends a result that must leave a report and an event and nothing else. */
async function expectOnlyNoted(running: Running, over: Partial<ResultRequest> = {}) {
  const before = await purchase.facts(running.task_id);
  const [eventsBefore, reportsBefore] = [
    await purchase.events(running.task_id),
    await reports(running.task_id),
  ];
  const { held, replayed } = await send(running, over);
  expect(replayed).toBe(false);
  expect(held.claim.id).toBe(running.claim_id);
  expect(await purchase.facts(running.task_id)).toEqual(before);
  const events = await purchase.events(running.task_id);
  expect(events.slice(0, -1)).toEqual(eventsBefore);
  expect(events.at(-1)).toMatchObject({
    type: 'submission.reported',
    from_status: before.task.status,
    to_status: before.task.status,
    version: before.task.version,
    attempt_id: running.attempt_id,
    actor_device_id: running.phone.device_id,
  });
  const after = await reports(running.task_id);
  expect(after).toHaveLength(reportsBefore.length + 1);
  return after.find((report) => !reportsBefore.some(({ id }) => id === report.id));
}

describe('reportSubmissionResult', () => {
  describe('the first result of the fenced attempt', () => {
    it('ORDER_CREATED: ORDERED, attempt SUCCEEDED, claim closed, authorization FENCED, one event', async () => {
      const submitting = await purchase.submitting();
      purchase.clock.advance(1_000);
      const evidence_ids = [uuidv7()];
      const { held } = await send(submitting, { order_no: 'PDD-1', amount_cents: 8_800, evidence_ids });

      const now = purchase.clock.now();
      expect(held.facts.task).toMatchObject({ status: 'ORDERED', version: 6 });
      expect(await purchase.facts(submitting.task_id)).toMatchObject({
        task: { status: 'ORDERED', version: 6, ended_at: now },
        authorization: { status: 'FENCED', closed_at: null },
        claim: { closed_at: now, closed_status: 'ORDERED', closed_version: 6 },
        attempt: { status: 'SUCCEEDED', ended_at: now },
        submission: {
          id: submitting.submission_id,
          status: 'SUBMITTED',
          reported_at: now,
          order_no: 'PDD-1',
          amount_cents: 8_800,
          resolution: null,
        },
      });
      expect(await reports(submitting.task_id)).toMatchObject([
        {
          attempt_id: submitting.attempt_id,
          submission_id: submitting.submission_id,
          outcome: 'ORDER_CREATED',
          order_no: 'PDD-1',
          amount_cents: 8_800,
          evidence_ids: JSON.stringify(evidence_ids),
          late: false,
          contradicting: false,
          reported_at: now,
          acknowledged_at: null,
        },
      ]);
      expect(await purchase.lastEvent(submitting.task_id)).toEqual({
        type: 'task.order_created',
        from_status: 'SUBMITTING',
        to_status: 'ORDERED',
        version: 6,
        actor: ['DEVICE', submitting.phone.user_id, submitting.phone.device_id],
        attempt_id: submitting.attempt_id,
        detail: { outcome: 'ORDER_CREATED', order_no: 'PDD-1', amount_cents: 8_800 },
      });
      expect(await purchase.events(submitting.task_id)).toHaveLength(6);
    });

    it.each(['UNKNOWN', 'NOT_SUBMITTED'] as const)(
      '%s: NEEDS_MANUAL, attempt FENCED and ended, claim and authorization kept for a person',
      async (outcome) => {
        const submitting = await purchase.submitting();
        await send(submitting, { outcome });
        const now = purchase.clock.now();
        expect(await purchase.facts(submitting.task_id)).toMatchObject({
          task: { status: 'NEEDS_MANUAL', version: 6, ended_at: null },
          authorization: { status: 'FENCED', closed_at: null },
          claim: { closed_at: null },
          attempt: { status: 'FENCED', ended_at: now },
          submission: { status: 'RECONCILIATION_REQUIRED', reported_at: now, order_no: null },
        });
        expect(await purchase.lastEvent(submitting.task_id)).toMatchObject({
          type: 'task.submission_uncertain',
          from_status: 'SUBMITTING',
          to_status: 'NEEDS_MANUAL',
          version: 6,
          attempt_id: submitting.attempt_id,
          detail: { outcome },
        });
      },
    );

    it('decides although its lease has run out, and is marked late', async () => {
      const submitting = await purchase.submitting();
      purchase.clock.set(submitting.lease_expires_at);
      await send(submitting);
      expect(await purchase.standing(submitting.task_id)).toEqual(['ORDERED', 6]);
      expect(await reports(submitting.task_id)).toMatchObject([{ late: true, contradicting: false }]);
    });

    it('is not late 1 ms before the lease ends', async () => {
      const submitting = await purchase.submitting();
      purchase.clock.set(submitting.lease_expires_at);
      purchase.clock.advance(-1);
      await send(submitting);
      expect(await reports(submitting.task_id)).toMatchObject([{ late: false }]);
    });

    it('decides when it names its own submission', async () => {
      const submitting = await purchase.submitting();
      await send(submitting, { submission_id: submitting.submission_id });
      expect(await purchase.standing(submitting.task_id)).toEqual(['ORDERED', 6]);
    });

    it('takes unknown evidence ids along without refusing', async () => {
      const submitting = await purchase.submitting();
      await send(submitting, { evidence_ids: [uuidv7(), uuidv7()] });
      expect(await purchase.standing(submitting.task_id)).toEqual(['ORDERED', 6]);
    });
  });

  describe('what only leaves a report and an event', () => {
    it('a result that names another submission', async () => {
      const submitting = await purchase.submitting();
      const report = await expectOnlyNoted(submitting, { submission_id: uuidv7(), outcome: 'UNKNOWN' });
      expect(report).toMatchObject({ submission_id: null, late: true, contradicting: false });
    });

    it('an order that names another submission contradicts', async () => {
      const report = await expectOnlyNoted(await purchase.submitting(), { submission_id: uuidv7() });
      expect(report).toMatchObject({ submission_id: null, contradicting: true });
    });

    it.each(['UNKNOWN', 'NOT_SUBMITTED'] as const)(
      'from a running attempt that never fenced: %s',
      async (outcome) => {
        const report = await expectOnlyNoted(await purchase.running(), { outcome });
        expect(report).toMatchObject({ submission_id: null, late: true, contradicting: false });
      },
    );

    it('from a running attempt that never fenced, an order contradicts', async () => {
      const report = await expectOnlyNoted(await purchase.running());
      expect(report).toMatchObject({ submission_id: null, order_no: 'P-1', contradicting: true });
    });

    it('from an attempt whose claim was closed by a cancellation', async () => {
      const running = await purchase.running();
      await purchase.canceled(running);
      expect(await expectOnlyNoted(running, { outcome: 'UNKNOWN' })).toMatchObject({ late: true });
      expect(await expectOnlyNoted(running)).toMatchObject({ contradicting: true });
    });

    it('from an earlier attempt, while another attempt has fenced the task', async () => {
      const foreign = await purchase.running();
      await purchase.database.write(async (work) => {
        // Back to draft by a person, then anew to another phone.
        await work
          .trx('attempts')
          .where('id', foreign.attempt_id)
          .update({ status: 'ABANDONED', ended_at: work.now });
        await work
          .trx('authorizations')
          .where('id', foreign.authorization_id)
          .update({ status: 'ABANDONED', closed_at: work.now });
        await work
          .trx('claims')
          .where('id', foreign.claim_id)
          .update({ closed_at: work.now, closed_status: 'DRAFT', closed_version: 5 });
        const facts = await lockTask(work, foreign.task_id);
        await moveTask(work, purchase.admin, facts!, 'task.reset_to_draft');
      });
      await purchase.press(foreign.task_id, 5);
      const other = await purchase.addPhone();
      const fenced = await purchase.fence(await purchase.start(await purchase.claim(other)));
      expect(fenced.task_id).toBe(foreign.task_id);

      const unknown = await expectOnlyNoted(foreign, { outcome: 'UNKNOWN' });
      expect(unknown).toMatchObject({ submission_id: null, contradicting: false });
      const order = await expectOnlyNoted(foreign, { submission_id: fenced.submission_id });
      expect(order).toMatchObject({ submission_id: null, contradicting: true, late: true });
      await purchase.report(fenced);
      expect(await purchase.standing(fenced.task_id)).toEqual(['ORDERED', 10]);
    });

    it.each([
      ['ORDER_CREATED', 'the same order again', {}, false],
      ['ORDER_CREATED', 'a second order number', { order_no: 'P-2' }, true],
      ['UNKNOWN', 'not knowing', { outcome: 'UNKNOWN' }, false],
      ['NOT_SUBMITTED', 'no submission', { outcome: 'NOT_SUBMITTED' }, true],
    ] as const)('after the order was recorded: %s, %s', async (_outcome, _what, over, contradicting) => {
      const ordered = await purchase.ordered();
      const report = await expectOnlyNoted(ordered, over);
      expect(report).toMatchObject({ submission_id: ordered.submission_id, late: true, contradicting });
    });

    it.each([
      [{}, false],
      [{ outcome: 'UNKNOWN' }, false],
      [{ outcome: 'NOT_SUBMITTED' }, false],
    ] as const)('while a person must find out: %p', async (over, contradicting) => {
      const submitting = await purchase.submitting();
      await purchase.report(submitting, { outcome: 'UNKNOWN' });
      expect(await expectOnlyNoted(submitting, over)).toMatchObject({ late: true, contradicting });
    });

    it.each([
      ['NO_ORDER', {}, true],
      ['NO_ORDER', { outcome: 'UNKNOWN' }, false],
      ['NO_ORDER', { outcome: 'NOT_SUBMITTED' }, false],
      ['ORDER_CREATED', {}, false],
      ['ORDER_CREATED', { order_no: 'P-2' }, true],
      ['ORDER_CREATED', { outcome: 'UNKNOWN' }, false],
      ['ORDER_CREATED', { outcome: 'NOT_SUBMITTED' }, true],
    ] as const)('after a person resolved it as %s: %p', async (resolution, over, contradicting) => {
      const submitting = await purchase.submitting();
      await purchase.report(submitting, { outcome: 'UNKNOWN' });
      await purchase.resolved(submitting.task_id, resolution);
      expect(await expectOnlyNoted(submitting, over)).toMatchObject({ late: true, contradicting });
    });
  });

  // -------------------------------------------------------------------------------------- fixed order

  interface Fault {
    code: ErrorCode;
    bend(request: ResultRequest): ResultRequest;
  }
  let spentKey: string;
  const faults: Fault[] = [
    { code: 'IDEMPOTENCY_KEY_REUSED', bend: (request) => ({ ...request, idempotency_key: spentKey }) },
    { code: 'TASK_NOT_FOUND', bend: (request) => ({ ...request, task_id: uuidv7() }) },
    { code: 'CLAIM_TOKEN_MISMATCH', bend: (request) => ({ ...request, token_hash: 'f'.repeat(64) }) },
    { code: 'GENERATION_MISMATCH', bend: (request) => ({ ...request, claim_generation: 9 }) },
    { code: 'EXECUTION_MISMATCH', bend: (request) => ({ ...request, execution_id: uuidv7() }) },
  ];
  /** Neighbours are enough: the guards stand in one row. */
  const pairs = faults.slice(1).map((second, index) => [faults[index]!, second] as const);

  async function refuse(present: Fault[]): Promise<void> {
    spentKey = (await purchase.ordered()).result_request.idempotency_key;
    const submitting = await purchase.submitting();
    const request = present.reduce((bent, fault) => fault.bend(bent), purchase.resultRequest(submitting));
    await expectRefusal(purchase.database, present[0]!.code, () =>
      purchase.callResult(submitting.phone, request),
    );
  }

  it.each(faults.map((fault) => [fault.code, fault] as const))('refuses %s alone', (_code, fault) =>
    refuse([fault]),
  );
  it.each(pairs.map(([first, second]) => [first.code, second.code, first, second] as const))(
    'refuses %s before %s',
    (_first, _second, first, second) => refuse([first, second]),
  );

  it('refuses EXECUTION_MISMATCH for a claim that was never started, open or closed', async () => {
    const claimed = await purchase.claimed();
    const never = { ...claimed, execution_id: uuidv7(), start_request: purchase.startRequest(claimed) };
    await expectRefusal(purchase.database, 'EXECUTION_MISMATCH', () => send(never));
    await purchase.takenOver(claimed, await purchase.addPhone());
    await expectRefusal(purchase.database, 'EXECUTION_MISMATCH', () => send(never));
  });

  it('refuses TASK_NOT_FOUND to a pair that never held the task', async () => {
    const submitting = await purchase.submitting();
    const phone = await purchase.addPhone();
    await expectRefusal(purchase.database, 'TASK_NOT_FOUND', () => send({ ...submitting, phone }));
  });

  // --------------------------------------------------------------------------------------------- replay

  it('replays the same fact as it stands now, on an open and on a closed claim, and writes nothing', async () => {
    const submitting: Submitting = await purchase.submitting();
    const unknown = await purchase.report(submitting, { outcome: 'UNKNOWN' });
    const open = await allFacts(purchase.database);
    const first = await purchase.callResult(unknown.phone, unknown.result_request);
    expect(first).toMatchObject({ replayed: true, held: { facts: { task: { status: 'NEEDS_MANUAL' } } } });
    expect(await allFacts(purchase.database)).toBe(open);

    await purchase.resolved(submitting.task_id, 'NO_ORDER');
    const closed = await allFacts(purchase.database);
    const second = await purchase.callResult(unknown.phone, unknown.result_request);
    expect(second).toMatchObject({
      replayed: true,
      held: { claim: { id: submitting.claim_id, closed_status: 'FAILED', closed_version: 7 } },
    });
    expect(await allFacts(purchase.database)).toBe(closed);
  });

  it('replays what was only noted without noting it twice', async () => {
    const running = await purchase.running();
    const request = purchase.resultRequest(running, { outcome: 'UNKNOWN' });
    await purchase.callResult(running.phone, request);
    const before = await allFacts(purchase.database);
    expect((await purchase.callResult(running.phone, request)).replayed).toBe(true);
    expect(await allFacts(purchase.database)).toBe(before);
  });

  it.each([
    [{ order_no: 'P-2' }],
    [{ outcome: 'UNKNOWN' as const }],
    [{ amount_cents: 1 }],
    [{ evidence_ids: [] }],
  ])('refuses IDEMPOTENCY_KEY_REUSED under the same key with %p', async (change) => {
    const ordered = await purchase.ordered();
    await expectRefusal(purchase.database, 'IDEMPOTENCY_KEY_REUSED', () =>
      purchase.callResult(ordered.phone, { ...ordered.result_request, ...change }),
    );
  });
});
