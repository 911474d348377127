import { v7 as uuidv7 } from 'uuid';
import { revokeDevice } from '../access/revoke-device';
import { updateUser } from '../access/update-user';
import { TASK_STATUSES, type TaskStatus } from '../contract/moves';
import { attentionReasons, isWithoutAccess } from '../lifecycle/eligibility';
import { refusalOf } from '../testing/expect-refusal';
import { openPurchase, type Purchase, shifted } from '../testing/purchase';
import {
  type AttentionFilter,
  findTaskDetail,
  listTaskEvents,
  listTasks,
  type TaskDetailFacts,
  type TaskListFilter,
} from './reports';
import { lockTask, moveTask } from './tasks';

let purchase: Purchase;

beforeEach(async () => {
  purchase = await openPurchase();
});
afterEach(() => purchase.close());

const list = (filter: Partial<TaskListFilter> = {}, now = purchase.clock.now()) =>
  listTasks(purchase.database.read, { limit: 100, ...filter }, now);
const idsOf = async (filter: Partial<TaskListFilter> = {}, now?: string) =>
  (await list(filter, now)).items.map(({ task }) => task.id);
const titlesOf = async (filter: Partial<TaskListFilter> = {}) =>
  (await list(filter)).items.map(({ task }) => task.title).sort();

