import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';

const project = join(__dirname, '../..');
const generated = ['src/contract/generated', 'sdk/src/gen', 'docs/errors.md'];

function contents(root: string): Record<string, string> {
  const files = generated.flatMap((entry) =>
    entry.endsWith('.md')
      ? [join(root, entry)]
      : readdirSync(join(root, entry), { recursive: true, withFileTypes: true })
          .filter((found) => found.isFile())
          .map((found) => join(found.parentPath, found.name)),
  );
  return Object.fromEntries(files.map((file) => [relative(root, file), readFileSync(file, 'utf8')]));
}

describe('npm run generate', () => {
  let fresh: string;

  beforeAll(() => {
    fresh = mkdtempSync(join(tmpdir(), 'cmbuyer-generate-'));
  });
  afterAll(() => rmSync(fresh, { recursive: true, force: true }));

  it('writes exactly what is checked in', () => {
    execFileSync('npm', ['run', '--silent', 'generate'], {
      cwd: project,
      env: { ...process.env, CMBUYER_GENERATE_ROOT: fresh },
      stdio: 'pipe',
    });

    const current = contents(project);
    const regenerated = contents(fresh);

    expect(Object.keys(current).sort()).toEqual(Object.keys(regenerated).sort());
    const stale = Object.keys(regenerated).filter((file) => current[file] !== regenerated[file]);
    expect(stale).toEqual([]);
  });
});
