import { Agent, createServer, request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import pino from 'pino';
import { csrfTokenOf } from '../access/sessions';
import { buildApp } from '../app';
import { readConfig } from '../config';
import { type HttpMethod, loadContract } from '../contract/document';
import type { OperationId } from '../contract/generated/operations.gen';
import type { Database } from '../store/database';
import type { UserRow } from '../store/users';
import { openTestDatabase } from './open-test-database';
import { makeDevice, makeUser, PASSWORD, signInAdmin, signInDevice } from './people-and-devices';
import type { SettableClock } from './settable-clock';

/** Header names and values as they go over the wire; a name may stand there twice. */
export type WireHeaders = [name: string, value: string][];

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  bytes: Buffer;
  text: string;
  /** The parsed body, when the answer says that it is JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: each test knows which answer it asked for
  json: any;
}

export interface WireRequest {
  headers?: WireHeaders;
  body?: Buffer | string;
  /** Aborts the request: the client hangs up. */
  signal?: AbortSignal;
  /** The answer may be a 500: only for a test that breaks the server on purpose. */
  mayFail?: boolean;
}

export interface OperationRequest {
  /** Values for the path's templates. */
  path?: Record<string, string>;
  query?: Record<string, string | number | string[]>;
  /** Credentials; see `TestAdmin.headers` and `TestPhone.headers`. */
  as?: { headers: WireHeaders };
  key?: string;
  claimToken?: string;
  headers?: WireHeaders;
  /** Sent as JSON. */
  body?: unknown;
  /** Sent as the one file of a multipart form. */
  file?: Buffer;
  mayFail?: boolean;
  signal?: AbortSignal;
}

export interface TestAdmin {
  user: UserRow;
  session: string;
  csrf: string;
  headers: WireHeaders;
}

export interface TestPhone {
  user: UserRow;
  device_id: string;
  token: string;
  headers: WireHeaders;
}

export interface LogLine {
  request_id?: string;
  operation?: string;
  status?: number;
  code?: string;
  stack?: string;
  [name: string]: unknown;
}

export interface TestApp {
  database: Database;
  clock: SettableClock;
  dataDir: string;
  imagesDir: string;
  port: number;
  admin: TestAdmin;
  phone: TestPhone;
  log: {
    /** All that was logged so far, as text. */
    text(): string;
    lines(): LogLine[];
  };
  /** While set, the database fails like one that is out of reach, with this driver code. */
  outage: { code?: string };
  addAdmin(username: string): Promise<TestAdmin>;
  addPhone(name: string): Promise<TestPhone>;
  /** One request, written to the wire as given. */
  send(method: string, target: string, request?: WireRequest): Promise<Answer>;
  /** One operation of the contract. */
  call(operation: OperationId, request?: OperationRequest): Promise<Answer>;
  /** @throws Error with the cause, when a request since the last look failed inside the server */
  mustBeSound(): void;
  close(): Promise<void>;
}

export { PASSWORD };

export const contract = loadContract();

export interface OperationEntry {
  id: OperationId;
  method: HttpMethod;
  path: string;
}

