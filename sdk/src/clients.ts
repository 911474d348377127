import { CmbuyerNetworkError, toProblem } from './errors.js';
import { type Client, createClient } from './gen/client/index.js';
import { adminOperations, deviceOperations, metaOperations } from './gen/operations.gen.js';
import * as generated from './gen/sdk.gen.js';
import { createRetryingFetch, type RetryingFetchOptions } from './retry.js';

type Generated = typeof generated;
const operations: Generated = { ...generated };
// Pick keeps each operation's documentation, which comes from the contract.
type MetaOperations = Pick<Generated, (typeof metaOperations)[number]>;
type DeviceOperations = Pick<Generated, (typeof deviceOperations)[number]>;
type AdminOperations = Pick<Generated, (typeof adminOperations)[number]>;

type Input<O> = Pick<O, Extract<keyof O, 'body' | 'path' | 'query' | 'headers' | 'signal'>>;
type Answer<R> = Awaited<R> extends infer A ? (A extends { data: infer D } ? D : never) : never;
/** The body of a success; `undefined` stands for 204. */
// biome-ignore lint/suspicious/noConfusingVoidType: so the generated client types 204.
type Output<D> = Exclude<D, undefined | void> | (void extends D ? undefined : never);
type Call<A extends unknown[], R> = [] extends A
  ? (options?: Input<NonNullable<A[0]>>) => Promise<Output<Answer<R>>>
  : (options: Input<A[0]>) => Promise<Output<Answer<R>>>;

/** Operations that answer the body alone and throw `CmbuyerProblem` or `CmbuyerNetworkError`. */
export type Bound<Operations> = {
  [Name in keyof Operations]: Operations[Name] extends (...args: infer A) => infer R ? Call<A, R> : never;
};

export interface ConnectionOptions extends RetryingFetchOptions {
  /** Where the server is, for example `https://buy.example.com`. */
  baseUrl: string;
}

export interface DeviceClientOptions extends ConnectionOptions {
  /** A token kept from an earlier sign-in. */
  accessToken?: string;
}

export interface DeviceClient extends Bound<DeviceOperations & MetaOperations> {
  /** Sets or drops the token; `loginDevice` and `logoutDevice` do so by themselves. */
  setAccessToken(token: string | undefined): void;
  /** For the generated operations, which answer `{ data, error, response }`: `getHealth({ client: x.http })`. */
  readonly http: Client;
}

export interface AdminClient extends Bound<AdminOperations & MetaOperations> {
  /** For the generated operations, which answer `{ data, error, response }`: `getHealth({ client: x.http })`. */
  readonly http: Client;
}

/** Makes a client for what a phone does. It signs calls with the access token of `loginDevice`. */
export function createDeviceClient(options: DeviceClientOptions): DeviceClient {
  let accessToken = options.accessToken;
  const http = createClient({
    baseUrl: options.baseUrl,
    fetch: createRetryingFetch(options) as typeof fetch,
    auth: () => accessToken,
  });
  const bound = bind<DeviceOperations & MetaOperations>([...deviceOperations, ...metaOperations], http);
  return {
    ...bound,
    http,
    setAccessToken(token) {
      accessToken = token;
    },
    async loginDevice(input) {
      const answer = await bound.loginDevice(input);
      accessToken = answer.access_token;
      return answer;
    },
    async logoutDevice(input) {
      const answer = await bound.logoutDevice(input);
      accessToken = undefined;
      return answer;
    },
  };
}

/**
 * Makes a client for what an admin does. Outside a browser it keeps the session cookie; in one the browser
 * does. The CSRF token is kept from `loginAdmin`, or after a reload of the page from `getAdminContext`.
 */
export function createAdminClient(options: ConnectionOptions): AdminClient {
  let session: string | undefined;
  let csrfToken: string | undefined;
  const http = createClient({
    baseUrl: options.baseUrl,
    fetch: createRetryingFetch(options) as typeof fetch,
    auth: ({ name }) => (name === 'X-CSRF-Token' ? csrfToken : session),
  });
  http.interceptors.response.use((response) => {
    // Browsers hide this header and refuse to send `Cookie`: there the platform's own jar works.
    const found = /(?:^|,\s*)cmbuyer_session=([^;,]*)/.exec(response.headers.get('set-cookie') ?? '');
    if (found) session = found[1] || undefined;
    return response;
  });
  const bound = bind<AdminOperations & MetaOperations>([...adminOperations, ...metaOperations], http);
  return {
    ...bound,
    http,
    async loginAdmin(input) {
      const answer = await bound.loginAdmin(input);
      csrfToken = answer.csrf_token;
      return answer;
    },
    async getAdminContext(input) {
      const answer = await bound.getAdminContext(input);
      csrfToken = answer.csrf_token;
      return answer;
    },
    async logoutAdmin(input) {
      const answer = await bound.logoutAdmin(input);
      session = undefined;
      csrfToken = undefined;
      return answer;
    },
  };
}

interface Fields {
  data?: unknown;
  error?: unknown;
  response?: Response;
}

function bind<Operations>(names: readonly (keyof Operations & keyof Generated)[], http: Client) {
  const calls = names.map((name) => {
    const operation = operations[name] as (options: object) => Promise<Fields>;
    // YAML is text; the generated client would hand out a Blob.
    const parseAs = name === 'getOpenapiYaml' ? { parseAs: 'text' } : {};
    const call = async (options: { signal?: AbortSignal } = {}) => {
      const fields = await operation({ ...options, ...parseAs, client: http, throwOnError: false }).catch(
        (error: unknown): Fields => ({ error }),
      );
      return unwrap(name, fields, options.signal);
    };
    return [name, call];
  });
  return Object.fromEntries(calls) as Bound<Operations>;
}

function unwrap(name: string, { data, error, response }: Fields, signal: AbortSignal | undefined): unknown {
  if (!response) {
    if (signal?.aborted) throw signal.reason;
    throw new CmbuyerNetworkError(`${name}: no answer`, { cause: error });
  }
  if (!response.ok) throw toProblem(error, response);
  if (response.status === 204) return undefined;
  // The sign-in page of a public network answers 200 to everything.
  if (response.headers.get('content-type')?.startsWith('text/html')) {
    throw new CmbuyerNetworkError(`${name}: something other than cmbuyer answered`);
  }
  return data;
}
