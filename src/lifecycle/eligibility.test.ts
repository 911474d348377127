import type { DeviceRow } from '../store/devices';
import type {
  AuthorizationRow,
  ClaimRow,
  ConfirmationRow,
  SubmissionRow,
  TaskFacts,
  TaskRow,
} from '../store/facts';
import { shifted, TIMINGS, WISH } from '../testing/purchase';
import {
  allowedActions,
  isAuthorizationLive,
  isClaimable,
  isContradicting,
  isLeaseLive,
  isSameOffer,
  isWithinPriceLimits,
  isWithoutAccess,
  type Result,
  readinessReasons,
} from './eligibility';

const NOW = '2026-03-02T08:00:00.000Z';
const BEFORE = shifted(NOW, -1);
const AFTER = shifted(NOW, 1);

const deviceOf = (over: Partial<DeviceRow> = {}) =>
  ({
    last_heartbeat_at: NOW,
    accessibility_connected: true,
    pinduoduo_installed: true,
    ...over,
  }) as DeviceRow;

describe('readinessReasons', () => {
  it.each([
    [120_000, []],
    [119_999, []],
    [120_001, ['HEARTBEAT_STALE']],
    [0, []],
    [-5_000, []],
  ])('a heartbeat of %i ms age: %p', (age, reasons) => {
    const device = deviceOf({ last_heartbeat_at: shifted(NOW, -age) });
    expect(readinessReasons(device, NOW, TIMINGS)).toEqual(reasons);
  });

  it('names every reason at once, and only NO_HEARTBEAT when nothing is known', () => {
    const broken = { accessibility_connected: false, pinduoduo_installed: false };
    expect(
      readinessReasons(deviceOf({ ...broken, last_heartbeat_at: shifted(NOW, -121_000) }), NOW, TIMINGS),
    ).toEqual(['HEARTBEAT_STALE', 'ACCESSIBILITY_DISCONNECTED', 'PINDUODUO_NOT_INSTALLED']);
    const unknown = { last_heartbeat_at: null, accessibility_connected: null, pinduoduo_installed: null };
    expect(readinessReasons(deviceOf(unknown), NOW, TIMINGS)).toEqual(['NO_HEARTBEAT']);
  });
});

describe('isLeaseLive', () => {
  it.each([
    [AFTER, null, true],
    [NOW, null, false],
    [BEFORE, null, false],
    [AFTER, BEFORE, false],
  ])('until %s, closed at %p: %p', (lease_expires_at, closed_at, live) => {
    expect(isLeaseLive({ lease_expires_at, closed_at }, NOW)).toBe(live);
  });
});

describe('isAuthorizationLive', () => {
  it.each([
    ['ACTIVE', AFTER, true],
    ['ACTIVE', NOW, false],
    ['ACTIVE', BEFORE, false],
    ['FENCED', AFTER, false],
    ['EXPIRED', AFTER, false],
    ['ABANDONED', AFTER, false],
  ] as const)('%s until %s: %p', (status, expires_at, live) => {
    expect(isAuthorizationLive({ status, expires_at } as AuthorizationRow, NOW)).toBe(live);
  });
  it('needs an authorization', () => expect(isAuthorizationLive(undefined, NOW)).toBe(false));
});

describe('isClaimable', () => {
  const factsOf = (status: string, lease = BEFORE, expires_at = AFTER) =>
    ({
      task: { status },
      authorization: { status: 'ACTIVE', expires_at },
      claim: { lease_expires_at: lease, closed_at: null },
    }) as unknown as TaskFacts;

  it.each([
    [factsOf('PENDING'), true],
    [factsOf('PENDING', BEFORE, NOW), false],
    [factsOf('CLAIMED', NOW), true],
    [factsOf('CLAIMED', AFTER), false],
    [factsOf('CLAIMED', NOW, NOW), false],
    ...[
      'DRAFT',
      'RUNNING',
      'WAITING_CONFIRMATION',
      'SUBMITTING',
      'NEEDS_MANUAL',
      'ORDERED',
      'FAILED',
      'CANCELED',
    ].map((status) => [factsOf(status), false] as [TaskFacts, boolean]),
  ])('%j', (facts, claimable) => expect(isClaimable(facts, NOW)).toBe(claimable));
});

