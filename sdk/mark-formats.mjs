// Node tells ES modules from CommonJS by the nearest package.json.
import { writeFileSync } from 'node:fs';

for (const [folder, type] of [
  ['esm', 'module'],
  ['cjs', 'commonjs'],
]) {
  writeFileSync(new URL(`./dist/${folder}/package.json`, import.meta.url), `{ "type": "${type}" }\n`);
}
