import type { Contract } from '../contract/document';
import { Refusal } from '../contract/errors';
import type { Handlers } from './router';
import type { Services } from './services';

export type MetaOperation = 'getHealth' | 'getReadiness' | 'getOpenapiYaml' | 'getOpenapiJson';

/** Health for load balancers, and the contract itself. */
export function metaOperations({ database }: Services, contract: Contract): Pick<Handlers, MetaOperation> {
  const json = Buffer.from(JSON.stringify(contract.document));
  return {
    getHealth: async () => ({ status: 200, type: 'application/json', body: { status: 'ok' } }),

    async getReadiness() {
      try {
        await database.read.knex.raw('select 1');
      } catch (cause) {
        throw new Refusal('SERVICE_UNAVAILABLE', { retryAfterSeconds: 1, cause });
      }
      return { status: 200, type: 'application/json', body: { status: 'ready' } };
    },

    getOpenapiYaml: async () => ({ status: 200, type: 'application/yaml', body: contract.contractYaml }),

    getOpenapiJson: async () => ({ status: 200, type: 'application/json', body: json as never }),
  };
}