/** Every operation of the contract, in its order. */
export const operationEntries: OperationEntry[] = Object.entries(contract.document.paths).flatMap(
  ([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({
      id: operation.operationId as OperationId,
      method: method as HttpMethod,
      path,
    })),
);

/** An app for all tests of a `describe` block or file; a failure inside the server fails the test that caused it. */
export function useTestApp(settings: Record<string, string> = {}): () => TestApp {
  let app: TestApp | undefined;
  beforeAll(async () => {
    app = await startTestApp(settings);
  });
  afterEach(() => app?.mustBeSound());
  afterAll(() => app?.close());
  return () => app as TestApp;
}

/** The whole app in this process, with a database, a clock and a log of its own; settings are CMBUYER_* variables. */
export async function startTestApp(settings: Record<string, string> = {}): Promise<TestApp> {
  const opened = await openTestDatabase();
  const { clock, dataDir } = opened;
  const outage: TestApp['outage'] = {};
  const config = readConfig({ ...settings, CMBUYER_DATA_DIR: dataDir });
  let logged = '';
  const log = pino(
    { base: undefined },
    {
      write(line: string) {
        logged += line;
      },
    },
  );
  const database = opened.database;
  const app = await buildApp({
    database: failingWhile(outage, database),
    config,
    log,
    checkResponses: true,
  });
  const server = createServer(app);
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const agent = new Agent({ keepAlive: true });
  let looked = 0;
  const pardoned = new Set<string>();

  const lines = (): LogLine[] =>
    logged
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line));

  function mustBeSound(): void {
    const all = lines();
    const failed = all
      .slice(looked)
      .filter(({ code, request_id }) => code === 'INTERNAL_ERROR' && !pardoned.has(String(request_id)));
    looked = all.length;
    if (failed.length > 0)
      throw new Error(`the server failed: ${failed.map(({ stack }) => stack).join('\n\n')}`);
  }

  async function addAdmin(username: string): Promise<TestAdmin> {
    const user = await makeUser(database, username, 'ADMIN');
    const { raw } = await signInAdmin(database, user);
    return adminWith(user, raw);
  }

  async function addPhone(name: string): Promise<TestPhone> {
    const user = await makeUser(database, name, 'BUYER');
    const { actor } = await signInAdmin(database, admin.user);
    const device_id = `device-${name}`;
    await makeDevice(database, actor, user, device_id);
    const { raw } = await signInDevice(database, user, device_id);
    return phoneWith(user, device_id, raw);
  }

  async function send(method: string, target: string, request: WireRequest = {}): Promise<Answer> {
    const answer = await exchange(port, agent, method, target, request);
    if (answer.status === 500) {
      const requestId = String(answer.headers['x-request-id']);
      pardoned.add(requestId);
      if (!request.mayFail) {
        const cause = lines().find(
          ({ request_id, stack }) => request_id === requestId && stack !== undefined,
        );
        throw new Error(
          `${method} ${target.slice(0, 200)} failed inside the server: ${cause?.stack ?? answer.text}`,
        );
      }
    }
    return answer;
  }

  function call(id: OperationId, request: OperationRequest = {}): Promise<Answer> {
    const entry = operationEntries.find((operation) => operation.id === id);
    if (!entry) throw new Error(`${id} is not in the contract`);
    const { headers, body } = wireOf(request);
    return send(entry.method.toUpperCase(), targetOf(entry.path, request), {
      headers,
      body,
      mayFail: request.mayFail,
      signal: request.signal,
    });
  }

  const admin = await addAdmin('the.admin');
  const phone = await addPhone('phone-one');
  return {
    database,
    clock,
    dataDir,
    imagesDir: path.join(dataDir, 'images'),
    port,
    admin,
    phone,
    log: { text: () => logged, lines },
    outage,
    addAdmin,
    addPhone,
    send,
    call,
    mustBeSound,
    async close() {
      agent.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await opened.close();
    },
  };
}

export function adminWith(user: UserRow, session: string): TestAdmin {
  const csrf = csrfTokenOf(session);
  const headers: WireHeaders = [
    ['Cookie', `cmbuyer_session=${session}`],
    ['X-CSRF-Token', csrf],
  ];
  return { user, session, csrf, headers };
}

export function phoneWith(user: UserRow, device_id: string, token: string): TestPhone {
  return { user, device_id, token, headers: [['Authorization', `Bearer ${token}`]] };
}

/** A path of the contract with its templates filled and its query written out. */
export function targetOf(
  template: string,
  { path: values = {}, query = {} }: Pick<OperationRequest, 'path' | 'query'>,
): string {
  const filled = template.replace(/\{([^}]+)\}/g, (_whole, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`${template} needs ${name}`);
    return encodeURIComponent(value);
  });
  const search = new URLSearchParams(
    Object.entries(query).flatMap(([name, value]) =>
      [value].flat().map((one): [string, string] => [name, String(one)]),
    ),
  ).toString();
  return search === '' ? filled : `${filled}?${search}`;
}

