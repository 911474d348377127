import { Lease } from './lease';

describe('Lease', () => {
  it('counts from when the request was sent, and has ended at equality', () => {
    const lease = new Lease(1_000, 500);

    expect(lease.isLive(1_499)).toBe(true);
    expect(lease.isLive(1_500)).toBe(false);
    expect(lease.remaining(1_400)).toBe(100);
    expect(lease.remaining(2_000)).toBe(0);
  });

  it('lives on when renewed, and ends with an answer that has none', () => {
    const lease = new Lease(1_000, 500);

    lease.renew(1_400, 500);
    expect(lease.isLive(1_899)).toBe(true);
    lease.renew(1_450, undefined);
    expect(lease.isLive(1_450)).toBe(false);
  });
});
