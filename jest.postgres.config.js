// The suites that use a database, on PostgreSQL: a given one (TEST_DATABASE_URL) or one started for this run.
const { shared } = require('./jest.shared.js');

/** @type {import('jest').Config} */
module.exports = {
  ...shared,
  globalSetup: '<rootDir>/src/testing/postgres-setup.ts',
  globalTeardown: '<rootDir>/src/testing/postgres-teardown.ts',
  testMatch: [
    '<rootDir>/src/{store,lifecycle,access,media,http,pages}/**/*.test.ts',
    '<rootDir>/tests/http/**/*.test.ts',
    '<rootDir>/tests/{postgres,processes}/**/*.test.ts',
    '<rootDir>/tests/processes/**/*.test.ts',
    '<rootDir>/migrations/*.test.ts',
  ],
  testTimeout: 120000,
  maxWorkers: 2,
};
