import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import ts from 'typescript';
import { answerJson, answerProblem, type LocalServer, startLocalServer } from './local-server';

const run = promisify(execFile);
const project = join(__dirname, '../..');
const tsc = require.resolve('typescript/bin/tsc');

const program = `
import { CmbuyerProblem, createDeviceClient, ErrorCode, keyHeaders, newCallKeys, type TaskStatus } from '@cmbuyer/sdk';

async function main(): Promise<void> {
  const phone = createDeviceClient({ baseUrl: process.env.BASE_URL ?? '', accessToken: 'token' });
  const body = { device_id: 'pdd-phone-07' };
  const claimed = await phone.claimNextTask({ headers: keyHeaders(newCallKeys()), body });
  const status: TaskStatus | undefined = claimed?.status;
  const nothing = await phone.claimNextTask({ headers: keyHeaders(newCallKeys()), body });
  const left: void = await phone.logoutDevice();
  let refused = false;
  try {
    await phone.getDeviceContext();
  } catch (error) {
    refused = error instanceof CmbuyerProblem && error.code === ErrorCode.TOKEN_REVOKED;
  }
  // @ts-expect-error an unkeyed claim does not compile
  const unkeyed = () => phone.claimNextTask({ body });
  // @ts-expect-error a phone has no admin operations
  const foreign = phone.listTasks;
  console.log(JSON.stringify([status, nothing === undefined, left === undefined, refused, typeof unkeyed, typeof foreign]));
}

void main();
`;

// It packs, installs and compiles; on a busy machine that takes a while.
jest.setTimeout(240_000);

