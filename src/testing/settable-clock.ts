import type { Clock, Instant } from '../clock';

/** A clock that stands still until a test moves it. */
export interface SettableClock extends Clock {
  set(instant: Instant): void;
  /** Moves it by some milliseconds, backwards when negative. */
  advance(milliseconds: number): void;
}

export function settableClock(start: Instant = '2026-03-02T08:00:00.000Z'): SettableClock {
  let current = start;
  return {
    now: () => current,
    set(instant) {
      current = instant;
    },
    advance(milliseconds) {
      current = new Date(Date.parse(current) + milliseconds).toISOString();
    },
  };
}
