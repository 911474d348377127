// Writes docs/errors.md from the error catalogue and from what each operation of the contract may refuse with.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { loadContract } from '../src/contract/document';
import { type CatalogueEntry, type ClientAction, errorCatalogue } from '../src/contract/errors';

const target = join(process.env.CMBUYER_GENERATE_ROOT ?? join(__dirname, '..'), 'docs/errors.md');
const operations = Object.values(loadContract().document.paths).flatMap((item) => Object.values(item));

const actions: Record<ClientAction, string> = {
  SIGN_IN: 'Get a new credential, then send the request with it.',
  FIX: 'Change the request; the same one is refused again.',
  RETRY_SAME: 'Send the very same request again, with the same key, after `Retry-After` where it is given.',
  REFRESH: 'Read how things stand now and decide anew.',
  STOP: 'Do nothing more about it; a device stops acting on the task.',
};

const groups = {
  'all operations': operations,
  'all that need a sign-in': operations.filter((operation) => operation.security.length > 0),
  'all that take a body': operations.filter((operation) => operation.requestBody),
  'all that take a JSON body': operations.filter(
    (operation) => operation.requestBody?.content['application/json'],
  ),
  'all that answer a body': operations.filter((operation) =>
    Object.entries(operation.responses).some(([status, response]) => status < '300' && response.content),
  ),
  'all that need the CSRF token': operations.filter((operation) =>
    operation.security.some((needed) => 'adminCsrf' in needed),
  ),
};

function usedBy(code: string): string {
  const users = operations.filter((operation) => operation['x-error-codes'].includes(code));
  if (users.length === 0) return 'none of the contract';
  const names = users.map((operation) => `\`${operation.operationId}\``).join(', ');
  const group = Object.entries(groups).find(
    ([, members]) => members.length === users.length && members.every((member) => users.includes(member)),
  );
  return group?.[0] ?? names;
}

const rows = Object.entries<CatalogueEntry>(errorCatalogue).map(
  ([code, entry]) =>
    `| \`${code}\` | ${entry.status} | ${entry.title} | \`${entry.client}\`: ${entry.detail} | ${usedBy(code)} |`,
);

const text = `# Error codes

<!-- Written by scripts/generate-error-docs.ts; do not edit. -->

Every refusal is \`application/problem+json\` with a \`code\`. A code, once published, keeps its meaning and its
status; a minor version may add codes, so a client must be able to meet one that it does not know and then goes
by the status. The codes stand in the order in which a request usually meets the checks.

What the client does:

| action | meaning |
|---|---|
${Object.entries(actions)
  .map(([action, meaning]) => `| \`${action}\` | ${meaning} |`)
  .join('\n')}

| code | status | meaning | what the client does | operations |
|---|---|---|---|---|
${rows.join('\n')}
`;

mkdirSync(dirname(target), { recursive: true });
writeFileSync(target, text);
