/** @type {import('jest').Config} */
module.exports = {
  testMatch: ['<rootDir>/{src,tests,migrations,scripts}/**/*.test.ts'],
  transform: { '^.+\\.ts$': ['@swc/jest', { jsc: { target: 'es2022', parser: { syntax: 'typescript' } }, module: { type: 'commonjs' } }] },
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
  modulePathIgnorePatterns: ['<rootDir>/dist/', '<rootDir>/sdk/dist/'],
  testTimeout: 60000,
  maxWorkers: 2,
};
