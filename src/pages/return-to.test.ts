import { Refusal } from '../contract/errors';
import { readReturnTo, returnToOf } from './return-to';

describe('readReturnTo', () => {
  test.each([
    '/admin/tasks',
    '/admin/tasks?status=DRAFT&q=%E4%B8%AD',
    '/admin/devices/phone.1-x#field-label',
  ])('takes %s', (path) => expect(readReturnTo(path)).toBe(path));

  test('goes to the tasks when nothing is given', () => {
    expect(readReturnTo(undefined)).toBe('/admin/tasks');
    expect(readReturnTo('')).toBe('/admin/tasks');
  });

  test.each([
    'https://evil.example/admin/',
    '//evil.example/admin/',
    '/\\evil.example',
    '/admin/\\evil.example',
    '/admin//evil.example',
    '/admin/../x',
    '/admin/./x',
    '/admin/%2e%2e/x',
    '/admin/%2f%2fevil.example',
    '/admin/%5cevil.example',
    '/admin/%252fevil.example',
    '/admin/%00',
    '/admin/%0d%0aSet-Cookie:x',
    '/admin/a\r\nb',
    '/admin/a\tb',
    '/admin/a b',
    '/admin/任务',
    '/admin/user@evil.example',
    'admin/tasks',
    '/administrator',
    '/admin',
    '/',
    'javascript:alert(1)',
    ` /admin/tasks`,
    `/admin/${'a'.repeat(2_000)}`,
  ])('refuses INVALID_RETURN_TO for %j', (path) => {
    expect(() => readReturnTo(path)).toThrow(new Refusal('INVALID_RETURN_TO'));
  });
});

describe('returnToOf', () => {
  test.each([
    '/admin/tasks?q=a@b',
    '/admin/tasks?q=http://x',
    '/admin/tasks?q=a\\b',
    '/admin/devices/a%25b',
    `/admin/tasks?q=${'x'.repeat(2_000)}`,
  ])('goes to the tasks rather than to what it would refuse: %s', (path) =>
    expect(readReturnTo(returnToOf(path))).toBe('/admin/tasks'),
  );

  test('keeps the page that was visited', () => {
    expect(returnToOf('/admin/tasks?status=DRAFT')).toBe('/admin/tasks?status=DRAFT');
  });
});
