import express, { type Express } from 'express';
import type { Logger } from 'pino';
import { authenticateDevice } from './access/device-tokens';
import { authenticateSession, isCsrfToken, readSessionToken } from './access/sessions';
import type { Config } from './config';
import { loadContract } from './contract/document';
import { Refusal } from './contract/errors';
import { adminOperations } from './http/admin-operations';
import { deviceOperations } from './http/device-operations';
import { metaOperations } from './http/meta-operations';
import { buildResponseCheck } from './http/response-check';
import { type Authenticators, buildRouter } from './http/router';
import type { Services } from './http/services';
import { openImageStore } from './media/open-image-store';
import { buildPages } from './pages/pages';
import type { Database } from './store/database';

export interface AppParts {
  database: Database;
  config: Config;
  log: Logger;
  /** Aborted when the server begins to close. */
  closing?: AbortSignal;
  /** Hold every answer against the contract: on in tests, off in production. */
  checkResponses?: boolean;
}

/** Wires the whole server; the caller listens and closes. */
export async function buildApp({
  database,
  config,
  log,
  closing,
  checkResponses,
}: AppParts): Promise<Express> {
  const services: Services = {
    database,
    images: await openImageStore(config),
    timings: {
      claim_lease_seconds: config.claimLeaseSeconds,
      run_lease_seconds: config.runLeaseSeconds,
      device_heartbeat_ttl_seconds: config.deviceHeartbeatTtlSeconds,
      authorization_ttl_seconds: config.authorizationTtlSeconds,
    },
    closing: closing ?? new AbortController().signal,
    session_ttl_seconds: config.sessionTtlSeconds,
    access_token_ttl_seconds: config.accessTokenTtlSeconds,
  };
  const contract = loadContract();
  const api = await buildRouter({
    contract,
    log,
    handlers: {
      ...deviceOperations(services),
      ...adminOperations(services),
      ...metaOperations(services, contract),
    },
    authenticators: authenticators(services),
    ...(checkResponses && { checkResponse: buildResponseCheck(contract.document) }),
  });

  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  // One hop: the entry that our own proxy added is believed, whatever a client wrote before it.
  app.set('trust proxy', config.trustProxy ? 1 : false);
  app.get('/', (_request, response) => response.redirect(303, '/admin/'));
  const pages = await buildPages(services, log);
  // A phone's call has no business with the pages' many routes.
  app.use((request, response, next) =>
    request.path.startsWith('/api/') ? next() : pages(request, response, next),
  );
  app.use(api);
  return app;
}

function authenticators({ database }: Services): Authenticators {
  return {
    device: async (request) =>
      authenticateDevice(database.read, request.headers.authorization, await database.now()),
    async admin(request) {
      const sessionToken = readSessionToken(request.headers.cookie);
      const { actor, user } = await authenticateSession(database.read, sessionToken, await database.now());
      if (sessionToken === undefined) throw new Refusal('UNAUTHENTICATED');
      return { actor, user, sessionToken };
    },
    csrf(request) {
      const sessionToken = readSessionToken(request.headers.cookie);
      const given = request.headers['x-csrf-token'];
      return sessionToken !== undefined && isCsrfToken(sessionToken, given);
    },
  };
}
