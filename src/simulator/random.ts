/** A source of numbers from 0 up to 1. */
export type Random = () => number;

/** The same seed gives the same numbers, on every machine (FNV-1a into mulberry32). */
export function seededRandom(seed: string | number): Random {
  let state = 0x811c9dc5;
  for (const character of String(seed)) state = Math.imul(state ^ character.codePointAt(0)!, 0x01000193);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A number between the two bounds. */
export function between(random: Random, [low, high]: readonly [number, number]): number {
  return low + random() * (high - low);
}

/** That many decimal digits. */
export function digits(random: Random, count: number): string {
  return Array.from({ length: count }, () => Math.floor(random() * 10)).join('');
}
