import type { ContractOperation, ContractParameter, ContractSchema } from '../contract/document';
import type { OperationId } from '../contract/generated/operations.gen';
import { contract, type OperationEntry, type OperationRequest, operationEntries } from './start-test-app';

/** Requests made from the contract alone, so that a new operation is covered by itself. */

const { paths, components } = contract.document;

export function operationOf({ method, path }: OperationEntry): ContractOperation {
  return paths[path]?.[method] as ContractOperation;
}

export function entryOf(id: OperationId): OperationEntry {
  return operationEntries.find((entry) => entry.id === id) as OperationEntry;
}

export function resolveSchema(schema: ContractSchema): ContractSchema {
  return schema.$ref
    ? (components.schemas[schema.$ref.split('/').at(-1) as string] as ContractSchema)
    : schema;
}

export function parametersOf(operation: ContractOperation): ContractParameter[] {
  return (operation.parameters ?? []).map(
    ({ $ref }) => components.parameters[$ref.split('/').at(-1) as string] as ContractParameter,
  );
}

/** The one media type that an operation takes, if it takes a body. */
export function mediaTypeOf(operation: ContractOperation): string | undefined {
  return Object.keys(operation.requestBody?.content ?? {})[0];
}

export function bodySchemaOf(operation: ContractOperation): ContractSchema | undefined {
  const mediaType = mediaTypeOf(operation);
  return mediaType === undefined
    ? undefined
    : resolveSchema(operation.requestBody!.content[mediaType]!.schema);
}

/** A valid text for each pattern that requests use; a new pattern needs a line here. */
const TEXTS: [pattern: RegExp, text: string][] = [
  [/^\^\[0-9a-f\]\{8\}-/, '018f3a5c-7e10-7a00-8000-00000000000f'],
  [/^\^\[0-9\]\{4\}-/, '2026-03-02T08:00:00.000Z'],
  [/^\^https\?/, 'https://example.com/product'],
  [/^\^\[A-Z\]\[A-Z0-9_\]/, 'SEARCHING'],
  [/^\^\[A-Za-z0-9\._-\]\{8,64\}/, 'device-phone-one'],
  [/^\^\[A-Za-z0-9\._-\]\{3,64\}/, 'some.body'],
  [/^\^\[A-Za-z0-9\._:\/-\]/, 'ref:1/a'],
  [/^\^\[\^\\u0000/, 'twelve and more characters'],
];

/** A value that the schema accepts, with all its optional properties. */
export function sampleOf(given: ContractSchema): unknown {
  const schema = resolveSchema(given);
  if (schema.enum) return schema.enum[0];
  if (schema.type === 'integer') return schema.minimum ?? 1;
  if (schema.type === 'boolean') return true;
  if (schema.type === 'array') return [sampleOf(schema.items as ContractSchema)];
  if (schema.type === 'object') {
    return Object.fromEntries(
      Object.entries(schema.properties ?? {}).map(([name, member]) => [name, sampleOf(member)]),
    );
  }
  const text = TEXTS.find(([pattern]) => pattern.test(schema.pattern ?? ''))?.[1];
  if (text === undefined) throw new Error(`no sample for the pattern ${schema.pattern}`);
  return [...text].slice(0, schema.maxLength).join('');
}

/** A request for the operation that is right in form: required parameters as their examples, the whole body. */
export function sampleRequest(entry: OperationEntry): OperationRequest {
  const operation = operationOf(entry);
  const request: OperationRequest & { path: Record<string, string>; query: Record<string, string> } = {
    path: {},
    query: {},
  };
  for (const { name, in: place, required, example } of parametersOf(operation)) {
    if (!required) continue;
    if (place === 'path') request.path[name] = String(example);
    else if (place === 'query') request.query[name] = String(example);
    else if (name === 'Idempotency-Key') request.key = String(example);
    else if (name === 'X-Claim-Token') request.claimToken = String(example);
    else throw new Error(`no sample for the parameter ${name}`);
  }
  const mediaType = mediaTypeOf(operation);
  if (mediaType === 'application/json') request.body = sampleOf(bodySchemaOf(operation) as ContractSchema);
  if (mediaType === 'multipart/form-data') request.file = TINY_PNG;
  return request;
}

/** One red pixel. */
export const TINY_PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC',
  'base64',
);

/** Every text in a JSON body, by its path: `['title']`, `['evidence_ids', '0']`. */
export function textPathsOf(given: ContractSchema, at: string[] = []): string[][] {
  const schema = resolveSchema(given);
  if (schema.type === 'string') return [at];
  if (schema.type === 'array') return textPathsOf(schema.items as ContractSchema, [...at, '0']);
  return Object.entries(schema.properties ?? {}).flatMap(([name, member]) =>
    textPathsOf(member, [...at, name]),
  );
}

/** A copy of a body with one value in it replaced. */
export function withValue(body: unknown, at: string[], value: unknown): unknown {
  const copy = structuredClone(body) as Record<string, unknown>;
  let parent = copy;
  for (const name of at.slice(0, -1)) parent = parent[name] as Record<string, unknown>;
  parent[at.at(-1) as string] = value;
  return copy;
}
