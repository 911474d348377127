import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';

export interface Config {
  host: string;
  port: number;
  dataDir: string;
  /** Empty: SQLite in the data directory. */
  databaseUrl: string;
  /** Absent: pictures lie in the data directory. */
  imageStore?: S3Location;
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

/** Where pictures lie in an S3-compatible store; its credentials are the AWS library's own business. */
export interface S3Location {
  bucket: string;
  /** Empty, or ending in a slash. */
  prefix: string;
  region: string;
  /** Absent: AWS itself. */
  endpoint?: string;
  /** The bucket stands in the path, not in the host name. */
  pathStyle: boolean;
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
    imageStore: imageStore(env),
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
  // biome-ignore lint/suspicious/noControlCharactersInRegex: no login takes them; one read from a file may end in a newline
  const hasControl = /[\u0000-\u001F\u007F-\u009F]/.test(value);
  if (hasControl || (length !== 0 && (length < 12 || length > 128))) {
    throw new ConfigError(
      'CMBUYER_ADMIN_PASSWORD must be empty or 12 to 128 characters without line breaks, for example CMBUYER_ADMIN_PASSWORD=correct-horse-battery',
    );
  }
  return value;
}

/** Never shows the value: someone may have written a secret into it. */
function imageStore(env: Environment): S3Location | undefined {
  const name = 'CMBUYER_IMAGE_STORE_URL';
  const value = env[name] ?? '';
  if (value === '') return undefined;
  const location = s3Location(value, env.AWS_REGION || env.AWS_DEFAULT_REGION || 'us-east-1');
  if (!location) {
    throw new ConfigError(
      `${name} must be empty (pictures in the data directory) or s3://bucket/prefix with region, endpoint and path_style where needed and without credentials, for example ${name}=s3://pictures/cmbuyer?endpoint=http://127.0.0.1:9000&region=us-east-1&path_style=true`,
    );
  }
  if (Boolean(env.AWS_ACCESS_KEY_ID) !== Boolean(env.AWS_SECRET_ACCESS_KEY)) {
    throw new ConfigError(
      `${name} needs both or neither of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for example ${name}=s3://pictures AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...`,
    );
  }
  return location;
}

const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
/** What needs no encoding in a key; 512 leave room for the picture's own name. */
const PREFIX = /^(?!.{512})([A-Za-z0-9!_.*'()-]+\/)*$/;
const REGION = /^[a-z0-9-]{1,40}$/;

function s3Location(value: string, defaultRegion: string): S3Location | undefined {
  // Characters that the parser would drop silently are refused.
  const url = /^[!-~]+$/.test(value) && URL.canParse(value) ? new URL(value) : undefined;
  if (url?.protocol !== 's3:' || url.username || url.password || url.port || url.hash) return undefined;
  const names = [...url.searchParams.keys()];
  const isKnown = (each: string) => ['endpoint', 'region', 'path_style'].includes(each);
  if (!names.every(isKnown) || new Set(names).size < names.length) return undefined;

  const prefix = url.pathname.replace(/^\/|\/$/g, '').replace(/.$/, '$&/');
  const region = url.searchParams.get('region') ?? defaultRegion;
  const endpoint = url.searchParams.get('endpoint') ?? undefined;
  const pathStyle = url.searchParams.get('path_style') ?? 'false';
  const isSound =
    BUCKET.test(url.hostname) &&
    PREFIX.test(prefix) &&
    REGION.test(region) &&
    (endpoint === undefined || isEndpoint(endpoint)) &&
    /^(true|false)$/.test(pathStyle);
  return isSound
    ? { bucket: url.hostname, prefix, region, endpoint, pathStyle: pathStyle === 'true' }
    : undefined;
}

function isEndpoint(value: string): boolean {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  return /^https?:$/.test(url?.protocol ?? '') && !/[@?#\s]/.test(value);
}
