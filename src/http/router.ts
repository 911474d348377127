import { randomUUID } from 'node:crypto';
import addFormats from 'ajv-formats';
import type { Request, RequestHandler, Response } from 'express';
import { type Context, OpenAPIBackend, type OpenAPIRouter, type Operation } from 'openapi-backend';
import type { Logger } from 'pino';
import type { AdminActor, DeviceActor } from '../contract/actor';
import type { Contract, ContractDocument, ContractOperation } from '../contract/document';
import { Refusal } from '../contract/errors';
import { type OperationId, type Operations, operationIds } from '../contract/generated/operations.gen';
import { headersOf, logFailure, problemOf, sendProblem } from './problems';
import { findBrokenText, readBody } from './request-body';
import type { ResponseCheck } from './response-check';

/** Who a call comes from; which one is set follows from the operation's security in the contract. */
export interface Callers {
  device?: DeviceCaller;
  admin?: AdminCaller;
}

export interface DeviceCaller {
  actor: DeviceActor;
  user: { id: string; username: string; display_name: string | null };
  device: { device_id: string; label: string };
}

export interface AdminCaller {
  actor: AdminActor;
  user: { id: string; username: string; display_name: string | null };
  sessionToken: string;
}

/** One validated request. */
export interface Call<Id extends OperationId> {
  path: Operations[Id]['path'];
  query: Operations[Id]['query'];
  headers: Operations[Id]['headers'];
  body: Operations[Id]['body'];
  /** The uploaded picture of a multipart operation. */
  file: Buffer;
  callers: Callers;
  /** The address that login limits count by. */
  address: string;
  request: Request;
  /** Aborted when the client hangs up. */
  gone: AbortSignal;
}

export type Handlers = {
  [Id in OperationId]: (call: Call<Id>) => Promise<Operations[Id]['answer']>;
};

/** Recognise a caller from a request; throw a Refusal otherwise. */
export interface Authenticators {
  device(request: Request): Promise<DeviceCaller>;
  admin(request: Request): Promise<AdminCaller>;
  /** Whether the CSRF token of an unsafe admin call belongs to its session. */
  csrf(request: Request): boolean;
}

interface Answer {
  status: number;
  type?: string;
  body?: unknown;
  headers?: Record<string, string>;
}

/** What travels with one request through openapi-backend's stages. */
interface Exchange {
  request: Request;
  response: Response;
  requestId: string;
  callers: Callers;
  operation?: ContractOperation;
  file?: Buffer;
  parsed: { body?: unknown };
  gone: AbortController;
}

/** Given twice, these would be joined or silently dropped: neither is what the sender meant. */
const SINGLE_HEADERS = [
  'authorization',
  'idempotency-key',
  'x-claim-token',
  'x-csrf-token',
  'content-type',
  'cookie',
];

