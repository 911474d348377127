import { defineConfig } from '@hey-api/openapi-ts';

const input = './openapi/cmbuyer.yaml';
// The test that generated code is current writes elsewhere and compares.
const root = process.env.CMBUYER_GENERATE_ROOT ?? '.';
// Named, so that the result does not depend on what is found near the output.
const tsConfigPath = './tsconfig.json';

export default defineConfig([
  {
    input,
    output: { path: `${root}/src/contract/generated`, tsConfigPath },
    plugins: [{ name: '@hey-api/typescript', enums: false }],
  },
  {
    input,
    output: { path: `${root}/sdk/src/gen`, tsConfigPath, module: { extension: '.js' } },
    plugins: [
      '@hey-api/client-fetch',
      // Constants beside the types: ErrorCode.LEASE_EXPIRED.
      { name: '@hey-api/typescript', enums: { mode: 'javascript', case: 'preserve' } },
      '@hey-api/sdk',
    ],
  },
]);
