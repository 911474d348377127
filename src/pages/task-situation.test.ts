import type { TaskDetail } from '../contract/generated/types.gen';
import { TASK_STATUSES } from '../contract/moves';
import { presentActions } from './task-actions';
import { tellSituation } from './task-situation';
import { languages, speaker } from './words/words';

const now = new Date('2026-03-02T08:00:00.000Z');
const at = (seconds: number) => new Date(now.getTime() + seconds * 1000).toISOString();
const words = speaker('en');
const id = (last: number) => `01938a5c-7d2e-7003-9b1e-5f20c7ad34${10 + last}`;

function task(over: Partial<TaskDetail>): TaskDetail {
  return {
    id: id(0),
    status: 'RUNNING',
    version: 4,
    claim_generation: 1,
    title: 'Kettle',
    quantity: 1,
    max_unit_price_cents: 100,
    max_total_cents: 100,
    confirmation_required: false,
    created_at: at(-900),
    updated_at: at(-60),
    confirmations: [],
    reports: [],
    attention: [],
    allowed_actions: [],
    server_time: at(0),
    claim: {
      id: id(1),
      generation: 1,
      user_id: id(2),
      username: 'li.wei',
      device_id: 'phone-0001',
      device_label: 'Phone 3',
      claimed_at: at(-600),
      lease_expires_at: at(60),
      lease_live: true,
    },
    attempt: { id: id(3), status: 'ORDERING', created_at: at(-600), last_seen_at: at(-30) },
    ...over,
  };
}

const silent = { claim: { ...task({}).claim!, lease_expires_at: at(0), lease_live: false } };
const submission: TaskDetail['submission'] = {
  id: id(4),
  status: 'FENCED',
  attempt_id: id(3),
  unit_price_cents: 100,
  quantity: 1,
  total_cents: 100,
  fenced_at: at(-50),
};
const tell = (over: Partial<TaskDetail>) => tellSituation(task(over), words, 'Asia/Shanghai', now);

describe('tellSituation', () => {
  test.each(languages)('has a sentence for every state in %s', (language) => {
    for (const status of TASK_STATUSES) {
      const { lead } = tellSituation(task({ status }), speaker(language), 'Asia/Shanghai', now);
      expect(lead).not.toMatch(/[{}]/);
      expect(lead.length).toBeGreaterThan(5);
    }
  });

  test('a silent phone is never said to have stopped', () => {
    const { tone, lead, known, unknown } = tell(silent);
    expect(tone).toBe('danger');
    expect(lead).toContain('It may still be working');
    expect(known).toContain('Last heartbeat 30 seconds ago.');
    expect(unknown).toEqual(['Whether the phone is still acting.']);
  });

  test('a live phone is told with the time that its lease has left', () => {
    expect(tell({})).toMatchObject({ tone: 'info', unknown: [] });
    expect(tell({}).known).toContain('Lease: 1 min left.');
  });

  test('after the fence an order may exist, whatever the lease', () => {
    for (const over of [{}, silent]) {
      expect(tell({ ...over, status: 'SUBMITTING', submission }).unknown).toContain(
        'Whether the order exists in Pinduoduo.',
      );
    }
    expect(tell({ status: 'NEEDS_MANUAL', submission }).lead).toContain('not known');
    expect(tell({ status: 'NEEDS_MANUAL', submission }).known.join()).not.toContain('fence is open');
  });

  test('lost access is told as no proof of anything', () => {
    const { unknown } = tell({ ...silent, attention: ['CLAIMANT_WITHOUT_ACCESS'] });
    expect(unknown.join()).toContain('does not prove');
  });
});

describe('presentActions', () => {
  const all = new Set([
    'CANCEL',
    'RESET_TO_DRAFT',
    'START_PURCHASE',
    'REQUIRE_RECONCILIATION',
    'ACKNOWLEDGE_REPORT',
  ] as const);
  const options = { wired: all, defaultTtlSeconds: 86_400, newKey: () => 'key' };
  const bound = {
    expected_task_version: 4,
    authorization_id: id(5),
    expected_claim_generation: 0,
    expected_attempt_id: id(3),
  };

  test('a form carries exactly what the person saw', () => {
    const [action] = presentActions(
      task({
        ...silent,
        allowed_actions: [{ action: 'RESET_TO_DRAFT', ...bound, requires_device_stopped: true }],
      }),
      words,
      options,
    );
    expect(action?.hidden).toEqual(Object.entries(bound).map(([name, value]) => [name, String(value)]));
    expect(action?.fields).toMatchObject([{ name: 'confirmed_device_stopped', kind: 'tick' }]);
    expect(action?.fields[0]?.label).toContain('Phone 3');
  });

  test('a live phone can only be asked to stop; a tick is asked for where the server asks for it', () => {
    const actions = presentActions(
      task({
        allowed_actions: [
          { action: 'CANCEL', ...bound },
          { action: 'CANCEL', ...bound, requires_device_stopped: true },
        ],
      }),
      words,
      options,
    );
    expect(actions.map(({ submit, fields }) => [submit, fields.length])).toEqual([
      ['Ask the phone to stop safely', 0],
      ['The phone has stopped: cancel the task', 1],
    ]);
    expect(new Set(actions.map(({ key }) => key)).size).toBe(2);
  });

  test('what has no handler, or is not known yet, has no form', () => {
    const allowed_actions = [
      { action: 'DUPLICATE' },
      { action: 'TELEPORT' },
    ] as TaskDetail['allowed_actions'];
    expect(presentActions(task({ allowed_actions }), words, options)).toEqual([]);
  });
});
