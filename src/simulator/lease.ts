/**
 * A lease as the phone counts it: by a monotonic clock, in ms, from when the request was sent. The server
 * made the lease later than that, so the phone always stops first.
 */
export class Lease {
  #endsAt: number;

  constructor(sentAt: number, expiresInMs: number | undefined) {
    this.#endsAt = sentAt + (expiresInMs ?? 0);
  }

  /** An answer without a lease ends it: the claim is closed. */
  renew(sentAt: number, expiresInMs: number | undefined): void {
    this.#endsAt = sentAt + (expiresInMs ?? 0);
  }

  isLive(now: number): boolean {
    return now < this.#endsAt;
  }

  remaining(now: number): number {
    return Math.max(0, this.#endsAt - now);
  }
}
