import { readRetryAfter } from './errors.js';

/** How calls are tried again. Only reads, keyed calls and heartbeats ever are. */
export interface RetryOptions {
  /** All tries together, the first included; 1 turns retries off. Default 4. */
  attempts?: number;
  /** The first pause is random between 0 and this, and the bound doubles each time. Default 250 ms. */
  baseDelayMs?: number;
  /** Upper bound of a pause of our own choosing. Default 8 s. */
  maxDelayMs?: number;
  /** A `Retry-After` beyond this is not waited for: the problem goes to the caller. Default 60 s. */
  maxRetryAfterMs?: number;
  /** Waits; rejects when the signal aborts. For tests. */
  sleep?: (ms: number, signal: AbortSignal) => Promise<void>;
  /** From 0 up to 1. For tests. */
  random?: () => number;
}

export interface RetryingFetchOptions extends RetryOptions {
  /** The fetch to use. Default the platform's. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** A try without a whole answer after this long is lost. Longer than any long poll. Default 60 s. */
  attemptTimeoutMs?: number;
}

/** True when sending the request twice does no more than sending it once. */
export function isRepeatable(request: Pick<Request, 'method' | 'headers' | 'url'>): boolean {
  return (
    request.method === 'GET' ||
    request.method === 'HEAD' ||
    request.headers.has('idempotency-key') ||
    new URL(request.url).pathname.endsWith('/heartbeat')
  );
}

/** Milliseconds to wait after the given try (1 is the first), or undefined when waiting is no use. */
export function retryDelay(
  tried: number,
  retryAfterSeconds: number | undefined,
  options: RetryOptions,
): number | undefined {
  const { baseDelayMs = 250, maxDelayMs = 8_000, maxRetryAfterMs = 60_000, random = Math.random } = options;
  const jitter = random() * Math.min(maxDelayMs, baseDelayMs * 2 ** (tried - 1));
  if (retryAfterSeconds === undefined) return jitter;
  const asked = retryAfterSeconds * 1000;
  return asked > maxRetryAfterMs ? undefined : asked + jitter;
}

/** A fetch for the generated client that tries repeatable requests again, and reads each answer whole. */
export function createRetryingFetch(
  options: RetryingFetchOptions = {},
): (request: Request) => Promise<Response> {
  const { attempts = 4, sleep = sleepFor } = options;
  return async (request) => {
    const send = await prepare(request, options);
    const last = isRepeatable(request) ? attempts : 1;
    for (let tried = 1; ; tried += 1) {
      const outcome = await send().then(
        (response) => ({ response }),
        (error: unknown) => ({ error }),
      );
      if ('response' in outcome && outcome.response.status !== 429 && outcome.response.status !== 503) {
        return outcome.response;
      }
      const asked = 'response' in outcome ? readRetryAfter(outcome.response.headers, Date.now()) : undefined;
      const pause = tried < last && !request.signal.aborted ? retryDelay(tried, asked, options) : undefined;
      if (pause === undefined) {
        if ('response' in outcome) return outcome.response;
        throw outcome.error;
      }
      await sleep(pause, request.signal);
    }
  };
}

async function prepare(request: Request, options: RetryingFetchOptions): Promise<() => Promise<Response>> {
  const { attemptTimeoutMs = 60_000 } = options;
  // Looked up late and called on the global: browsers refuse a fetch that was taken off its window.
  const send = options.fetch ?? ((url: string, init: RequestInit) => globalThis.fetch(url, init));
  const bytes = await request.arrayBuffer();
  const body = bytes.byteLength > 0 ? bytes : undefined;
  return async () => {
    const attempt = new AbortController();
    const forward = () => attempt.abort(request.signal.reason);
    if (request.signal.aborted) forward();
    request.signal.addEventListener('abort', forward);
    const timer = setTimeout(
      () => attempt.abort(new Error(`no answer within ${attemptTimeoutMs} ms`)),
      attemptTimeoutMs,
    );
    try {
      const response = await send(request.url, {
        method: request.method,
        headers: request.headers,
        body,
        credentials: request.credentials,
        // The API never redirects; following one would carry the claim token to a stranger.
        redirect: 'error',
        signal: attempt.signal,
      });
      // An answer cut off in its middle is a lost answer too.
      const answer = await response.arrayBuffer();
      const { status, statusText, headers } = response;
      return new Response(answer.byteLength > 0 ? answer : null, { status, statusText, headers });
    } finally {
      clearTimeout(timer);
      request.signal.removeEventListener('abort', forward);
    }
  };
}

function sleepFor(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', abort);
      resolve();
    }, ms);
    signal.addEventListener('abort', abort, { once: true });
  });
}
