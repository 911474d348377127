const { shared } = require('./jest.shared.js');

/** @type {import('jest').Config} */
module.exports = {
  ...shared,
  testMatch: ['<rootDir>/{src,tests,migrations,scripts}/**/*.test.ts'],
  testPathIgnorePatterns: [
    '/node_modules/',
    '<rootDir>/tests/browser/',
    '<rootDir>/tests/s3/',
    '<rootDir>/tests/postgres/',
  ],
  testTimeout: 60000,
  maxWorkers: 2,
};
