/** How fast a simulated phone goes about its work. Ranges are `[least, most]` in ms. */
export interface Pace {
  /** Time spent on each of the seven steps of a purchase. */
  stepMs: readonly [number, number];
  /** Pause before asking for work again. */
  idleMs: readonly [number, number];
  /** Upper bound of the pauses after repeated failures. */
  maxBackoffMs: number;
  /** Long poll of a claim, 0 to 25. */
  waitSeconds: number;
  /** Share of purchases, 0 to 1, after which the phone cannot tell whether an order stands. */
  unknownShare: number;
}

/** A purchase takes 20 to 40 s: long enough to watch. */
export const watchablePace: Pace = {
  stepMs: [3_000, 5_500],
  idleMs: [1_000, 3_000],
  maxBackoffMs: 30_000,
  waitSeconds: 20,
  unknownShare: 0.1,
};

/** As fast as the server answers: for tests and load. */
export const fastPace: Pace = {
  stepMs: [0, 2],
  idleMs: [5, 20],
  maxBackoffMs: 200,
  waitSeconds: 0,
  unknownShare: 0,
};

/** The paces that have a name. */
export const paces = { watchable: watchablePace, fast: fastPace };