/** An Express handler for all operations of the contract: route, authenticate, media type, body, validate, handle. */
export async function buildRouter(options: {
  contract: Contract;
  handlers: Handlers;
  authenticators: Authenticators;
  log: Logger;
  checkResponse?: ResponseCheck;
}): Promise<RequestHandler> {
  const { contract, handlers, authenticators, log, checkResponse } = options;
  const operationsById = new Map(
    Object.values(contract.document.paths)
      .flatMap((item) => Object.values(item))
      .map((operation) => [operation.operationId, operation]),
  );
  const backend = new OpenAPIBackend({
    definition: withoutResponses(contract) as never,
    apiRoot: '/',
    strict: true,
    coerceTypes: true,
    ignoreTrailingSlashes: false,
    // Our tests hold the schemas to the rules; compiling the rules anew for each of them doubles the time of a start.
    ajvOpts: { useDefaults: true, allErrors: false, validateSchema: false },
    customizeAjv: (ajv) => {
      addFormats(ajv);
      return ajv;
    },
  });
  backend.registerSecurityHandler('deviceToken', async (_context: Context, exchange: Exchange) => {
    exchange.callers.device = await authenticators.device(exchange.request);
    return true;
  });
  backend.registerSecurityHandler('adminSession', async (_context: Context, exchange: Exchange) => {
    exchange.callers.admin = await authenticators.admin(exchange.request);
    return true;
  });
  backend.registerSecurityHandler('adminCsrf', async (_context: Context, exchange: Exchange) => {
    if (!authenticators.csrf(exchange.request)) throw new Refusal('CSRF_FAILED');
    return true;
  });
  backend.register({
    notFound: async () => {
      throw new Refusal('NOT_FOUND');
    },
    methodNotAllowed: async () => {
      throw new Refusal('METHOD_NOT_ALLOWED');
    },
    postRoutingHandler: async (context: Context, exchange: Exchange) => {
      exchange.operation = operationsById.get(context.operation?.operationId ?? '');
      mustNotRepeatHeaders(exchange.request);
    },
    unauthorizedHandler: async (context: Context) => {
      throw firstSecurityFault(context);
    },
    postSecurityHandler: async (context: Context, exchange: Exchange) => {
      const operation = exchange.operation as ContractOperation;
      // The library calls this for strangers too; nothing of theirs is read.
      if (operation.security.length > 0 && !context.security.authorized) throw firstSecurityFault(context);
      mustAccept(exchange.request, operation);
      const [mediaType] = Object.keys(operation.requestBody?.content ?? {});
      if (mediaType !== undefined) {
        const { body, file } = await readBody(exchange.request, exchange.response, mediaType);
        exchange.parsed.body = body;
        exchange.file = file;
      }
      mustHoldCleanText(exchange);
    },
    validationFail: async (context: Context) => {
      throw new Refusal('INVALID_REQUEST', { errors: faultsOf(context.validation.errors ?? []) });
    },
  });
  for (const id of operationIds) {
    backend.register(id, async (context: Context, exchange: Exchange) => {
      const handle = handlers[id] as (call: unknown) => Promise<Answer>;
      return handle({
        path: context.request.params,
        query: context.request.query,
        headers: context.request.headers,
        body: context.request.requestBody,
        file: exchange.file,
        callers: exchange.callers,
        address: exchange.request.ip ?? '',
        request: exchange.request,
        gone: exchange.gone.signal,
      });
    });
  }
  await backend.init();
  const routes = rememberRoutes(backend.router);

  return async (request, response) => {
    const exchange: Exchange = {
      request,
      response,
      requestId: randomUUID(),
      callers: {},
      parsed: {},
      gone: new AbortController(),
    };
    const isHead = request.method === 'HEAD';
    response.setHeader('X-Request-Id', exchange.requestId);
    response.setHeader('X-Content-Type-Options', 'nosniff');
    response.on('close', () => {
      if (!response.writableFinished) exchange.gone.abort();
    });
    const routed = {
      method: isHead ? 'get' : request.method.toLowerCase(),
      path: request.path,
      query: request.query as Record<string, string | string[]>,
      headers: request.headers as Record<string, string | string[]>,
      get body() {
        return exchange.parsed.body;
      },
    };
    try {
      const answer: Answer = await backend.handleRequest(routed as never, exchange);
      send(response, answer, isHead, exchange.operation, checkResponse);
    } catch (error) {
      fail(error, exchange.operation);
    }
    log.info({
      request_id: exchange.requestId,
      method: request.method,
      operation: exchange.operation?.operationId,
      status: response.statusCode,
    });

    function fail(error: unknown, failed: ContractOperation | undefined): void {
      logFailure(log, error, exchange.requestId);
      const problem = problemOf(error, request, exchange.requestId);
      const headers = headersOf(error, allowedMethods(routes, request.path));
      if (!request.complete) response.setHeader('Connection', 'close');
      if (failed && checkResponse && problem.status !== 500) {
        try {
          const names = { 'x-request-id': exchange.requestId, ...lowerCased(headers) };
          const type = 'application/problem+json';
          checkResponse(failed, { status: problem.status, type, headers: names, json: problem });
        } catch (mismatch) {
          fail(mismatch, undefined);
          return;
        }
      }
      sendProblem(response, problem, headers, isHead);
    }
  };
}

interface Route {
  operation: Operation;
  method: string;
  pattern: RegExp;
}

/**
 * The library builds its operation list and all its patterns anew on every request; the contract does not change while
 * it is served. What finds no route here goes the library's own way, which tells 404 from 405.
 */
function rememberRoutes(router: OpenAPIRouter): Route[] {
  const operations = router.getOperations();
  router.getOperations = () => operations;
  const routes = operations
    .map((operation) => ({
      operation,
      method: String(operation.method),
      pattern: new RegExp(
        `^${operation.path.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{[^}]+\}/g, '[^/]+')}$`,
      ),
    }))
    .sort((a, b) => literalLength(b.operation.path) - literalLength(a.operation.path));
  const match = router.matchOperation.bind(router) as OpenAPIRouter['matchOperation'];
  router.matchOperation = (request: Parameters<typeof match>[0], strict?: boolean) => {
    const found = routes.find(
      ({ method, pattern }) => method === request.method && pattern.test(request.path),
    );
    return found ? found.operation : match(request, strict as true);
  };
  return routes;
}

