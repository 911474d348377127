import type { PhoneEvent } from './events';
import { type Pace, paces } from './pace';
import { Phone } from './phone';

export interface FleetOptions {
  baseUrl: string;
  phones: { username: string; password: string; deviceId: string; label: string }[];
  pace: Pace | keyof typeof paces;
  seed: string | number;
  onEvent?: (event: PhoneEvent) => void;
}

export interface Fleet {
  phones: readonly Phone[];
  /** Ends every phone at once; resolves when all have ended. */
  stop(): Promise<void>;
}

/** Starts all phones; each has its own random source, made of the seed and its device id. */
export function runFleet({ baseUrl, phones, pace, seed, onEvent }: FleetOptions): Fleet {
  const chosen = typeof pace === 'string' ? paces[pace] : pace;
  const running = phones.map(
    (phone) => new Phone({ ...phone, baseUrl, pace: chosen, onEvent, seed: `${seed} ${phone.deviceId}` }),
  );
  for (const phone of running) void phone.run();
  return {
    phones: running,
    stop: async () => {
      await Promise.all(running.map((phone) => phone.stop()));
    },
  };
}
