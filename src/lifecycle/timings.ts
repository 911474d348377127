import type { Instant } from '../clock';
import { addSeconds, earlier } from '../clock';

/** The durations that an operator sets, in seconds. */
export interface Timings {
  claim_lease_seconds: number;
  run_lease_seconds: number;
  device_heartbeat_ttl_seconds: number;
  authorization_ttl_seconds: number;
}

/** A phone is asked to call at least this often, however long its lease. */
const HEARTBEAT_CEILING_MS = 30_000;

/** When to send the next task heartbeat: three tries fit into one lease. */
export function nextTaskHeartbeatInMs(timings: Timings): number {
  return Math.min(HEARTBEAT_CEILING_MS, Math.floor((timings.run_lease_seconds * 1000) / 3));
}

/** When to send the next device heartbeat: three tries fit into the time that one stays fresh. */
export function nextDeviceHeartbeatInMs(timings: Timings): number {
  return Math.min(HEARTBEAT_CEILING_MS, Math.floor((timings.device_heartbeat_ttl_seconds * 1000) / 3));
}

/** A claim lease never outlives the permission behind it. */
export function claimLeaseEnd(now: Instant, timings: Timings, authorizationExpiresAt: Instant): Instant {
  return earlier(addSeconds(now, timings.claim_lease_seconds), authorizationExpiresAt);
}

/** A run lease does: a phone whose permission ran out can no longer fence, but must still report. */
export function runLeaseEnd(now: Instant, timings: Timings): Instant {
  return addSeconds(now, timings.run_lease_seconds);
}
