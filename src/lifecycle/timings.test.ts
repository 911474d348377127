import { TIMINGS } from '../testing/purchase';
import { claimLeaseEnd, nextDeviceHeartbeatInMs, nextTaskHeartbeatInMs, runLeaseEnd } from './timings';

const NOW = '2026-03-02T08:00:00.000Z';

describe('timings', () => {
  it.each([
    [90, 30_000],
    [900, 30_000],
    [60, 20_000],
    [5, 1_666],
  ])('a lease or freshness of %i s asks for a heartbeat in %i ms', (seconds, milliseconds) => {
    expect(nextTaskHeartbeatInMs({ ...TIMINGS, run_lease_seconds: seconds })).toBe(milliseconds);
    expect(nextDeviceHeartbeatInMs({ ...TIMINGS, device_heartbeat_ttl_seconds: seconds })).toBe(milliseconds);
  });

  it('caps the claim lease by the authorization, and the run lease by nothing', () => {
    expect(claimLeaseEnd(NOW, TIMINGS, '2026-03-02T08:05:00.000Z')).toBe('2026-03-02T08:05:00.000Z');
    expect(claimLeaseEnd(NOW, TIMINGS, '2026-03-03T08:00:00.000Z')).toBe('2026-03-02T08:10:00.000Z');
    expect(runLeaseEnd(NOW, TIMINGS)).toBe('2026-03-02T08:01:30.000Z');
  });
});
