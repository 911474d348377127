// Writes src/contract/generated/operations.gen.ts: what each operation takes and may answer, by operationId.
// The types of hey-api know no media types and no 2xx headers; the server's handlers need both.
// And sdk/src/gen/operations.gen.ts: which operations are whose; the generated client does not tell.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parse } from 'yaml';

interface MediaType {
  schema: { $ref?: string };
}
interface Operation {
  operationId: string;
  tags: string[];
  parameters?: { $ref: string }[];
  requestBody?: { content: Record<string, MediaType> };
  responses: Record<string, { content?: Record<string, MediaType> }>;
}
interface Contract {
  paths: Record<string, Record<string, Operation>>;
  components: { parameters: Record<string, { in: string }> };
}

const project = join(__dirname, '..');
const root = process.env.CMBUYER_GENERATE_ROOT ?? project;
const target = join(root, 'src/contract/generated/operations.gen.ts');
const contract = parse(readFileSync(join(project, 'openapi/cmbuyer.yaml'), 'utf8')) as Contract;
const operations = Object.values(contract.paths).flatMap((item) => Object.values(item));
const imports = new Set<string>();

/** hey-api names an operation's input type after it. */
function inputType(operation: Operation, part: 'path' | 'query' | 'headers' | 'body'): string {
  const name = `${operation.operationId[0]!.toUpperCase()}${operation.operationId.slice(1)}Data`;
  if (part === 'body') {
    if (!operation.requestBody?.content['application/json']) return 'undefined';
    imports.add(name);
    return `${name}['body']`;
  }
  const place = part === 'headers' ? 'header' : part;
  const places = (operation.parameters ?? []).map(
    (parameter) => contract.components.parameters[parameter.$ref.split('/').pop()!]!.in,
  );
  if (!places.includes(place)) return 'Record<never, never>';
  imports.add(name);
  return part === 'headers' ? `LowerCased<${name}['headers']>` : `NonNullable<${name}['${part}']>`;
}

function answerTypes(operation: Operation): string {
  const answers = Object.entries(operation.responses)
    .filter(([status]) => status.startsWith('2'))
    .flatMap(([status, response]) => {
      const contents = Object.entries(response.content ?? {});
      if (contents.length === 0) return [`{ status: ${status}; headers?: Record<string, string> }`];
      return contents.map(([type, media]) => {
        const body = media.schema.$ref?.split('/').pop();
        if (body) imports.add(body);
        return `{ status: ${status}; type: '${type}'; body: ${body ?? 'Buffer'}; headers?: Record<string, string> }`;
      });
    });
  return answers.map((answer) => `\n      | ${answer}`).join('');
}

const members = operations.map(
  (operation) => `  ${operation.operationId}: {
    path: ${inputType(operation, 'path')};
    query: ${inputType(operation, 'query')};
    headers: ${inputType(operation, 'headers')};
    body: ${inputType(operation, 'body')};
    answer:${answerTypes(operation)};
  };`,
);

const text = `// Written by scripts/generate-operations.ts from openapi/cmbuyer.yaml; do not edit.
import type {
${[...imports]
  .sort()
  .map((name) => `  ${name},`)
  .join('\n')}
} from './types.gen';

type LowerCased<T> = { [K in keyof T as Lowercase<K & string>]: T[K] };

/** What each operation takes and may answer. Header names are lower case; a multipart file comes apart. */
export interface Operations {
${members.join('\n')}
}

export type OperationId = keyof Operations;

export const operationIds = [
${operations.map((operation) => `  '${operation.operationId}',`).join('\n')}
] as const satisfies readonly OperationId[];
`;

mkdirSync(dirname(target), { recursive: true });
writeFileSync(target, text);

/** The operations of each side, for the SDK's clients. */
const sides = ['device', 'admin', 'meta'].map((tag) => {
  const names = operations
    .filter(({ tags }) => tags[0] === tag)
    .map(({ operationId }) => `  '${operationId}',`);
  return `export const ${tag}Operations = [\n${names.join('\n')}\n] as const;\n`;
});
const header = '// Written by scripts/generate-operations.ts from openapi/cmbuyer.yaml; do not edit.\n';
writeFileSync(join(root, 'sdk/src/gen/operations.gen.ts'), header + sides.join('\n'));