/** The more of a template is spelled out, the closer it fits. */
function literalLength(template: string): number {
  return template.replace(/\{[^}]+\}/g, '').length;
}

function allowedMethods(routes: Route[], path: string): string[] {
  const methods = routes
    .filter(({ pattern }) => pattern.test(path))
    .map(({ method }) => method.toUpperCase());
  return methods.includes('GET') ? [...methods, 'HEAD'] : methods;
}

/** The library would compile three validators for every answer at each start; answers are held to the contract elsewhere. */
function withoutResponses(contract: Contract): ContractDocument {
  const definition = contract.definition();
  for (const item of Object.values(definition.paths)) {
    for (const operation of Object.values(item))
      operation.responses = { '200': { description: 'An answer.' } };
  }
  return definition;
}

function send(
  response: Response,
  answer: Answer,
  isHead: boolean,
  operation: ContractOperation | undefined,
  checkResponse: ResponseCheck | undefined,
): void {
  for (const [name, value] of Object.entries(answer.headers ?? {})) response.setHeader(name, value);
  const bytes = bytesOf(answer);
  if (operation && checkResponse) {
    const json = answer.type === 'application/json' ? JSON.parse(String(bytes)) : undefined;
    checkResponse(operation, {
      status: answer.status,
      type: answer.type,
      headers: response.getHeaders(),
      json,
    });
  }
  response.statusCode = answer.status;
  if (!response.hasHeader('Cache-Control')) response.setHeader('Cache-Control', 'no-store');
  if (bytes === undefined) {
    response.end();
    return;
  }
  response.setHeader('Content-Type', answer.type as string);
  response.setHeader('Content-Length', bytes.length);
  response.end(isHead ? undefined : bytes);
}

function bytesOf(answer: Answer): Buffer | undefined {
  if (answer.body === undefined) return undefined;
  return Buffer.isBuffer(answer.body) ? answer.body : Buffer.from(JSON.stringify(answer.body));
}

function mustNotRepeatHeaders(request: Request): void {
  const seen = new Set<string>();
  for (let index = 0; index < request.rawHeaders.length; index += 2) {
    const name = (request.rawHeaders[index] as string).toLowerCase();
    if (!SINGLE_HEADERS.includes(name)) continue;
    if (seen.has(name)) {
      throw new Refusal('INVALID_REQUEST', {
        errors: [{ path: `/header/${name}`, message: 'must be sent once' }],
      });
    }
    seen.add(name);
  }
}

/** 406 only where there is a body to negotiate about. */
function mustAccept(request: Request, operation: ContractOperation): void {
  const { accept } = request.headers;
  if (accept === undefined || accept === '*/*') return;
  const types = Object.entries(operation.responses)
    .filter(([status]) => status.startsWith('2'))
    .flatMap(([, response]) => Object.keys(response.content ?? {}));
  if (types.length > 0 && !request.accepts(types)) throw new Refusal('NOT_ACCEPTABLE');
}

function mustHoldCleanText({ request, parsed }: Exchange): void {
  const fault = findBrokenText(request.query, '/query') ?? findBrokenText(parsed.body, '/body');
  if (fault) throw new Refusal('INVALID_REQUEST', { errors: [fault] });
}

/** The session's own fault comes before the CSRF token's. */
function firstSecurityFault(context: Context): unknown {
  const results = context.security as Record<string, { error?: unknown } | boolean | undefined>;
  for (const scheme of ['deviceToken', 'adminSession', 'adminCsrf']) {
    const result = results[scheme];
    if (typeof result === 'object' && result?.error) return result.error;
  }
  return new Refusal('UNAUTHENTICATED');
}

function faultsOf(errors: { instancePath?: string; message?: string; params?: Record<string, unknown> }[]) {
  return errors.map(({ instancePath, message, params }) => {
    const extra = params?.additionalProperty ?? params?.missingProperty;
    const path = `${(instancePath ?? '').replace(/^\/requestBody/, '/body')}${extra === undefined ? '' : `/${extra}`}`;
    return { path: path.slice(0, 200) || '/', message: (message ?? 'is not valid').slice(0, 200) };
  });
}

function lowerCased(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
