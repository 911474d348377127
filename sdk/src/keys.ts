/** What one keyed call is recognised by. Plain JSON: store it before sending, give it back after a restart. */
export interface CallKeys {
  idempotencyKey: string;
  claimToken: string;
}

/** The headers that stand for the keys which were given. */
export type KeyHeaders<K extends Partial<CallKeys> = CallKeys> = (K extends { idempotencyKey: string }
  ? { 'Idempotency-Key': string }
  : unknown) &
  (K extends { claimToken: string } ? { 'X-Claim-Token': string } : unknown);

function randomBase64Url(bytes: number): string {
  const random = crypto.getRandomValues(new Uint8Array(bytes));
  return btoa(String.fromCharCode(...random))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}

/** 256 random bits in unpadded base64url, 43 characters: the proof of holding one task. */
export function newClaimToken(): string {
  return randomBase64Url(32);
}

/** 144 random bits in base64url, 24 characters: the name of one intended call. */
export function newIdempotencyKey(): string {
  return randomBase64Url(18);
}

/** Fresh keys for one call; give the claim token of the held task, leave it out to claim a new one. */
export function newCallKeys(claimToken: string = newClaimToken()): CallKeys {
  return { idempotencyKey: newIdempotencyKey(), claimToken };
}

/** Turns keys into the `headers` of an operation: either key, or both. */
export function keyHeaders<K extends Partial<CallKeys>>(keys: K): KeyHeaders<K> {
  const headers: Record<string, string> = {};
  if (keys.idempotencyKey !== undefined) headers['Idempotency-Key'] = keys.idempotencyKey;
  if (keys.claimToken !== undefined) headers['X-Claim-Token'] = keys.claimToken;
  return headers as KeyHeaders<K>;
}

export interface WithKeysOptions {
  /** Keys kept from before a restart: the call is the same call, and gets the same outcome. */
  stored?: CallKeys;
  /** Claim token of the held task; made anew when absent. */
  claimToken?: string;
  /** Awaited before anything is sent, so that no answer can be lost for good. */
  store?: (keys: CallKeys) => unknown;
}

/**
 * Makes the keys of one call, stores them, then sends. The client's own retries repeat the same keys; to
 * ask again later, pass the stored ones.
 */
export async function withKeys<T>(
  send: (headers: KeyHeaders) => Promise<T>,
  options: WithKeysOptions = {},
): Promise<T> {
  const keys = options.stored ?? newCallKeys(options.claimToken);
  if (!options.stored) await options.store?.(keys);
  return send(keyHeaders(keys));
}
