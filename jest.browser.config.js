// Tests that click through the pages; they need Debian's chromium, so they have a command of their own.
const { shared } = require('./jest.shared.js');

/** @type {import('jest').Config} */
module.exports = {
  ...shared,
  testMatch: ['<rootDir>/tests/browser/**/*.test.ts'],
  testTimeout: 120000,
  maxWorkers: 1,
};
