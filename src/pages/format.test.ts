import {
  formatMoney,
  formatOffset,
  formatRelative,
  formatShort,
  formatSpan,
  formatWhole,
  moneyForField,
  shortId,
  startOfDay,
  webAddress,
} from './format';

const zone = 'Asia/Shanghai';

describe('money', () => {
  test.each([
    [1, '¥0.01', '0.01'],
    [1234, '¥12.34', '12.34'],
    [100_000_000, '¥1,000,000.00', '1000000.00'],
  ])('writes %i cents exactly', (cents, shown, typed) => {
    expect(formatMoney(cents)).toBe(shown);
    expect(moneyForField(cents)).toBe(typed);
  });
});

describe('times', () => {
  const now = new Date('2026-03-02T08:00:00.000Z');

  test('are told in the named zone, whatever the zone of the server', () => {
    const late = new Date('2024-02-28T16:30:05.000Z');
    expect(formatWhole(late, zone)).toBe('2024-02-29 00:30:05 UTC+08:00');
    expect(formatShort(late, zone, now)).toBe('2024-02-29 00:30');
    expect(formatShort(now, zone, now)).toBe('03-02 16:00');
    expect(formatOffset(new Date('2026-07-01T00:00:00.000Z'), 'America/New_York')).toBe('UTC-04:00');
  });

  test('a day begins at its midnight in the zone, and only real days begin', () => {
    expect(startOfDay('2026-03-02', zone)?.toISOString()).toBe('2026-03-01T16:00:00.000Z');
    expect(startOfDay('2024-02-28', zone, 1)?.toISOString()).toBe('2024-02-28T16:00:00.000Z');
    expect(startOfDay('2026-02-29', zone)).toBeUndefined();
    expect(startOfDay('yesterday', zone)).toBeUndefined();
  });

  test('ages are rounded towards now', () => {
    expect(formatRelative(new Date(now.getTime() - 3 * 60_000 - 59_000), now, 'zh-CN')).toBe('3 分钟前');
    expect(formatRelative(new Date(now.getTime() - 42_000), now, 'zh-CN')).toBe('42 秒前');
    expect(formatRelative(new Date(now.getTime() + 7_199_000), now, 'en')).toBe('in 1 hour');
    expect(formatRelative(now, now, 'en')).toBe('just now');
  });

  test('a span has two units at most and is never negative', () => {
    expect(formatSpan(500_000, 'zh-CN')).toBe('8 分 20 秒');
    expect(formatSpan(86_400_000, 'en')).toBe('1 d');
    expect(formatSpan(-5, 'en')).toBe('0 s');
    expect(formatSpan(1, 'en')).toBe('0 s');
  });
});

test('ids shorten in the middle', () => {
  expect(shortId('01938a5c-7d2e-7003-9b1e-5f20c7ad34e1')).toBe('01938a5c…ad34e1');
  expect(shortId('phone-0001')).toBe('phone-0001');
});

test.each(['javascript:alert(1)', 'data:text/html,x', ' //x', 'not an address'])(
  '%s is no link',
  (address) => {
    expect(webAddress(address)).toBeUndefined();
  },
);