describe('listTasks', () => {
  describe('filters', () => {
    it('by one status or several', async () => {
      const draft = await purchase.draft();
      const ordered = await purchase.ordered();
      const running = await purchase.running();
      const pending = await purchase.pending();
      expect(await idsOf({ status: ['DRAFT'] })).toEqual([draft.task.id]);
      expect((await idsOf({ status: ['PENDING', 'RUNNING'] })).sort()).toEqual(
        [pending.task.id, running.task_id].sort(),
      );
      expect(await idsOf({ status: ['ORDERED'] })).toEqual([ordered.task_id]);
      expect(await idsOf({ status: ['CANCELED'] })).toEqual([]);
      expect(await idsOf({ status: [] })).toHaveLength(4);
    });

    it('by creation: from is inclusive, to is exclusive', async () => {
      const at = purchase.clock.now();
      const { task } = await purchase.draft();
      expect(await idsOf({ created_from: at })).toEqual([task.id]);
      expect(await idsOf({ created_from: shifted(at, 1) })).toEqual([]);
      expect(await idsOf({ created_to: at })).toEqual([]);
      expect(await idsOf({ created_to: shifted(at, 1) })).toEqual([task.id]);
    });

    it('by all at once', async () => {
      const at = purchase.clock.now();
      const { task } = await purchase.draft({ title: 'red cup' });
      await purchase.draft({ title: 'blue cup' });
      await purchase.pending({ title: 'red cup' });
      expect(await idsOf({ status: ['DRAFT'], q: 'red', created_from: at, sort: 'created_at' })).toEqual([
        task.id,
      ]);
    });
  });

  describe('search', () => {
    it.each([
      ['a title', 'earphones', true],
      ['a title in another case', 'EARPHONES', true],
      ['Chinese', '蓝牙', true],
      ['Chinese and Latin together', '耳机 blue', true],
      ['keywords', 'noise', true],
      ['a shop', '旗舰', true],
      ['an external reference', 'req-7', true],
      ['an order number', 'PDD-42', true],
      ['nothing that is there', '手机', false],
      ['a buyer note, which is not searched', 'doorstep', false],
    ])('finds %s', async (_what, q, found) => {
      const submitting = await purchase.fence(
        await purchase.running(undefined, {
          keywords: 'noise cancelling',
          shop_name: '官方旗舰店',
          buyer_note: 'doorstep',
          external_ref: 'REQ-7',
        } as object),
      );
      await purchase.report(submitting, { order_no: 'PDD-42' });
      await purchase.draft({ title: 'other', external_ref: 'other' });
      expect(await idsOf({ q })).toEqual(found ? [submitting.task_id] : []);
    });

    it.each([
      ['%', ['100% cotton']],
      ['_', ['snake_case']],
      ['!', ['wow! nice']],
      ['!%', []],
      ['0% c', ['100% cotton']],
      ["'", ["buyer's choice"]],
      ['\\', ['back\\slash']],
      ['"', []],
    ])('takes %s literally', async (q, found) => {
      for (const title of [
        '100% cotton',
        'snake_case',
        'wow! nice',
        "buyer's choice",
        'back\\slash',
        'plain',
      ])
        await purchase.draft({ title });
      expect(await titlesOf({ q })).toEqual(found);
    });

    it('finds exactly the task of an id, and nothing for a part of one', async () => {
      const { task } = await purchase.draft();
      await purchase.draft();
      expect(await idsOf({ q: task.id })).toEqual([task.id]);
      expect(await idsOf({ q: uuidv7() })).toEqual([]);
      expect(await idsOf({ q: task.id.slice(0, 13) })).toEqual([]);
    });
  });

  describe('paging', () => {
    const sorts = ['created_at', '-created_at', 'updated_at', '-updated_at'] as const;

    async function pagesOf(filter: Partial<TaskListFilter>): Promise<string[][]> {
      const pages: string[][] = [];
      for (let cursor: string | undefined; ; ) {
        const page = await list({ ...filter, cursor });
        pages.push(page.items.map(({ task }) => task.id));
        if (page.next_cursor === undefined) return pages;
        cursor = page.next_cursor;
      }
    }

    it.each(sorts)('by %s shows every task once, in one order, under equal timestamps', async (sort) => {
      const created: { id: string; created_at: string; updated_at: string }[] = [];
      for (let index = 0; index < 23; index++) {
        if (index % 8 === 0) purchase.clock.advance(1);
        created.push((await purchase.draft()).task);
      }
      for (const index of [3, 4, 15]) await purchase.press(created[index]!.id, 1);

      const column = sort.endsWith('updated_at') ? 'updated_at' : 'created_at';
      const rows: typeof created = await purchase.rows('tasks');
      const expected = rows
        .sort((a, b) => (a[column] === b[column] ? (a.id < b.id ? -1 : 1) : a[column] < b[column] ? -1 : 1))
        .map(({ id }) => id);
      if (sort.startsWith('-')) expected.reverse();

      for (const limit of [1, 5, 22, 23, 100]) {
        const pages = await pagesOf({ sort, limit });
        expect(pages.flat()).toEqual(expected);
        for (const page of pages.slice(0, -1)) expect(page).toHaveLength(limit);
      }
    });

    it.each(sorts)('by %s goes on where it stood when tasks are added meanwhile', async (sort) => {
      for (let index = 0; index < 6; index++) await purchase.draft();
      const before = await idsOf({ sort });
      const first = await list({ sort, limit: 3 });
      purchase.clock.advance(1);
      const { task } = await purchase.draft();
      const rest = await list({ sort, cursor: first.next_cursor });
      const seen = [...first.items, ...rest.items].map((row) => row.task.id);
      expect(seen.filter((id) => id !== task.id)).toEqual(before);
      expect(new Set(seen).size).toBe(seen.length);
    });

    it('is newest first unless asked otherwise', async () => {
      const first = await purchase.draft();
      purchase.clock.advance(1);
      const second = await purchase.draft();
      expect(await idsOf()).toEqual([second.task.id, first.task.id]);
    });

    it('refuses INVALID_CURSOR for the cursor of another sort and for garbage', async () => {
      for (let index = 0; index < 3; index++) await purchase.draft();
      const { next_cursor } = await list({ limit: 1, sort: 'created_at' });
      for (const cursor of [next_cursor, 'garbage']) {
        const refusal = await refusalOf(list({ sort: '-created_at', cursor }));
        expect(refusal.code).toBe('INVALID_CURSOR');
      }
    });
  });

  it('shows with a task who holds it, its lease, what was submitted and that it should stop', async () => {
    const running = await purchase.running();
    await purchase.cancelRequested(running);
    const other = await purchase.addPhone();
    const ordered = await purchase.ordered(other);
    const { items } = await list({ sort: 'created_at' });
    const held = items.find(({ task }) => task.id === running.task_id);
    expect(held).toMatchObject({
      claim: { lease_expires_at: running.lease_expires_at, closed_at: null },
      holder: {
        device: { device_id: running.phone.device_id, status: 'AUTHORIZED' },
        user: { id: running.phone.user_id, username: 'buyer-1' },
      },
      cancel_requested_at: purchase.clock.now(),
      contradicting: false,
    });
    const done = items.find(({ task }) => task.id === ordered.task_id);
    expect(done).toMatchObject({
      submission: { status: 'SUBMITTED', order_no: 'P-1' },
      cancel_requested_at: null,
    });
    expect([done?.claim, done?.holder, done?.authorization]).toEqual([undefined, undefined, undefined]);
    for (const row of items) {
      expect(typeof row.task.confirmation_required).toBe('boolean');
      expect(typeof row.contradicting).toBe('boolean');
    }
  });
});

