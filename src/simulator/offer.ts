import type { DeviceTask } from '@cmbuyer/sdk';
import type { Random } from './random';

export interface Offer {
  unit_price_cents: number;
  quantity: number;
  total_cents: number;
}

/** Finds an offer at 70 to 100 % of what both limits allow, or none where they allow no whole fen. */
export function findOffer(
  task: Pick<DeviceTask, 'quantity' | 'max_unit_price_cents' | 'max_total_cents'>,
  random: Random,
): Offer | undefined {
  const { quantity, max_unit_price_cents, max_total_cents } = task;
  const highest = Math.min(max_unit_price_cents, Math.floor(max_total_cents / quantity));
  if (highest < 1) return undefined;
  const unit_price_cents = Math.max(1, Math.floor(highest * (0.7 + 0.3 * random())));
  return { unit_price_cents, quantity, total_cents: unit_price_cents * quantity };
}
