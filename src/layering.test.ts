import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

/** Which rooms each room may import, beside itself. A new room needs a line here. */
const RULES: Record<string, string[]> = {
  clock: [],
  config: [],
  contract: ['clock', 'config'],
  store: ['contract'],
  lifecycle: ['store', 'access', 'media'],
  access: ['lifecycle', 'store', 'media'],
  media: ['lifecycle', 'access', 'store'],
  http: ['pages', 'lifecycle'],
  pages: ['http', 'lifecycle'],
  app: ['http'],
  simulator: [],
  serve: ['app'],
  demo: ['serve', 'simulator'],
  main: ['demo'],
};
/** What any room may import. */
const LEAVES = ['clock', 'config'];
/** These see nothing of the server, not even its leaves. */
const OUTSIDE = ['simulator'];

const ROOT = path.resolve(__dirname, '..');

/** Everything that a room may reach, going down from room to room. */
function reachOf(room: string, seen = new Set<string>()): Set<string> {
  for (const below of RULES[room] ?? []) {
    if (seen.has(below)) continue;
    seen.add(below);
    reachOf(below, seen);
  }
  return seen;
}

function mayImport(from: string, to: string): boolean {
  if (from === to) return true;
  if (OUTSIDE.includes(from) || from === 'clock' || from === 'config') return false;
  return LEAVES.includes(to) || reachOf(from).has(to);
}

interface Import {
  file: string;
  /** As written. */
  specifier: string;
}

function importsOf(source: string): string[] {
  const code = source.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '');
  const patterns = [
    /\b(?:import|export)\b[^'";]*?\bfrom\s*['"]([^'"]+)['"]/g,
    /\bimport\s*['"]([^'"]+)['"]/g,
    /\b(?:import|require)\(\s*['"]([^'"]+)['"]\s*\)/g,
  ];
  return patterns.flatMap((pattern) => [...code.matchAll(pattern)].map((match) => match[1]!));
}

function filesIn(folder: string): string[] {
  return readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.[cm]?[jt]s$/.test(file))
    .map((file) => path.posix.join(folder, file.split(path.sep).join('/')));
}

const isTest = (file: string) => file.endsWith('.test.ts');
const isForTests = (file: string) => file.split('/').includes('testing');

function importsIn(files: string[]): Import[] {
  return files.flatMap((file) =>
    importsOf(readFileSync(path.join(ROOT, file), 'utf8')).map((specifier) => ({ file, specifier })),
  );
}

/** Where a relative import leads, from the root of the repository; undefined for a package. */
function targetOf({ file, specifier }: Import): string | undefined {
  return specifier.startsWith('.') ? path.posix.join(path.posix.dirname(file), specifier) : undefined;
}

/** `src/store/tasks` -> `store`, `src/main.ts` -> `main`, `src/demo-pictures` -> `demo`. */
function roomOf(file: string): string | undefined {
  const [top, first] = file.split('/');
  if (top !== 'src' || first === undefined) return undefined;
  const name = first.replace(/(\.test)?\.[jt]s$/, '');
  return name.startsWith('demo-') ? 'demo' : name;
}

/** What breaks the one way of imports, each as a line to read. */
function violations(imports: Import[]): string[] {
  return imports.flatMap((one) => {
    const from = roomOf(one.file)!;
    const target = targetOf(one);
    const line = `${one.file} imports ${one.specifier}`;
    if (target === undefined) {
      const isOwn = one.specifier.startsWith('@cmbuyer/') || one.specifier === 'cmbuyer';
      return isOwn && from !== 'simulator' && from !== 'demo' ? [line] : [];
    }
    if (isForTests(target)) return [line];
    if (target === 'package.json') return [];
    const to = roomOf(target);
    return to !== undefined && to in RULES && mayImport(from, to) ? [] : [line];
  });
}