// ------------------------------------------------------------------------------------------ attention

/** The same numbers in every run. */
function randomOf(seed: number): <T>(choices: readonly T[]) => T {
  let state = seed;
  return (choices) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return choices[Math.floor((state / 2 ** 32) * choices.length)]!;
  };
}

describe('attention', () => {
  const ATTENTIONS: Exclude<AttentionFilter, 'ANY'>[] = [
    'RUN_LEASE_EXPIRED',
    'NEEDS_MANUAL',
    'WAITING_CONFIRMATION',
    'SUBMITTING_SILENT',
    'RECONCILIATION_REQUIRED',
    'AUTHORIZATION_EXPIRED',
    'CLAIMANT_WITHOUT_ACCESS',
    'CONTRADICTING_REPORT',
  ];

  function reasonsOf(facts: TaskDetailFacts, now: string): string[] {
    const { claim, holder, reports } = facts;
    const claimantWithoutAccess =
      claim !== undefined &&
      claim.closed_at === null &&
      holder !== undefined &&
      isWithoutAccess(claim, holder);
    const contradictingReport = reports.some(
      (report) => report.contradicting && report.acknowledged_at === null,
    );
    return attentionReasons(facts, { claimantWithoutAccess, contradictingReport }, now);
  }

  /** Every filter shows exactly the tasks that the predicate names; returns how many each of them showed. */
  async function expectAgreement(now: string): Promise<Record<string, number>> {
    const ids: string[] = await purchase.database.read.knex('tasks').pluck('id');
    const reasons = new Map<string, string[]>();
    for (const id of ids) {
      const detail = await findTaskDetail(purchase.database.read, id);
      reasons.set(id, reasonsOf(detail!, now));
    }
    const counts: Record<string, number> = {};
    for (const attention of [...ATTENTIONS, 'ANY'] as const) {
      const expected = ids.filter((id) => {
        const own = reasons.get(id)!;
        return attention === 'ANY' ? own.length > 0 : own.includes(attention);
      });
      const shown: string[] = [];
      for (let cursor: string | undefined; ; ) {
        const page = await list({ attention, cursor }, now);
        shown.push(...page.items.map(({ task }) => task.id));
        if (page.next_cursor === undefined) break;
        cursor = page.next_cursor;
      }
      expect([attention, shown.sort()]).toEqual([attention, expected.sort()]);
      counts[attention] = shown.length;
    }
    return counts;
  }

  const HELD: readonly TaskStatus[] = [
    'CLAIMED',
    'RUNNING',
    'WAITING_CONFIRMATION',
    'SUBMITTING',
    'NEEDS_MANUAL',
  ];

  /** Writes a task with facts that go together, each drawn at random around `now`. */
  async function generate(draw: <T>(choices: readonly T[]) => T, now: string, number: number): Promise<void> {
    const status = draw(TASK_STATUSES);
    const around = [shifted(now, -1), now, shifted(now, 1)];
    const expires_at = draw(around);
    const lease = draw(around);
    const claimed_at = shifted(now, -10_000);
    const lost = draw([null, shifted(claimed_at, -1), claimed_at, shifted(claimed_at, 1)]);
    const disabled = draw([null, null, null, shifted(claimed_at, -1), claimed_at, shifted(claimed_at, 1)]);
    const held = HELD.includes(status);
    const wasHeld = held || draw([true, false]);
    const submitted =
      status === 'SUBMITTING' ||
      status === 'ORDERED' ||
      status === 'FAILED' ||
      (status === 'NEEDS_MANUAL' && draw([true, false]));
    const task_id = uuidv7();
    const [device_id, user_id] = [`generated-${number}`, uuidv7()];
    const ids = { authorization_id: uuidv7(), claim_id: uuidv7(), attempt_id: uuidv7() };

    await purchase.database.write(async ({ trx }) => {
      await trx('users').insert({
        id: user_id,
        username: `generated-${number}`,
        username_key: `generated-${number}`,
        role: 'BUYER',
        status: disabled !== null && draw([true, false]) ? 'DISABLED' : 'ACTIVE',
        password_hash: 'none',
        created_at: now,
        updated_at: now,
        last_disabled_at: disabled,
      });
      await trx('devices').insert({
        device_id,
        label: 'generated',
        user_id,
        status: lost !== null && draw([true, false, false]) ? 'REVOKED' : 'AUTHORIZED',
        created_at: now,
        updated_at: now,
        authorized_at: now,
        last_revoked_at: lost,
      });
      await trx('tasks').insert({
        id: task_id,
        title: `generated ${number}`,
        quantity: 1,
        max_unit_price_cents: 1,
        max_total_cents: 1,
        confirmation_required: false,
        status,
        version: 9,
        claim_generation: wasHeld ? 1 : 0,
        created_at: draw(around),
        updated_at: draw(around),
        ended_at: ['ORDERED', 'FAILED', 'CANCELED'].includes(status) ? now : null,
        created_by: purchase.admin.user_id,
        authorization_expires_at: status === 'PENDING' || status === 'CLAIMED' ? expires_at : null,
        lease_expires_at: status === 'CLAIMED' ? lease : null,
      });
      await trx('authorizations').insert({
        id: ids.authorization_id,
        task_id,
        task_version: 2,
        status: 'ACTIVE',
        wish: '{}',
        created_at: now,
        created_by: purchase.admin.user_id,
        expires_at,
      });
      if (!wasHeld) return;
      const shared = { task_id, generation: 1, authorization_id: ids.authorization_id, user_id, device_id };
      await trx('claims').insert({
        ...shared,
        id: ids.claim_id,
        token_hash: `${number}`.padStart(64, '0'),
        claimed_at,
        lease_expires_at: lease,
        ...(held ? {} : { closed_at: now, closed_status: status, closed_version: 9 }),
      });
      await trx('attempts').insert({
        ...shared,
        id: ids.attempt_id,
        claim_id: ids.claim_id,
        status: 'FENCED',
        execution_id: uuidv7(),
        created_at: now,
        started_at: now,
        ended_at: now,
      });
      if (submitted) {
        const submission = draw(['FENCED', 'SUBMITTED', 'RECONCILIATION_REQUIRED', 'MANUAL_RESOLVED']);
        await trx('order_submissions').insert({
          id: uuidv7(),
          task_id,
          attempt_id: ids.attempt_id,
          authorization_id: ids.authorization_id,
          status: submission,
          unit_price_cents: 1,
          quantity: 1,
          total_cents: 1,
          fenced_at: now,
          order_no: submission === 'SUBMITTED' ? 'P' : null,
          ...(submission === 'MANUAL_RESOLVED'
            ? { resolution: 'NO_ORDER', note: 'n', resolved_at: now, resolved_by: purchase.admin.user_id }
            : {}),
        });
      }
      for (let report = draw([0, 0, 1, 2]); report > 0; report--) {
        await trx('submission_reports').insert({
          id: uuidv7(),
          task_id,
          attempt_id: ids.attempt_id,
          outcome: 'UNKNOWN',
          evidence_ids: '[]',
          late: true,
          contradicting: draw([true, false]),
          reported_at: now,
          ...draw([{}, { acknowledged_at: now, acknowledged_by: purchase.admin.user_id }]),
        });
      }
    });
  }

  it('shows by SQL what the predicate names, for 400 generated tasks', async () => {
    const draw = randomOf(20260302);
    const now = purchase.clock.now();
    for (let number = 0; number < 400; number++) await generate(draw, now, number);
    const counts = await expectAgreement(now);
    for (const attention of ATTENTIONS) expect(counts[attention]).toBeGreaterThan(0);
    await expectAgreement(shifted(now, 1));
    await expectAgreement(shifted(now, -2));
  });

  it('shows by SQL what the predicate names, for tasks that the verbs made, over time', async () => {
    const phones = await purchase.addPhones(6);
    const [silent, waiting, submitting, unknown, lost, disabled] = phones;
    await purchase.running(silent);
    await purchase.confirmation(await purchase.running(waiting), 'REQUESTED');
    await purchase.submitting(submitting);
    await purchase.report(await purchase.submitting(unknown), { outcome: 'UNKNOWN' });
    const ordered = await purchase.ordered();
    await purchase.callResult(ordered.phone, purchase.resultRequest(ordered, { order_no: 'P-2' }));
    await purchase.running(lost);
    await purchase.claimed(disabled);
    await purchase.pending({}, { authorization_ttl_seconds: 60 });
    await purchase.draft();
    const { admin } = purchase;
    await purchase.database.write((work) => revokeDevice(work, admin, { device_id: lost!.device_id }));
    await purchase.database.write((work) =>
      updateUser(work, admin, { user_id: disabled!.user_id, status: 'DISABLED', display_name: 'gone' }),
    );

    const at = purchase.clock.now();
    expect(await expectAgreement(at)).toEqual({
      RUN_LEASE_EXPIRED: 0,
      NEEDS_MANUAL: 1,
      WAITING_CONFIRMATION: 1,
      SUBMITTING_SILENT: 0,
      RECONCILIATION_REQUIRED: 1,
      AUTHORIZATION_EXPIRED: 0,
      CLAIMANT_WITHOUT_ACCESS: 2,
      CONTRADICTING_REPORT: 1,
      ANY: 5,
    });
    expect(await expectAgreement(shifted(at, 90_000))).toMatchObject({
      RUN_LEASE_EXPIRED: 3,
      SUBMITTING_SILENT: 1,
      AUTHORIZATION_EXPIRED: 1,
      ANY: 8,
    });
    expect((await expectAgreement(shifted(at, 89_999))).RUN_LEASE_EXPIRED).toBe(0);
  });
});