describe('offers', () => {
  it.each([
    [5_000, 9_000, true],
    [5_001, 9_000, false],
    [5_000, 9_001, false],
    [1, 1, true],
  ])(
    '%i a piece and %i in total are within inclusive limits: %p',
    (unit_price_cents, total_cents, within) => {
      expect(isWithinPriceLimits(WISH, { unit_price_cents, total_cents, quantity: 2 })).toBe(within);
    },
  );

  it('are the same only in all three numbers', () => {
    const offer = { unit_price_cents: 1, quantity: 2, total_cents: 3 };
    expect(isSameOffer(offer as ConfirmationRow, offer)).toBe(true);
    for (const field of ['unit_price_cents', 'quantity', 'total_cents'] as const) {
      expect(isSameOffer(offer as ConfirmationRow, { ...offer, [field]: 9 })).toBe(false);
    }
  });
});

describe('isContradicting', () => {
  type Recorded = Pick<SubmissionRow, 'status' | 'resolution' | 'order_no'> | undefined;
  const fenced: Recorded = { status: 'FENCED', resolution: null, order_no: null };
  const uncertain: Recorded = { status: 'RECONCILIATION_REQUIRED', resolution: null, order_no: null };
  const ordered: Recorded = { status: 'SUBMITTED', resolution: null, order_no: 'A' };
  const found: Recorded = { status: 'MANUAL_RESOLVED', resolution: 'ORDER_CREATED', order_no: 'A' };
  const none: Recorded = { status: 'MANUAL_RESOLVED', resolution: 'NO_ORDER', order_no: null };
  const orderA: Result = { outcome: 'ORDER_CREATED', order_no: 'A' };
  const orderB: Result = { outcome: 'ORDER_CREATED', order_no: 'B' };
  const unknown: Result = { outcome: 'UNKNOWN' };
  const nothing: Result = { outcome: 'NOT_SUBMITTED' };

  it.each([
    ['never fenced', undefined, [true, true, false, false]],
    ['fenced', fenced, [false, false, false, false]],
    ['uncertain', uncertain, [false, false, false, false]],
    ['ordered A', ordered, [false, true, false, true]],
    ['found A', found, [false, true, false, true]],
    ['no order', none, [true, true, false, false]],
  ] as const)('%s: order A, order B, unknown, not submitted are %p', (_name, recorded, expected) => {
    const reports = [orderA, orderB, unknown, nothing];
    expect(reports.map((report) => isContradicting(recorded as SubmissionRow | undefined, report))).toEqual(
      expected,
    );
  });
});

describe('isWithoutAccess', () => {
  const claim = { claimed_at: NOW } as ClaimRow;
  const holderOf = (device: object, user: object) =>
    ({
      device: { status: 'AUTHORIZED', last_revoked_at: null, ...device },
      user: { status: 'ACTIVE', last_disabled_at: null, ...user },
    }) as Parameters<typeof isWithoutAccess>[1];

  it.each([
    ['full access', {}, {}, false],
    ['a device revoked now', { status: 'REVOKED', last_revoked_at: BEFORE }, {}, true],
    ['a user disabled now', {}, { status: 'DISABLED', last_disabled_at: BEFORE }, true],
    ['a revocation before the claim', { last_revoked_at: BEFORE }, {}, false],
    ['a revocation at the claim', { last_revoked_at: NOW }, {}, true],
    ['a revocation since the claim, undone', { last_revoked_at: AFTER }, {}, true],
    ['a disabling before the claim', {}, { last_disabled_at: BEFORE }, false],
    ['a disabling since the claim, undone', {}, { last_disabled_at: AFTER }, true],
  ])('%s', (_what, device, user, without) => {
    expect(isWithoutAccess(claim, holderOf(device, user))).toBe(without);
  });
});

describe('allowedActions', () => {
  const factsOf = (task: Partial<TaskRow>, rest: Partial<TaskFacts> = {}) =>
    ({ task: { status: 'DRAFT', reference_image_sha256: null, ...task }, ...rest }) as TaskFacts;

  it('offers in a draft what the verbs accept', () => {
    expect(allowedActions(factsOf({}))).toEqual(['UPDATE', 'PUT_REFERENCE_IMAGE', 'START_PURCHASE']);
    expect(allowedActions(factsOf({ reference_image_sha256: 'a' }))).toContain('DELETE_REFERENCE_IMAGE');
    expect(allowedActions(factsOf({}, { submission: {} as SubmissionRow }))).not.toContain('START_PURCHASE');
  });

  it.each(['PENDING', 'CLAIMED', 'RUNNING', 'SUBMITTING', 'ORDERED', 'FAILED', 'CANCELED'] as const)(
    'offers none of the draft actions for %s',
    (status) => {
      const draftActions = ['UPDATE', 'PUT_REFERENCE_IMAGE', 'DELETE_REFERENCE_IMAGE', 'START_PURCHASE'];
      const offered: string[] = allowedActions(factsOf({ status, reference_image_sha256: 'a' }));
      expect(offered.filter((action) => draftActions.includes(action))).toEqual([]);
    },
  );
});
