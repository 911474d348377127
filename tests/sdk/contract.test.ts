import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createAdminClient, createDeviceClient } from '@cmbuyer/sdk';
import { parse } from 'yaml';

const project = join(__dirname, '../..');
const contract = parse(readFileSync(join(project, 'openapi/cmbuyer.yaml'), 'utf8')) as {
  info: { version: string };
  paths: Record<string, Record<string, { operationId: string; tags: string[] }>>;
};

function operationsOf(...tags: string[]): string[] {
  return Object.values(contract.paths)
    .flatMap((path) => Object.values(path))
    .filter((operation) => operation.tags.some((tag) => tags.includes(tag)))
    .map((operation) => operation.operationId)
    .sort();
}

function callsOf(client: object): string[] {
  return Object.keys(client)
    .filter((name) => name !== 'http' && name !== 'setAccessToken')
    .sort();
}

describe('the SDK', () => {
  it('has the version of the contract', () => {
    const manifest = JSON.parse(readFileSync(join(project, 'sdk/package.json'), 'utf8'));
    expect(manifest.version).toBe(contract.info.version);
  });

  it('offers every device operation', () => {
    expect(callsOf(createDeviceClient({ baseUrl: 'http://localhost' }))).toEqual(
      operationsOf('device', 'meta'),
    );
  });

  it('offers every admin operation', () => {
    expect(callsOf(createAdminClient({ baseUrl: 'http://localhost' }))).toEqual(
      operationsOf('admin', 'meta'),
    );
  });
});