// --------------------------------------------------------------------------------------- task and events

describe('findTaskDetail', () => {
  it('holds everything that a task’s page shows', async () => {
    const sha256 = await purchase.picture();
    await purchase.pending({ confirmation_required: true }, { reference_image_sha256: sha256 });
    const start = await purchase.start(await purchase.claim());
    const first = await purchase.confirmation(start, 'REJECTED');
    purchase.clock.advance(1);
    const second = await purchase.confirmation(first.running, 'APPROVED');
    const fenced = await purchase.fence(second.running, { confirmation_id: second.confirmation_id });
    await purchase.report(fenced);
    purchase.clock.advance(1);
    await purchase.callResult(fenced.phone, purchase.resultRequest(fenced, { order_no: 'P-2' }));

    const detail = await findTaskDetail(purchase.database.read, fenced.task_id);
    expect(detail).toMatchObject({
      task: { status: 'ORDERED' },
      image: { sha256, bytes: 9, width: 3, height: 3 },
      holder: { device: { device_id: fenced.phone.device_id }, user: { username: 'buyer-1' } },
      confirmation: { id: second.confirmation_id },
      submission: { order_no: 'P-1' },
    });
    expect(detail?.confirmations.map(({ id }) => id)).toEqual([
      second.confirmation_id,
      first.confirmation_id,
    ]);
    expect(
      detail?.reports.map(({ order_no, contradicting, late }) => [order_no, contradicting, late]),
    ).toEqual([
      ['P-2', true, true],
      ['P-1', false, false],
    ]);
  });

  it('is undefined for no task, and bare for a draft', async () => {
    expect(await findTaskDetail(purchase.database.read, uuidv7())).toBeUndefined();
    const { task } = await purchase.draft();
    expect(await findTaskDetail(purchase.database.read, task.id)).toEqual({
      task,
      confirmations: [],
      reports: [],
    });
  });
});

