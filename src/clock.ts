/** An instant: UTC, milliseconds, always 24 characters (`2026-08-04T09:30:00.000Z`). Sorts as text. */
export type Instant = string;

export interface Clock {
  now(): Instant;
}

export const systemClock: Clock = { now: () => new Date().toISOString() };

export function addSeconds(instant: Instant, seconds: number): Instant {
  return new Date(Date.parse(instant) + seconds * 1000).toISOString();
}

/** Milliseconds from `now` until `instant`, never below 0. */
export function millisecondsUntil(instant: Instant, now: Instant): number {
  return Math.max(0, Date.parse(instant) - Date.parse(now));
}

export function earlier(a: Instant, b: Instant): Instant {
  return a <= b ? a : b;
}

/** The one predicate of expiry: at equality it has expired, for everyone. */
export function isExpired(expiresAt: Instant, now: Instant): boolean {
  return expiresAt <= now;
}
