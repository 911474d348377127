import { defineConfig } from '@hey-api/openapi-ts';

const input = './openapi/cmbuyer.yaml';
// The generator test writes elsewhere and compares.
const root = process.env.CMBUYER_GENERATE_ROOT ?? '.';

export default defineConfig([
  {
    input,
    output: { path: `${root}/src/contract/generated` },
    plugins: [{ name: '@hey-api/typescript', enums: false }],
  },
  {
    input,
    output: { path: `${root}/sdk/src/gen`, module: { extension: '.js' } },
    plugins: [
      '@hey-api/client-fetch',
      // Constants beside the types: ErrorCode.LEASE_EXPIRED.
      { name: '@hey-api/typescript', enums: { mode: 'javascript', case: 'preserve' } },
      '@hey-api/sdk',
    ],
  },
]);
