import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';

export interface Config {
  host: string;
  port: number;
  dataDir: string;
  /** Empty: SQLite in the data directory. */
  databaseUrl: string;
  claimLeaseSeconds: number;
  runLeaseSeconds: number;
  deviceHeartbeatTtlSeconds: number;
  authorizationTtlSeconds: number;
  accessTokenTtlSeconds: number;
  sessionTtlSeconds: number;
  trustProxy: boolean;
  logLevel: string;
  adminUsername: string;
  adminPassword: string;
}

/** A wrong setting: its message is the one line an operator needs. */
export class ConfigError extends Error {}

type Environment = Record<string, string | undefined>;

const DAY = 86_400;
const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

/**
 * Reads the settings from the environment.
 * @throws ConfigError naming the variable, its bounds and an example, for the first value out of bounds.
 */
export function readConfig(env: Environment): Config {
  return {
    host: text(
      env,
      'CMBUYER_HOST',
      '127.0.0.1',
      /^[A-Za-z0-9.:_-]{1,253}$/,
      'a host name or address',
      '0.0.0.0',
    ),
    port: integer(env, 'CMBUYER_PORT', 8080, 0, 65_535),
    dataDir: path.resolve(
      text(env, 'CMBUYER_DATA_DIR', './data', /^[^\0]+$/, 'a directory', '/var/lib/cmbuyer'),
    ),
    databaseUrl: text(
      env,
      'CMBUYER_DATABASE_URL',
      '',
      /^(postgres(ql)?:\/\/\S+)?$/,
      'empty (SQLite in the data directory) or a PostgreSQL address',
      'postgresql://cmbuyer@localhost/cmbuyer',
    ),
    claimLeaseSeconds: integer(env, 'CMBUYER_CLAIM_LEASE_SECONDS', 600, 5, 3600),
    runLeaseSeconds: integer(env, 'CMBUYER_RUN_LEASE_SECONDS', 90, 5, 900),
    deviceHeartbeatTtlSeconds: integer(env, 'CMBUYER_DEVICE_HEARTBEAT_TTL_SECONDS', 120, 5, 900),
    authorizationTtlSeconds: integer(env, 'CMBUYER_AUTHORIZATION_TTL_SECONDS', DAY, 60, 30 * DAY),
    accessTokenTtlSeconds: integer(env, 'CMBUYER_ACCESS_TOKEN_TTL_SECONDS', 30 * DAY, 60, 365 * DAY),
    sessionTtlSeconds: integer(env, 'CMBUYER_SESSION_TTL_SECONDS', DAY / 2, 60, 30 * DAY),
    trustProxy: flag(env, 'CMBUYER_TRUST_PROXY'),
    logLevel: text(
      env,
      'CMBUYER_LOG_LEVEL',
      'info',
      new RegExp(`^(${LOG_LEVELS.join('|')})$`),
      `one of ${LOG_LEVELS.join(', ')}`,
      'info',
    ),
    adminUsername: text(
      env,
      'CMBUYER_ADMIN_USERNAME',
      'admin',
      /^[A-Za-z0-9._-]{3,64}$/,
      '3 to 64 letters, digits, dots, dashes or underscores',
      'admin',
    ),
    adminPassword: password(env),
  };
}

/** The folder that holds package.json, from source and from compiled code alike. */
export const packageRoot = findPackageRoot(__dirname);

function findPackageRoot(from: string): string {
  for (let folder = from; ; folder = path.dirname(folder)) {
    const manifest = path.join(folder, 'package.json');
    if (existsSync(manifest) && JSON.parse(readFileSync(manifest, 'utf8')).name === 'cmbuyer') return folder;
    if (folder === path.dirname(folder)) throw new Error('the cmbuyer package is not above its own code');
  }
}

function text(
  env: Environment,
  name: string,
  fallback: string,
  pattern: RegExp,
  bounds: string,
  example: string,
): string {
  const value = env[name] ?? fallback;
  if (!pattern.test(value))
    throw new ConfigError(`${name} must be ${bounds}, for example ${name}=${example}`);
  return value;
}

function integer(env: Environment, name: string, fallback: number, minimum: number, maximum: number): number {
  const raw = env[name];
  if (raw === undefined || raw === '') return fallback;
  const value = Number(raw);
  if (!/^\d{1,10}$/.test(raw) || value < minimum || value > maximum) {
    throw new ConfigError(
      `${name} must be a whole number from ${minimum} to ${maximum}, for example ${name}=${fallback}`,
    );
  }
  return value;
}

function flag(env: Environment, name: string): boolean {
  const value = (env[name] ?? '').toLowerCase();
  if (['', 'off', 'false', '0'].includes(value)) return false;
  if (['on', 'true', '1'].includes(value)) return true;
  throw new ConfigError(`${name} must be on or off, for example ${name}=on`);
}

/** Never shows the value: it is a secret. */
function password(env: Environment): string {
  const value = (env.CMBUYER_ADMIN_PASSWORD ?? '').normalize('NFC');
  const length = [...value].length;
  if (length !== 0 && (length < 12 || length > 128)) {
    throw new ConfigError(
      'CMBUYER_ADMIN_PASSWORD must be empty or 12 to 128 characters, for example CMBUYER_ADMIN_PASSWORD=correct-horse-battery',
    );
  }
  return value;
}
