import { existsSync } from 'node:fs';
import path from 'node:path';
import { type Config, ConfigError, packageRoot, readConfig } from './config';

const DAY = 86_400;

/** The one line that an operator gets. */
function refused(env: Record<string, string>): string {
  try {
    readConfig(env);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as ConfigError).message;
  }
  throw new Error('it was accepted');
}

describe('readConfig', () => {
  it('has a default for every setting', () => {
    expect(readConfig({})).toEqual({
      host: '127.0.0.1',
      port: 8080,
      dataDir: path.resolve('data'),
      databaseUrl: '',
      claimLeaseSeconds: 600,
      runLeaseSeconds: 90,
      deviceHeartbeatTtlSeconds: 120,
      authorizationTtlSeconds: DAY,
      accessTokenTtlSeconds: 30 * DAY,
      sessionTtlSeconds: DAY / 2,
      trustProxy: false,
      logLevel: 'info',
      adminUsername: 'admin',
      adminPassword: '',
    } satisfies Config);
  });

  it('ignores every variable that is not its own', () => {
    expect(readConfig({ PORT: '1', HOST: 'x', LOG_LEVEL: 'x', cmbuyer_port: '1' })).toEqual(readConfig({}));
  });

  const numbers: [string, keyof Config, number, number, number][] = [
    ['CMBUYER_PORT', 'port', 0, 65_535, 8080],
    ['CMBUYER_CLAIM_LEASE_SECONDS', 'claimLeaseSeconds', 5, 3_600, 600],
    ['CMBUYER_RUN_LEASE_SECONDS', 'runLeaseSeconds', 5, 900, 90],
    ['CMBUYER_DEVICE_HEARTBEAT_TTL_SECONDS', 'deviceHeartbeatTtlSeconds', 5, 900, 120],
    ['CMBUYER_AUTHORIZATION_TTL_SECONDS', 'authorizationTtlSeconds', 60, 30 * DAY, DAY],
    ['CMBUYER_ACCESS_TOKEN_TTL_SECONDS', 'accessTokenTtlSeconds', 60, 365 * DAY, 30 * DAY],
    ['CMBUYER_SESSION_TTL_SECONDS', 'sessionTtlSeconds', 60, 30 * DAY, DAY / 2],
  ];
  describe.each(numbers)('%s', (name, field, minimum, maximum, fallback) => {
    it('takes both of its bounds, and its default when it is empty', () => {
      expect(readConfig({ [name]: String(minimum) })[field]).toBe(minimum);
      expect(readConfig({ [name]: String(maximum) })[field]).toBe(maximum);
      expect(readConfig({ [name]: '' })[field]).toBe(fallback);
    });

    it.each([
      String(minimum - 1),
      String(maximum + 1),
      '1e2',
      '0x10',
      '6.5',
      ' 60',
      '60s',
      '60\n',
      'sixty',
      'NaN',
      'Infinity',
      '٦٠',
      '99999999999',
    ])('refuses %p with its name, its bounds and an example', (value) => {
      expect(refused({ [name]: value })).toBe(
        `${name} must be a whole number from ${minimum} to ${maximum}, for example ${name}=${fallback}`,
      );
    });
  });

  it.each<[string, keyof Config, string, unknown]>([
    ['CMBUYER_HOST', 'host', '0.0.0.0', '0.0.0.0'],
    ['CMBUYER_HOST', 'host', '::1', '::1'],
    ['CMBUYER_HOST', 'host', 'buy.example.test', 'buy.example.test'],
    ['CMBUYER_DATA_DIR', 'dataDir', '/var/lib/cmbuyer', '/var/lib/cmbuyer'],
    ['CMBUYER_DATA_DIR', 'dataDir', 'some where', path.resolve('some where')],
    ['CMBUYER_DATABASE_URL', 'databaseUrl', '', ''],
    ['CMBUYER_DATABASE_URL', 'databaseUrl', 'postgres://u:p@h/d', 'postgres://u:p@h/d'],
    [
      'CMBUYER_DATABASE_URL',
      'databaseUrl',
      'postgresql://h/d?sslmode=require',
      'postgresql://h/d?sslmode=require',
    ],
    ['CMBUYER_TRUST_PROXY', 'trustProxy', 'on', true],
    ['CMBUYER_TRUST_PROXY', 'trustProxy', 'TRUE', true],
    ['CMBUYER_TRUST_PROXY', 'trustProxy', '1', true],
    ['CMBUYER_TRUST_PROXY', 'trustProxy', 'off', false],
    ['CMBUYER_TRUST_PROXY', 'trustProxy', 'false', false],
    ['CMBUYER_TRUST_PROXY', 'trustProxy', '0', false],
    ['CMBUYER_TRUST_PROXY', 'trustProxy', '', false],
    ['CMBUYER_LOG_LEVEL', 'logLevel', 'silent', 'silent'],
    ['CMBUYER_LOG_LEVEL', 'logLevel', 'trace', 'trace'],
    ['CMBUYER_ADMIN_USERNAME', 'adminUsername', 'abc', 'abc'],
    ['CMBUYER_ADMIN_USERNAME', 'adminUsername', 'A.b_c-9'.padEnd(64, 'x'), 'A.b_c-9'.padEnd(64, 'x')],
    ['CMBUYER_ADMIN_PASSWORD', 'adminPassword', '', ''],
    ['CMBUYER_ADMIN_PASSWORD', 'adminPassword', 'x'.repeat(12), 'x'.repeat(12)],
    ['CMBUYER_ADMIN_PASSWORD', 'adminPassword', '密'.repeat(128), '密'.repeat(128)],
    ['CMBUYER_ADMIN_PASSWORD', 'adminPassword', '😀'.repeat(12), '😀'.repeat(12)],
    ['CMBUYER_ADMIN_PASSWORD', 'adminPassword', 'e\u0301'.repeat(12), '\u00e9'.repeat(12)],
  ])('takes %s as %s from %j', (name, field, value, read) => {
    expect(readConfig({ [name]: value })[field]).toBe(read);
  });

  const texts: [string, string, string, string[]][] = [
    [
      'CMBUYER_HOST',
      'a host name or address',
      'CMBUYER_HOST=0.0.0.0',
      ['', 'a b', 'http://x', 'x/y', 'x'.repeat(254), 'x\n'],
    ],
    ['CMBUYER_DATA_DIR', 'a directory', 'CMBUYER_DATA_DIR=/var/lib/cmbuyer', ['', 'a\0b']],
    [
      'CMBUYER_DATABASE_URL',
      'empty (SQLite in the data directory) or a PostgreSQL address',
      'CMBUYER_DATABASE_URL=postgresql://cmbuyer@localhost/cmbuyer',
      ['mysql://h/d', 'sqlite:x', 'postgres://', 'postgres://a b', ' '],
    ],
    [
      'CMBUYER_LOG_LEVEL',
      'one of fatal, error, warn, info, debug, trace, silent',
      'CMBUYER_LOG_LEVEL=info',
      ['', 'INFO', 'verbose', 'infox'],
    ],
    [
      'CMBUYER_ADMIN_USERNAME',
      '3 to 64 letters, digits, dots, dashes or underscores',
      'CMBUYER_ADMIN_USERNAME=admin',
      ['', 'ab', 'x'.repeat(65), 'an admin', '管理员', 'admin\n'],
    ],
    ['CMBUYER_TRUST_PROXY', 'on or off', 'CMBUYER_TRUST_PROXY=on', ['yes', '2', ' on', 'enabled']],
  ];
  describe.each(texts)('%s', (name, bounds, example, values) => {
    it.each(values)('refuses %j with its name, its bounds and an example', (value) => {
      expect(refused({ [name]: value })).toBe(`${name} must be ${bounds}, for example ${example}`);
    });
  });

  it.each([
    ['x'.repeat(11)],
    ['x'.repeat(129)],
    ['first line\nsecond line'],
    ['😀'.repeat(11)],
    ['e\u0301'.repeat(11)],
  ])('refuses CMBUYER_ADMIN_PASSWORD without showing it: %j', (value) => {
    const message = refused({ CMBUYER_ADMIN_PASSWORD: value });
    expect(message).toBe(
      'CMBUYER_ADMIN_PASSWORD must be empty or 12 to 128 characters without line breaks, for example CMBUYER_ADMIN_PASSWORD=correct-horse-battery',
    );
    expect(message).not.toContain(value);
  });

  describe('CMBUYER_IMAGE_STORE_URL', () => {
    const read = (value: string, env: Record<string, string> = {}) =>
      readConfig({ CMBUYER_IMAGE_STORE_URL: value, ...env }).imageStore;
    const plain = {
      bucket: 'pictures',
      prefix: '',
      region: 'us-east-1',
      endpoint: undefined,
      pathStyle: false,
    };

    it.each<[string, Config['imageStore']]>([
      ['', undefined],
      ['s3://pictures', plain],
      ['s3://pictures/', plain],
      ['s3://pictures/a', { ...plain, prefix: 'a/' }],
      ['s3://pictures/a/b.c_d-9/', { ...plain, prefix: 'a/b.c_d-9/' }],
      ['s3://pictures?region=eu-central-1', { ...plain, region: 'eu-central-1' }],
      [
        's3://pictures/a?endpoint=http://127.0.0.1:9000&region=us-west-2&path_style=true',
        {
          bucket: 'pictures',
          prefix: 'a/',
          region: 'us-west-2',
          endpoint: 'http://127.0.0.1:9000',
          pathStyle: true,
        },
      ],
      [
        's3://p.q-r/?endpoint=https://s3.test/x',
        { ...plain, bucket: 'p.q-r', endpoint: 'https://s3.test/x' },
      ],
    ])('takes %j', (value, location) => expect(read(value)).toEqual(location));

    it('takes the region from the variables of AWS when the address names none', () => {
      expect(read('s3://pictures', { AWS_DEFAULT_REGION: 'eu-west-2' })?.region).toBe('eu-west-2');
      const both = { AWS_REGION: 'eu-west-1', AWS_DEFAULT_REGION: 'eu-west-2' };
      expect(read('s3://pictures', both)?.region).toBe('eu-west-1');
      expect(read('s3://pictures?region=eu-west-3', both)?.region).toBe('eu-west-3');
      expect(refused({ CMBUYER_IMAGE_STORE_URL: 's3://pictures', AWS_REGION: 'no region' })).toMatch(
        /^CMBUYER_IM/,
      );
    });

    it.each([
      ' ',
      'pictures',
      '/var/lib/pictures',
      'file:///var/lib/pictures',
      'https://pictures.s3.amazonaws.com',
      's3:pictures',
      's3://',
      's3:///a',
      's3://Pictures',
      's3://p',
      's3://pictures:9000',
      's3://a-key:a-secret@pictures',
      's3://a-key@pictures/x',
      's3://pictures/a//b',
      's3://pictures/a b',
      ' s3://pictures',
      's3://pictures/图',
      's3://pictures/a%2Fb',
      `s3://pictures/${'a'.repeat(512)}`,
      's3://pictures#a-secret',
      's3://pictures?region=',
      's3://pictures?region=a&region=b',
      's3://pictures?region=eu west',
      's3://pictures?endpoint=',
      's3://pictures?endpoint=127.0.0.1:9000',
      's3://pictures?endpoint=http://a-key:a-secret@127.0.0.1:9000',
      's3://pictures?endpoint=ftp://127.0.0.1',
      's3://pictures?path_style=yes',
      's3://pictures?secret_access_key=a-secret',
      's3://pictures\n',
      's3://pictures\0',
    ])('refuses %j in one line with an example, and does not repeat it', (value) => {
      const message = refused({ CMBUYER_IMAGE_STORE_URL: value });
      expect(message).toMatch(
        /^CMBUYER_IMAGE_STORE_URL must be .*, for example CMBUYER_IMAGE_STORE_URL=s3:\S+$/,
      );
      expect(message).not.toContain('a-secret');
    });

    it('refuses half of a pair of credentials, and shows neither', () => {
      for (const half of ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY']) {
        const message = refused({ CMBUYER_IMAGE_STORE_URL: 's3://pictures', [half]: 'a-secret' });
        expect(message).toMatch(/^CMBUYER_IMAGE_STORE_URL needs both .*, for example .*$/);
        expect(message).not.toContain('a-secret');
        expect(readConfig({ [half]: 'a-secret' }).imageStore).toBeUndefined();
      }
    });
  });

  it('says everything in one line', () => {
    for (const [name, , , values] of texts) {
      for (const value of values) expect(refused({ [name]: value })).not.toMatch(/[\r\n]/);
    }
  });
});

describe('packageRoot', () => {
  it('is the folder of this package', () => {
    expect(existsSync(path.join(packageRoot, 'openapi', 'cmbuyer.yaml'))).toBe(true);
    expect(packageRoot).toBe(path.resolve(__dirname, '..'));
  });
});
