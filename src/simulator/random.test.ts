import { between, digits, seededRandom } from './random';

describe('seededRandom', () => {
  it('gives the same numbers for the same seed, and others for another', () => {
    const draw = (seed: string) => Array.from({ length: 20 }, seededRandom(seed));

    expect(draw('a')).toEqual(draw('a'));
    expect(draw('a')).not.toEqual(draw('b'));
  });

  it('stays from 0 up to 1, and spreads', () => {
    const random = seededRandom(7);
    const drawn = Array.from({ length: 10_000 }, random);

    expect(Math.min(...drawn)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...drawn)).toBeLessThan(1);
    expect(drawn.reduce((sum, value) => sum + value, 0) / drawn.length).toBeCloseTo(0.5, 1);
  });

  it('makes ranges and digits', () => {
    expect(between(() => 0.5, [10, 20])).toBe(15);
    expect(digits(seededRandom(1), 15)).toMatch(/^\d{15}$/);
  });
});
