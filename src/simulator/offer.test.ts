import { findOffer } from './offer';
import { seededRandom } from './random';

describe('findOffer', () => {
  it('keeps both limits and the quantity, for every draw', () => {
    const random = seededRandom('limits');
    for (let round = 0; round < 2_000; round += 1) {
      const quantity = 1 + Math.floor(random() * 20);
      const max_unit_price_cents = 1 + Math.floor(random() * 5_000);
      const max_total_cents = quantity + Math.floor(random() * 50_000);

      const offer = findOffer({ quantity, max_unit_price_cents, max_total_cents }, random);

      expect(offer?.quantity).toBe(quantity);
      expect(offer?.unit_price_cents).toBeGreaterThanOrEqual(1);
      expect(offer?.unit_price_cents).toBeLessThanOrEqual(max_unit_price_cents);
      expect(offer?.total_cents).toBe(offer!.unit_price_cents * quantity);
      expect(offer?.total_cents).toBeLessThanOrEqual(max_total_cents);
    }
  });

  it('finds none where the total allows less than one fen a piece', () => {
    const task = { quantity: 3, max_unit_price_cents: 100, max_total_cents: 2 };
    expect(findOffer(task, () => 0.5)).toBeUndefined();
  });
});
