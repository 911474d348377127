import { hashRequest } from './replay';

describe('hashRequest', () => {
  const request = { idempotency_key: 'K', task_id: 'T', offer: { b: 2, a: [1, { y: 1, x: null }] } };
  const hash = hashRequest(request);

  it('is 64 characters of hex', () => expect(hash).toMatch(/^[0-9a-f]{64}$/));

  it.each([
    [
      'members in another order',
      { offer: { a: [1, { x: null, y: 1 }], b: 2 }, task_id: 'T', idempotency_key: 'K' },
    ],
    ['another key', { ...request, idempotency_key: 'other' }],
    ['wait_seconds', { ...request, wait_seconds: 25 }],
    ['a password', { ...request, password: 'secret' }],
    ['an undefined member', { ...request, note: undefined }],
  ])('stays the same with %s', (_what, other) => expect(hashRequest(other)).toBe(hash));

  it.each([
    ['another value', { ...request, task_id: 'U' }],
    ['another member', { ...request, note: '' }],
    ['null in place of nothing', { ...request, note: null }],
    ['a number for a text', { ...request, offer: { ...request.offer, b: '2' } }],
    ['another order in a list', { ...request, offer: { ...request.offer, a: [{ y: 1, x: null }, 1] } }],
    ['a value that looks like structure', { ...request, task_id: 'T","x":"' }],
  ])('is another with %s', (_what, other) => expect(hashRequest(other)).not.toBe(hash));
});
