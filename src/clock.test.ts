import { addSeconds, earlier, isExpired, millisecondsUntil, systemClock } from './clock';

const NOW = '2026-03-02T08:00:00.000Z';
const BEFORE = '2026-03-02T07:59:59.999Z';
const AFTER = '2026-03-02T08:00:00.001Z';

describe('systemClock', () => {
  it('tells UTC to the millisecond in 24 characters', () => {
    expect(systemClock.now()).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  });
});

describe('addSeconds', () => {
  it.each([
    [NOW, 0, NOW],
    [NOW, 90, '2026-03-02T08:01:30.000Z'],
    [NOW, -90, '2026-03-02T07:58:30.000Z'],
    ['2026-02-28T23:59:59.999Z', 1, '2026-03-01T00:00:00.999Z'],
    ['2028-02-28T23:59:59.000Z', 1, '2028-02-29T00:00:00.000Z'],
    ['2026-12-31T23:59:59.500Z', 86_400, '2027-01-01T23:59:59.500Z'],
    ['2026-03-29T00:59:59.000Z', 3_600, '2026-03-29T01:59:59.000Z'],
  ])('%s and %i s are %s', (instant, seconds, sum) => expect(addSeconds(instant, seconds)).toBe(sum));
});

describe('millisecondsUntil', () => {
  it.each([
    [AFTER, 1],
    [NOW, 0],
    [BEFORE, 0],
    ['2026-03-02T08:01:30.000Z', 90_000],
  ])('%s is %i ms away, never less than 0', (instant, milliseconds) => {
    expect(millisecondsUntil(instant, NOW)).toBe(milliseconds);
  });
});

describe('earlier', () => {
  it('takes the earlier of two instants, on either side', () => {
    expect(earlier(BEFORE, NOW)).toBe(BEFORE);
    expect(earlier(NOW, BEFORE)).toBe(BEFORE);
    expect(earlier(NOW, NOW)).toBe(NOW);
  });
});

describe('isExpired', () => {
  it.each([
    [AFTER, false],
    [NOW, true],
    [BEFORE, true],
  ])('what lasts until %s has expired now: %p', (instant, expired) =>
    expect(isExpired(instant, NOW)).toBe(expired),
  );
});
