import { decodeCursor, encodeCursor, pageOf } from './cursor';

const AT = '2026-03-02T08:00:00.000Z';
const ID = '018f3a5c-7e10-7a00-8000-000000000002';
const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const refused = expect.objectContaining({ code: 'INVALID_CURSOR' });

describe('decodeCursor', () => {
  it('reads what encodeCursor wrote', () => {
    const cursor = encodeCursor([AT, ID, 7, 'phone-01'], 'things');
    expect(cursor).toMatch(/^[A-Za-z0-9_-]+$/);
    expect(decodeCursor(cursor, ['instant', 'uuid', 'integer', 'text'], 'things')).toEqual([
      AT,
      ID,
      7,
      'phone-01',
    ]);
  });

  it.each([
    ['nothing', ''],
    ['garbage', 'garbage'],
    ['text that is not base64url', `${encodeCursor([AT, ID], 'things')}=`],
    ['trailing bits', `${encodeCursor([AT, ID], 'things').slice(0, -1)}_`],
    ['no list', encoded({ 0: 'things', 1: AT, 2: ID })],
    ['null', encoded(null)],
    ['too few values', encodeCursor([AT], 'things')],
    ['too many values', encodeCursor([AT, ID, 1], 'things')],
    ["another list's", encodeCursor([AT, ID], 'others')],
    ['another sort', encodeCursor([AT, ID], '-things')],
    ['an instant without milliseconds', encodeCursor(['2026-03-02T08:00:00Z', ID], 'things')],
    ['a day that does not exist', encodeCursor(['2026-02-30T08:00:00.000Z', ID], 'things')],
    ['a month that does not exist', encodeCursor(['2026-13-01T08:00:00.000Z', ID], 'things')],
    ['the year 0', encodeCursor(['0000-01-01T00:00:00.000Z', ID], 'things')],
    ['an id in upper case', encodeCursor([AT, ID.toUpperCase()], 'things')],
    ['an id with SQL', encodeCursor([AT, `${ID}' or 1=1 --`], 'things')],
    ['a number for an id', encodeCursor([AT, 1], 'things')],
    ['a list for an id', encoded(['things', AT, [ID]])],
  ])('refuses INVALID_CURSOR for %s', (_what, cursor) => {
    expect(() => decodeCursor(cursor, ['instant', 'uuid'], 'things')).toThrow(refused);
  });

  it.each([[-1], [1.5], [2 ** 53], ['1'], [null], [true]])(
    'refuses INVALID_CURSOR for %p as an integer',
    (value) => {
      expect(() => decodeCursor(encoded(['things', value]), ['integer'], 'things')).toThrow(refused);
    },
  );

  it.each([[''], ['a\u0000b'], ['a\u007fb'], ['x'.repeat(201)], ['\ud800']])(
    'refuses INVALID_CURSOR for %p as text',
    (value) => {
      expect(() => decodeCursor(encoded(['things', value]), ['text'], 'things')).toThrow(refused);
    },
  );
});

describe('pageOf', () => {
  it('names the next page only when there is one', () => {
    const keyOf = (row: number) => [row];
    expect(pageOf([1, 2], 2, 'things', keyOf)).toEqual({ items: [1, 2] });
    expect(pageOf([], 2, 'things', keyOf)).toEqual({ items: [] });
    expect(pageOf([1, 2, 3], 2, 'things', keyOf)).toEqual({
      items: [1, 2],
      next_cursor: encodeCursor([2], 'things'),
    });
  });
});