/** What an operation's request looks like on the wire. */
export function wireOf(request: OperationRequest): { headers: WireHeaders; body?: Buffer | string } {
  const { as, key, claimToken, body, file } = request;
  const headers: WireHeaders = [...(as?.headers ?? [])];
  if (key !== undefined) headers.push(['Idempotency-Key', key]);
  if (claimToken !== undefined) headers.push(['X-Claim-Token', claimToken]);
  const form =
    file && multipart([{ name: 'file', filename: 'picture.png', type: 'image/png', content: file }]);
  if (form) headers.push(['Content-Type', form.type]);
  else if (body !== undefined) headers.push(['Content-Type', 'application/json']);
  headers.push(...(request.headers ?? []));
  return { headers, body: form?.body ?? (body === undefined ? undefined : JSON.stringify(body)) };
}

export interface FormPart {
  name: string;
  /** Absent: a text field. */
  filename?: string;
  type?: string;
  content: Buffer | string;
}

const BOUNDARY = 'the-boundary-of-a-test';

/** A multipart form, byte for byte as a careless client might write it. */
export function multipart(parts: FormPart[]): { type: string; body: Buffer } {
  const chunks: (Buffer | string)[] = parts.flatMap(({ name, filename, type, content }) => [
    `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"${filename === undefined ? '' : `; filename="${filename}"`}\r\n`,
    type === undefined ? '\r\n' : `Content-Type: ${type}\r\n\r\n`,
    content,
    '\r\n',
  ]);
  const body = Buffer.concat([...chunks, `--${BOUNDARY}--\r\n`].map((chunk) => Buffer.from(chunk)));
  return { type: `multipart/form-data; boundary=${BOUNDARY}`, body };
}

function exchange(
  port: number,
  agent: Agent,
  method: string,
  target: string,
  request: WireRequest,
): Promise<Answer> {
  const { headers = [], body, signal } = request;
  const given = new Set(headers.map(([name]) => name.toLowerCase()));
  const wire = [...headers];
  if (!given.has('host')) wire.unshift(['Host', `127.0.0.1:${port}`]);
  if (body !== undefined && !given.has('content-length'))
    wire.push(['Content-Length', String(Buffer.byteLength(body))]);
  return new Promise((resolve, reject) => {
    let answered = false;
    const outgoing = httpRequest(
      { host: '127.0.0.1', port, method, path: target, agent, signal, headers: wire.flat() as never },
      (incoming) => {
        answered = true;
        const chunks: Buffer[] = [];
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
        incoming.on('error', reject);
        incoming.on('end', () => {
          const bytes = Buffer.concat(chunks);
          const text = bytes.toString('utf8');
          const isJson = /json/.test(incoming.headers['content-type'] ?? '') && bytes.length > 0;
          resolve({
            status: incoming.statusCode as number,
            headers: incoming.headers,
            bytes,
            text,
            json: isJson ? JSON.parse(text) : undefined,
          });
        });
      },
    );
    // Once the answer began, a reset while the rest of the body is still being sent is no news.
    outgoing.on('error', (error) => answered || reject(error));
    outgoing.end(body);
  });
}

/** The database as its callers see it while its engine is out of reach. */
function failingWhile(outage: TestApp['outage'], database: Database): Database {
  function mustBeUp(): void {
    if (outage.code !== undefined)
      throw Object.assign(new Error('the engine is out of reach'), { code: outage.code });
  }
  const { knex, connection } = database.read;
  return {
    ...database,
    read: {
      knex: new Proxy(knex, {
        apply(target, self, values) {
          mustBeUp();
          return Reflect.apply(target, self, values);
        },
        get(target, name, receiver) {
          if (name === 'raw') mustBeUp();
          return Reflect.get(target, name, receiver);
        },
      }),
      connection: {
        ...connection,
        rows(name, sql, values) {
          mustBeUp();
          return connection.rows(name, sql, values);
        },
      },
    },
    snapshot: (read) =>
      database.snapshot((reader) => {
        mustBeUp();
        return read(reader);
      }),
    write: (verb) =>
      database.write((work) => {
        mustBeUp();
        return verb(work);
      }),
  };
}
