import { type ChildProcess, spawn } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { packageRoot } from '../src/config';
import { cpuTimes } from './processor-time';
import { READY_SECONDS } from './seed';

const START_LIMIT_MS = 20_000;
const STOP_LIMIT_MS = 20_000;

/** The built program, as an operator runs it: answers unchecked, only warnings logged. */
export class ServerProcess {
  private constructor(
    readonly port: number,
    private readonly child: ChildProcess,
  ) {}

  /** On SQLite in `dataDir`, or on the PostgreSQL of `databaseUrl`. */
  static async start(
    dataDir: string,
    { profileDir, databaseUrl = '' }: { profileDir?: string; databaseUrl?: string } = {},
  ): Promise<ServerProcess> {
    const port = await freePort();
    const profiling = profileDir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileDir}`];
    const main = path.join(packageRoot, 'dist', 'src', 'main.js');
    const child = spawn(process.execPath, [...profiling, main, 'serve'], {
      env: {
        PATH: process.env.PATH,
        NODE_ENV: 'production',
        CMBUYER_DATA_DIR: dataDir,
        CMBUYER_DATABASE_URL: databaseUrl,
        CMBUYER_PORT: String(port),
        CMBUYER_LOG_LEVEL: 'warn',
        CMBUYER_DEVICE_HEARTBEAT_TTL_SECONDS: String(READY_SECONDS),
      },
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    const server = new ServerProcess(port, child);
    const endWithUs = () => server.kill();
    // Before anything else that happens at our end: nothing may write into a folder that is being removed.
    process.prependOnceListener('exit', endWithUs);
    child.once('exit', () => process.removeListener('exit', endWithUs));
    try {
      await server.untilAnswering();
    } catch (error) {
      server.kill();
      throw error;
    }
    return server;
  }

  /** Processor time that the server has used, where the system tells (Linux). */
  cpuMs(): number | undefined {
    return cpuTimes(this.child.pid as number)?.own;
  }

  /** Asks the server to finish and waits until it has. */
  async stop(): Promise<void> {
    if (this.hasEnded()) return;
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    const cut = setTimeout(() => this.kill(), STOP_LIMIT_MS);
    this.child.kill('SIGTERM');
    await ended;
    clearTimeout(cut);
  }

  kill(): void {
    this.child.kill('SIGKILL');
  }

  private hasEnded(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  private async untilAnswering(): Promise<void> {
    const deadline = performance.now() + START_LIMIT_MS;
    while (performance.now() < deadline) {
      if (this.hasEnded()) throw new Error(`the server ended with ${this.child.exitCode}`);
      const answer = await fetch(`http://127.0.0.1:${this.port}/healthz`).catch(() => undefined);
      if (answer?.ok) return;
      await sleep(50);
    }
    throw new Error('the server did not answer in time');
  }
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as AddressInfo;
      probe.close(() => resolve(port));
    });
  });
}
