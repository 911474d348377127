import { CmbuyerNetworkError, CmbuyerProblem, createDeviceClient, type DeviceClient } from '@cmbuyer/sdk';
import type { Tell } from './events';
import type { Lease } from './lease';
import type { Pace } from './pace';
import type { Random } from './random';

export interface PhoneTime {
  /** Milliseconds by a monotonic clock. */
  now(): number;
  /** Rejects with the signal's reason when it aborts. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

/** The lease ended, by the phone's own count, before an answer came. */
export class LeaseOver extends Error {}

/** The server does not let this buyer in on this device. */
export class SignInRefused extends Error {}

interface ConnectionOptions {
  baseUrl: string;
  username: string;
  password: string;
  deviceId: string;
  pace: Pace;
  time: PhoneTime;
  jitter: Random;
  signal: AbortSignal;
  tell: Tell;
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/** The phone's line to the server: signed in when it needs to be, patient, and cut by one signal. */
export class Connection {
  readonly device: DeviceClient;
  readonly #options: ConnectionOptions;
  #signIn?: Promise<void>;

  constructor(options: ConnectionOptions) {
    const { baseUrl, time, jitter, fetch } = options;
    this.#options = options;
    this.device = createDeviceClient({
      baseUrl,
      fetch,
      random: jitter,
      sleep: (ms, signal) => time.sleep(ms, signal),
    });
  }

  /** Sends once (the SDK's own retries aside), signing in where needed; says when it was sent. */
  async ask<T>(call: () => Promise<T>): Promise<{ answer: T; sentAt: number }> {
    const signIn = this.#ensureSignedIn();
    await signIn;
    const sentAt = this.#options.time.now();
    try {
      return { answer: await call(), sentAt };
    } catch (error) {
      // Only the sign-in that this call used is void: another loop may have signed in again meanwhile.
      const isSignedOut = error instanceof CmbuyerProblem && error.status === 401;
      if (isSignedOut && this.#signIn === signIn) this.#signIn = undefined;
      throw error;
    }
  }

  /**
   * Sends the same call until it is answered or refused, for as long as the lease lives; without one, for
   * as long as the phone does.
   */
  async insist<T>(
    doing: string,
    lease: Lease | undefined,
    call: () => Promise<T>,
  ): Promise<{ answer: T; sentAt: number }> {
    const { time } = this.#options;
    for (let failures = 0; ; failures += 1) {
      if (lease && !lease.isLive(time.now())) throw new LeaseOver(doing);
      try {
        return await this.ask(call);
      } catch (error) {
        if (!isPassing(error)) throw error;
        await this.backOff(doing, error, failures, lease?.remaining(time.now()));
      }
    }
  }

  /** Pauses after a failure: exponential with full jitter, not shorter than what the server asked for. */
  async backOff(doing: string, error: unknown, failures: number, atMostMs = Infinity): Promise<void> {
    const { pace, jitter, tell } = this.#options;
    tell({ type: 'trouble', doing, reason: reasonOf(error) });
    const asked = error instanceof CmbuyerProblem ? (error.retryAfterSeconds ?? 0) * 1000 : 0;
    const own = jitter() * Math.min(pace.maxBackoffMs, pace.idleMs[1] * 2 ** Math.min(failures, 16));
    await this.pause(Math.min(asked + own, atMostMs));
  }

  pause(ms: number): Promise<void> {
    return this.#options.time.sleep(ms, this.#options.signal);
  }

  #ensureSignedIn(): Promise<void> {
    // Several loops may ask at once; they share one sign-in, and a failed one is not kept.
    this.#signIn ??= this.#login().catch((error: unknown) => {
      this.#signIn = undefined;
      throw error;
    });
    return this.#signIn;
  }

  async #login(): Promise<void> {
    const { username, password, deviceId, signal, tell } = this.#options;
    this.device.setAccessToken(undefined);
    try {
      await this.device.loginDevice({ signal, body: { username, password, device_id: deviceId } });
    } catch (error) {
      if (error instanceof CmbuyerProblem && (error.status === 401 || error.status === 403)) {
        throw new SignInRefused(error.code);
      }
      throw error;
    }
    tell({ type: 'signed-in' });
  }
}

/** True for what a later repetition may cure. */
function isPassing(error: unknown): boolean {
  if (error instanceof CmbuyerProblem) {
    return error.status === 401 || error.status === 429 || error.status >= 500;
  }
  return error instanceof CmbuyerNetworkError;
}

/** A word for the watcher; codes and classes only, since messages may quote what was sent. */
export function reasonOf(error: unknown): string {
  if (error instanceof CmbuyerProblem) return error.code;
  if (error instanceof LeaseOver) return 'LEASE_OVER';
  if (error instanceof SignInRefused) return error.message;
  return error instanceof Error ? error.name : 'UNKNOWN';
}
