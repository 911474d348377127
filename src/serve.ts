import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import pino, { type Logger } from 'pino';
import { createFirstAdmin } from './access/create-first-admin';
import { buildApp } from './app';
import { type Config, ConfigError } from './config';
import { type Database, openDatabase } from './store/database';

export interface RunningServer {
  /** `http://host:port`, as one would type it into a browser on this machine. */
  address: string;
  database: Database;
  /** The first admin's password, when there was no admin and none was configured. */
  generatedPassword?: string;
  /** Finishes what is under way and closes the database. */
  close(): Promise<void>;
}

/** Longer than any proxy in front keeps an idle connection, so that it never sends into a closing one. */
const KEEP_ALIVE_MS = 75_000;
/** How long calls under way may still take when the server stops. */
const CLOSE_GRACE_MS = 5_000;

/**
 * Migrates, listens, and makes the first admin if there is none.
 * @throws ConfigError when the address is taken or not ours
 */
export async function startServer(
  config: Config,
  options: { log?: Logger; checkResponses?: boolean } = {},
): Promise<RunningServer> {
  const log =
    options.log ??
    pino({ level: config.logLevel, base: undefined, timestamp: pino.stdTimeFunctions.isoTime });
  const database = openDatabase({ url: config.databaseUrl, dataDir: config.dataDir });
  let server: Server | undefined;
  try {
    const applied = await database.migrateUp();
    if (applied.length > 0) log.info({ applied }, 'migrated');
    const closing = new AbortController();
    const app = await buildApp({
      database,
      config,
      log,
      closing: closing.signal,
      checkResponses: options.checkResponses,
    });
    const listener = createServer(app);
    listener.keepAliveTimeout = KEEP_ALIVE_MS;
    await listen(listener, config);
    server = listener;
    // Only now: a made-up password must not be lost with a start that fails.
    const first = await createFirstAdmin(database, {
      username: config.adminUsername,
      password: config.adminPassword || undefined,
    });
    const { port } = listener.address() as AddressInfo;
    const address = `http://${hostInUrl(config.host)}:${port}`;
    log.info({ address, engine: database.engine }, 'listening');
    return {
      address,
      database,
      generatedPassword: first?.generated_password,
      async close() {
        closing.abort();
        await closeServer(listener);
        await database.close();
        log.info('stopped');
      },
    };
  } catch (error) {
    if (server) await closeServer(server);
    await database.close();
    throw error;
  }
}

function hostInUrl(host: string): string {
  if (host === '0.0.0.0' || host === '::') return 'localhost';
  return host.includes(':') ? `[${host}]` : host;
}

function listen(server: Server, { host, port }: Config): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') {
        reject(
          new ConfigError(
            `CMBUYER_PORT ${port} on ${host} is taken by another program; choose a free one from 1 to 65535, for example CMBUYER_PORT=8081`,
          ),
        );
      } else if (error.code === 'EADDRNOTAVAIL' || error.code === 'ENOTFOUND' || error.code === 'EAI_AGAIN') {
        reject(
          new ConfigError(
            `CMBUYER_HOST ${host} is no address of this machine, for example CMBUYER_HOST=127.0.0.1`,
          ),
        );
      } else if (error.code === 'EACCES') {
        reject(
          new ConfigError(
            `CMBUYER_PORT ${port} may not be opened by this user; choose one above 1023, for example CMBUYER_PORT=8080`,
          ),
        );
      } else reject(error);
    });
    server.listen(port, host, resolve);
  });
}

/** Lets calls under way finish, then cuts what is left: a waiting claim that is cut can be asked again under its key. */
function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    const cut = setTimeout(() => server.closeAllConnections(), CLOSE_GRACE_MS);
    server.close(() => {
      clearTimeout(cut);
      resolve();
    });
    server.closeIdleConnections();
  });
}
