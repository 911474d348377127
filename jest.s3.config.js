// Tests against an S3-compatible server on loopback; they need moto's `moto_server`, so they have a command of their own.
const { shared } = require('./jest.shared.js');

/** @type {import('jest').Config} */
module.exports = {
  ...shared,
  testMatch: ['<rootDir>/tests/s3/**/*.test.ts'],
  testTimeout: 120000,
  maxWorkers: 1,
};
