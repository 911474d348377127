import { Refusal } from '../contract/errors';
import { readForm, readYuan } from './forms';

const rules = {
  title: { kind: 'text', label: 'field.title', required: true, max: 5 },
  note: { kind: 'multiline', label: 'field.note', max: 20 },
  url: { kind: 'url', label: 'field.product_url', max: 50 },
  quantity: { kind: 'count', label: 'field.quantity', required: true, min: 1, max: 999 },
  price: { kind: 'yuan', label: 'field.max_total', required: true, min: 1, max: 100_000_000 },
  tick: { kind: 'tick', label: 'field.confirmation_required' },
  version: { kind: 'hidden-number', pattern: /^[1-9]\d{0,15}$/, required: true },
} as const;
const good = { title: '水壶', quantity: '2', price: '12.34', version: '3' };

describe('readForm', () => {
  test('coerces what was typed, exactly', () => {
    const { fields } = readForm(rules, { ...good, tick: 'yes', note: ' a\r\nb ', _csrf: 'x' });
    expect(fields).toEqual({
      title: '水壶',
      note: 'a\nb',
      url: undefined,
      quantity: 2,
      price: 1234,
      tick: true,
      version: 3,
    });
  });

  test('names every faulty field at once and keeps what was typed', () => {
    const typed = {
      ...good,
      title: '六个字的标题',
      quantity: '两',
      price: '1.234',
      url: 'javascript:alert(1)',
    };
    const { faults, values, fields } = readForm(rules, typed);
    expect(fields).toBeUndefined();
    expect(faults.map(({ field, key }) => [field, key])).toEqual([
      ['title', 'fault.too_long'],
      ['url', 'fault.url'],
      ['quantity', 'fault.number'],
      ['price', 'fault.money'],
    ]);
    expect(values).toMatchObject({ title: '六个字的标题', quantity: '两', price: '1.234' });
  });

  test.each([
    ['an unknown field', { ...good, admin: 'yes' }],
    ['a field named like a prototype', JSON.parse('{"__proto__": "x", "title": "a"}')],
    ['a repeated field', { ...good, title: ['a', 'b'] }],
    ['a nested field', { ...good, title: { x: 'a' } }],
    ['a hidden field that the page never wrote', { ...good, version: '1e3' }],
    ['a hidden number beyond what is exact', { ...good, version: '9999999999999999' }],
    ['a missing hidden field', { title: 'a', quantity: '1', price: '1' }],
  ])('refuses INVALID_REQUEST for %s', (_name, body) => {
    expect(() => readForm(rules, body)).toThrow(new Refusal('INVALID_REQUEST'));
  });

  test.each(['a\u0000b', 'a\u001fb', 'a\u0085b', 'a\nb'])('finds the control character in %j', (title) => {
    expect(readForm(rules, { ...good, title }).faults).toMatchObject([
      { field: 'title', key: 'fault.control' },
    ]);
  });

  test('counts code points, not halves of them', () => {
    expect(readForm(rules, { ...good, title: '🛒🛒🛒🛒🛒' }).faults).toEqual([]);
  });

  test('a box is ticked with yes or not at all', () => {
    expect(readForm(rules, { ...good, tick: 'true' }).faults).toMatchObject([{ key: 'fault.option' }]);
  });
});

describe('readYuan', () => {
  test.each([
    ['12', 1200],
    ['12.3', 1230],
    ['0.07', 7],
    ['1,234.56', 123_456],
    ['¥ 8.10', 810],
    ['1000000.00', 100_000_000],
    ['4.35', 435],
  ])('reads %s', (typed, cents) => expect(readYuan(typed)).toBe(cents));

  test.each(['', '-1', '+1', '1e3', '1.234', '.5', '1.', '0x10', '１２', '1,23', '1 000', 'NaN', '12.34元'])(
    'does not read %j',
    (typed) => expect(readYuan(typed)).toBeUndefined(),
  );
});