describe('listTaskEvents', () => {
  it('runs oldest first in causal order under one instant, page by page, 20 times alike', async () => {
    const ordered = await purchase.ordered();
    for (let note = 0; note < 4; note++) {
      await purchase.callResult(ordered.phone, purchase.resultRequest(ordered, { outcome: 'UNKNOWN' }));
    }
    const types = [
      'task.created',
      'task.purchase_started',
      'task.claimed',
      'task.started',
      'task.submission_fenced',
      'task.order_created',
      ...Array(4).fill('submission.reported'),
    ];
    for (let round = 0; round < 20; round++) {
      const seen: string[] = [];
      for (let cursor: string | undefined; ; ) {
        const page = await listTaskEvents(purchase.database.read, ordered.task_id, { limit: 3, cursor });
        seen.push(...page.items.map(({ type }) => type));
        if (page.next_cursor === undefined) break;
        cursor = page.next_cursor;
      }
      expect(seen).toEqual(types);
    }
  });

  it('names who acted and under which claim', async () => {
    const running = await purchase.running();
    const { items } = await listTaskEvents(purchase.database.read, running.task_id, { limit: 100 });
    expect(
      items.map(({ username, device_label, claim_generation }) => [username, device_label, claim_generation]),
    ).toEqual([
      ['boss', null, null],
      ['boss', null, null],
      ['buyer-1', 'Phone', 1],
      ['buyer-1', 'Phone', 1],
    ]);
  });

  it('shows a hundred at most, and says when more follow', async () => {
    const { task } = await purchase.draft();
    for (let version = 1; version <= 100; version++) {
      await purchase.database.write(async (work) => {
        await moveTask(work, purchase.admin, (await lockTask(work, task.id))!, 'task.edited');
      });
    }
    const first = await listTaskEvents(purchase.database.read, task.id, { limit: 100 });
    expect(first.items).toHaveLength(100);
    const rest = await listTaskEvents(purchase.database.read, task.id, {
      limit: 100,
      cursor: first.next_cursor,
    });
    expect(rest.items.map(({ version }) => version)).toEqual([101]);
    expect(rest.next_cursor).toBeUndefined();
  });

  it('shows the events of one task only, and none for no task', async () => {
    await purchase.draft();
    expect(await listTaskEvents(purchase.database.read, uuidv7(), { limit: 100 })).toEqual({ items: [] });
  });

  it('refuses INVALID_CURSOR for the cursor of another list', async () => {
    const { task } = await purchase.draft();
    await purchase.draft();
    const { next_cursor } = await list({ limit: 1 });
    const refusal = await refusalOf(
      listTaskEvents(purchase.database.read, task.id, { limit: 10, cursor: next_cursor }),
    );
    expect(refusal.code).toBe('INVALID_CURSOR');
  });
});
