import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { packageRoot } from '../../src/config';

const main = path.join(packageRoot, 'dist/src/main.js');

export interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

/** The built program in a process of its own, with nothing in its environment but what a test gives it. */
export class Program {
  stdout = '';
  stderr = '';
  readonly ended: Promise<Ended>;
  private readonly child: ChildProcess;

  constructor(args: string[], env: Record<string, string>) {
    if (!existsSync(main)) throw new Error('build first: npm run build');
    this.child = spawn(process.execPath, [main, ...args], {
      cwd: tmpdir(),
      env: { PATH: process.env.PATH, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text;
    });
    this.child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
    });
    this.ended = new Promise((resolve) => {
      this.child.on('close', (code, signal) => {
        resolve({ code, signal, stdout: this.stdout, stderr: this.stderr });
      });
    });
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** The address from the line that the server logs once it listens. */
  async listening(): Promise<string> {
    let hasEnded = false;
    void this.ended.then(() => {
      hasEnded = true;
    });
    for (;;) {
      const address = /"address":"([^"]+)"/.exec(this.stdout)?.[1];
      if (address !== undefined) return address;
      if (hasEnded) throw new Error(`the server did not start: ${this.stderr}`);
      await new Promise((next) => setTimeout(next, 5));
    }
  }
}

const started = new Set<Program>();
const folders: string[] = [];

/** A directory that is gone after the tests of the file. */
export function freshDataDir(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'cmbuyer-process-'));
  folders.push(folder);
  return path.join(folder, 'data');
}

export function run(args: string[], env: Record<string, string>): Promise<Ended> {
  const program = new Program(args, env);
  started.add(program);
  return program.ended;
}

export interface Serving {
  program: Program;
  address: string;
}

/** `serve` on a free port; killed after the test file if it still runs. */
export async function serve(env: Record<string, string>): Promise<Serving> {
  const program = new Program(['serve'], { CMBUYER_PORT: '0', ...env });
  started.add(program);
  return { program, address: await program.listening() };
}

export async function cleanUp(): Promise<void> {
  for (const program of started) {
    program.kill('SIGKILL');
    await program.ended;
  }
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}

export function post(
  address: string,
  target: string,
  body: object,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(`${address}${target}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
}

export async function canSignIn(address: string, username: string, password: string): Promise<boolean> {
  const { status } = await post(address, '/api/v1/admin/login', { username, password });
  return status === 200;
}