describe('imports', () => {
  const sources = filesIn('src').filter((file) => !isTest(file) && !isForTests(file));

  it('find a rule for every room', () => {
    const rooms = new Set(sources.map(roomOf));
    expect([...rooms].filter((room) => !(room! in RULES))).toEqual([]);
    expect(sources.length).toBeGreaterThan(50);
  });

  it('go one way: from the doors down to the facts and the words', () => {
    expect(violations(importsIn(sources))).toEqual([]);
  });

  it('never bring testing into the product', () => {
    const testing = importsIn(sources).filter((one) => isForTests(targetOf(one) ?? ''));
    expect(testing).toEqual([]);
  });

  it('of a simulated phone are the SDK and packages, nothing of the server', () => {
    const simulator = importsIn(sources.filter((file) => roomOf(file) === 'simulator'));
    expect(
      simulator.filter((one) => !(targetOf(one) ?? 'src/simulator/').startsWith('src/simulator/')),
    ).toEqual([]);
  });

  it('of a migration are packages only: it must run the same after the code has moved on', () => {
    const migrations = filesIn('migrations').filter((file) => !isTest(file));
    expect(migrations.length).toBeGreaterThan(0);
    expect(importsIn(migrations).filter((one) => targetOf(one) !== undefined)).toEqual([]);
  });

  it('of the SDK stay inside the SDK', () => {
    const sdk = importsIn(filesIn('sdk/src'));
    expect(sdk.filter((one) => !(targetOf(one) ?? 'sdk/').startsWith('sdk/'))).toEqual([]);
  });

  it('of databases and servers stand in their own rooms', () => {
    const homes: Record<string, string[]> = {
      knex: ['store'],
      'better-sqlite3': ['store'],
      pg: ['store'],
      express: ['http', 'pages', 'app'],
      'openapi-backend': ['http'],
      eta: ['pages'],
      sharp: ['media', 'demo'],
      '@node-rs/argon2': ['access'],
    };
    const strays = importsIn(sources).filter(
      ({ file, specifier }) => homes[specifier] && !homes[specifier].includes(roomOf(file)!),
    );
    expect(strays).toEqual([]);
  });
});

describe('the rules themselves', () => {
  it.each([
    ['store', 'contract', true],
    ['lifecycle', 'contract', true],
    ['lifecycle', 'access', true],
    ['pages', 'http', true],
    ['main', 'store', true],
    ['demo', 'simulator', true],
    ['media', 'clock', true],
    ['contract', 'store', false],
    ['store', 'lifecycle', false],
    ['lifecycle', 'http', false],
    ['http', 'app', false],
    ['app', 'serve', false],
    ['serve', 'demo', false],
    ['serve', 'simulator', false],
    ['simulator', 'contract', false],
    ['simulator', 'clock', false],
    ['clock', 'config', false],
  ])('%s may import %s: %p', (from, to, may) => expect(mayImport(from, to)).toBe(may));

  it('see every way to import', () => {
    const source = `
      import a from './a';
      import type { B } from "./b";
      import {
        c,
      } from './c';
      import './d';
      export { e } from './e';
      const f = require('./f');
      const g = await import('./g');
      type H = import('./h').H;
      // import x from './x';
      /* import y from './y'; */
    `;
    expect(importsOf(source).sort()).toEqual(
      ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((name) => `./${name}`),
    );
  });

  it('see what breaks them', () => {
    const broken = [
      { file: 'src/store/tasks.ts', specifier: '../lifecycle/guards' },
      { file: 'src/http/router.ts', specifier: '../testing/purchase' },
      { file: 'src/http/router.ts', specifier: '../pages/testing/client' },
      { file: 'src/http/router.ts', specifier: '../../migrations/0001-create-people-and-devices' },
      { file: 'src/http/router.ts', specifier: '../elsewhere/thing' },
      { file: 'src/simulator/phone.ts', specifier: '../contract/moves' },
      { file: 'src/lifecycle/start-task.ts', specifier: '@cmbuyer/sdk' },
    ];
    expect(violations(broken)).toHaveLength(broken.length);
    expect(violations([{ file: 'src/simulator/phone.ts', specifier: '@cmbuyer/sdk' }])).toEqual([]);
  });
});