describe('the packed SDK', () => {
  let folder: string;
  let tarball: string;
  let server: LocalServer;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cmbuyer-sdk-'));
    const packed = await run('npm', ['pack', '--json', '--pack-destination', folder], {
      cwd: join(project, 'sdk'),
    });
    // npm 11 answers a list, npm 12 an object by package name.
    const answer = JSON.parse(packed.stdout) as { filename: string }[] | Record<string, { filename: string }>;
    tarball = join(folder, Object.values(answer)[0]?.filename ?? 'missing');
    server = await startLocalServer((request, response, count) => {
      if (request.url.endsWith('/me')) answerProblem(response, 401, 'TOKEN_REVOKED');
      else if (count % 4 === 1) answerJson(response, 200, { status: 'CLAIMED' });
      else answerJson(response, 204);
    });
  });
  afterAll(async () => {
    await server?.close();
    await rm(folder, { recursive: true, force: true });
  });

  async function install(
    name: string,
    type: 'module' | 'commonjs',
    compilerOptions: object,
  ): Promise<string> {
    const root = join(folder, name);
    await mkdir(join(root, 'src'), { recursive: true });
    await writeFile(
      join(root, 'package.json'),
      JSON.stringify({ name: `uses-${name}`, version: '1.0.0', private: true, type }),
    );
    await run('npm', ['install', tarball, '--offline', '--no-audit', '--no-fund'], { cwd: root });
    await writeFile(join(root, 'src/main.ts'), program);
    await writeFile(
      join(root, 'tsconfig.json'),
      JSON.stringify({
        compilerOptions: {
          target: 'es2022',
          module: 'nodenext',
          strict: true,
          exactOptionalPropertyTypes: true,
          skipLibCheck: false,
          rootDir: 'src',
          outDir: 'out',
          ...compilerOptions,
        },
        include: ['src'],
      }),
    );
    return root;
  }

  async function compileAndRun(root: string): Promise<unknown> {
    await run(process.execPath, [tsc, '-p', root]).catch((error: { stdout: string }) => {
      throw new Error(error.stdout);
    });
    const { stdout } = await run(process.execPath, [join(root, 'out/main.js')], {
      env: { ...process.env, BASE_URL: server.baseUrl },
    });
    return JSON.parse(stdout);
  }

  const expected = ['CLAIMED', true, true, true, 'function', 'undefined'];

  it('compiles strictly and runs as an ES module, with the types of a browser', async () => {
    const root = await install('esm', 'module', { lib: ['es2022', 'dom', 'dom.iterable'], types: [] });
    await writeFile(
      join(root, 'src/process.d.ts'),
      'declare const process: { env: { BASE_URL?: string } };\n',
    );

    expect(await compileAndRun(root)).toEqual(expected);
    expect(server.seen).toHaveLength(4);
  });

  it('compiles strictly and runs as CommonJS, with the types of Node', async () => {
    const root = await install('cjs', 'commonjs', { lib: ['es2022'], types: ['node'] });
    for (const name of ['@types/node', 'undici-types']) {
      const from = dirname(require.resolve(`${name}/package.json`, { paths: [project] }));
      await cp(from, join(root, 'node_modules', name), { recursive: true });
    }

    expect(await compileAndRun(root)).toEqual(expected);
    expect(server.seen).toHaveLength(8);
  });

  it('compiles the examples of its README', async () => {
    const root = await install('readme', 'module', { lib: ['es2022', 'dom'], types: [], noEmit: true });
    const readme = await readFile(join(root, 'node_modules/@cmbuyer/sdk/README.md'), 'utf8');
    const examples = [...readme.matchAll(/```ts\n(.*?)```/gs)].map((match) => match[1] ?? '');
    const bodies = examples.map((example) => example.replace(/^import .*$/gm, ''));
    const names =
      'createAdminClient, createDeviceClient, keyHeaders, newCallKeys, newIdempotencyKey, withKeys';
    await writeFile(
      join(root, 'src/main.ts'),
      `import { type CallKeys, type CreateTaskRequest, ${names} } from '@cmbuyer/sdk';
      declare const username: string, password: string, order_no: string, wish: CreateTaskRequest;
      declare const storage: { read(): Promise<CallKeys | undefined>; write(keys: object): Promise<void>; clear(): Promise<void> };
      ${bodies.map((body, index) => `export async function example${index}() {${body}}`).join('\n')}`,
    );

    const compiled = run(process.execPath, [tsc, '-p', root]).catch((error: { stdout: string }) => error);

    expect((await compiled).stdout).toBe('');
    expect(examples).toHaveLength(2);
  });

  it('shows the words of the contract for an operation', async () => {
    const root = await install('docs', 'module', { lib: ['es2022', 'dom'], types: [] });
    const file = join(root, 'src/main.ts');
    const compilerOptions = { module: ts.ModuleKind.NodeNext, strict: true, types: [] };
    const service = ts.createLanguageService({
      fileExists: ts.sys.fileExists,
      readFile: ts.sys.readFile,
      directoryExists: ts.sys.directoryExists,
      getDefaultLibFileName: ts.getDefaultLibFilePath,
      getCompilationSettings: () => compilerOptions,
      getScriptFileNames: () => [file],
      getScriptVersion: () => '1',
      getScriptSnapshot: (path) => {
        const text = ts.sys.readFile(path);
        return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text);
      },
      getCurrentDirectory: () => root,
    });

    const hint = service.getQuickInfoAtPosition(file, program.indexOf('claimNextTask'));

    const contract = await readFile(join(project, 'openapi/cmbuyer.yaml'), 'utf8');
    const words = ts.displayPartsToString(hint?.documentation);
    expect(words).toContain('Claim the next task');
    expect(contract).toContain('summary: Claim the next task');
  });

  it('holds nothing but the two builds, the manifest and the words', async () => {
    const { stdout } = await run('tar', ['-tzf', tarball]);
    const top = new Set(
      stdout
        .trim()
        .split('\n')
        .map((path) => path.split('/').slice(1, 3).join('/')),
    );
    expect([...top].sort()).toEqual(['README.md', 'dist/cjs', 'dist/esm', 'package.json']);
  });
});
