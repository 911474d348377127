import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { cpuTimes, processIds } from './processor-time';
import { freePort } from './server';

/** Where Debian's packages put their programs, by version. */
const DEBIAN_ROOT = '/usr/lib/postgresql';
const OLDEST_VERSION = 14;
const START_LIMIT_MS = 30_000;
const STOP_LIMIT_SECONDS = 10;

type Owner = { uid: number; gid: number } | undefined;

/** What must hold for an acknowledged write to be on the disk. */
const DURABLE = { fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on' } as const;

/**
 * A throwaway PostgreSQL with the settings it comes with, on 127.0.0.1 and in the system's temporary folder: it waits for
 * the disk at each commit. However this process ends by itself or by a signal it can catch, server and folder are gone.
 */
export class PostgresProcess {
  private constructor(
    readonly url: string,
    readonly version: string,
    private readonly postmaster: ChildProcess,
    private readonly remove: () => void,
  ) {}

  /** @throws Error when PostgreSQL is not installed, does not start or is not durable */
  static async start(): Promise<PostgresProcess> {
    const bin = newestPrograms();
    const owner = ownerOfServer();
    const folder = mkdtempSync(path.join(tmpdir(), 'cmbuyer-bench-postgres-'));
    const data = path.join(folder, 'data');
    const run = (program: string, args: string[]) =>
      execFileSync(path.join(bin, program), args, { ...owner, cwd: folder, stdio: 'pipe' });
    let postmaster: ChildProcess | undefined;
    const remove = () => {
      process.removeListener('exit', remove);
      if (existsSync(path.join(data, 'postmaster.pid'))) {
        try {
          run('pg_ctl', ['stop', '-D', data, '-m', 'immediate', '-w', '-t', String(STOP_LIMIT_SECONDS)]);
        } catch {
          // It ended by itself meanwhile, or the next line ends it.
        }
      }
      postmaster?.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    };
    process.once('exit', remove);
    try {
      chmodSync(folder, 0o700);
      if (owner) chownSync(folder, owner.uid, owner.gid);
      run('initdb', ['-D', data, '-U', 'cmbuyer', '-A', 'trust', '-E', 'UTF8', '--locale', 'C']);
      const port = await freePort();
      postmaster = spawn(
        path.join(bin, 'postgres'),
        ['-D', data, '-h', '127.0.0.1', '-p', String(port), '-k', folder],
        { ...owner, cwd: folder, stdio: 'ignore' },
      );
      const url = `postgresql://cmbuyer@127.0.0.1:${port}/postgres`;
      return new PostgresProcess(url, await untilDurable(url, postmaster), postmaster, remove);
    } catch (error) {
      remove();
      throw error;
    }
  }

  /** Processor time of the server with all its sessions and helpers, where the system tells (Linux). */
  cpuMs(): number | undefined {
    const pid = this.postmaster.pid as number;
    const own = cpuTimes(pid);
    if (!own) return undefined;
    return processIds()
      .map(cpuTimes)
      .filter((times) => times?.parent === pid)
      .reduce((sum, times) => sum + (times?.own ?? 0), own.own + own.reaped);
  }

  /** Brings the planner's numbers up to date, as autovacuum does after a while. */
  analyze(): Promise<void> {
    return asked(this.url, async (client) => {
      await client.query('vacuum analyze');
    });
  }

  stop(): void {
    this.remove();
  }
}

function newestPrograms(): string {
  const versions = existsSync(DEBIAN_ROOT) ? readdirSync(DEBIAN_ROOT).map(Number) : [];
  const newest = Math.max(...versions.filter((version) => version >= OLDEST_VERSION));
  if (!Number.isFinite(newest)) {
    throw new Error(`PostgreSQL ${OLDEST_VERSION} or later is needed: install Debian's package postgresql`);
  }
  return path.join(DEBIAN_ROOT, String(newest), 'bin');
}

/** PostgreSQL refuses to run as root; Debian's package brings a user for it. */
function ownerOfServer(): Owner {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

async function untilDurable(url: string, postmaster: ChildProcess): Promise<string> {
  const deadline = performance.now() + START_LIMIT_MS;
  for (;;) {
    if (postmaster.exitCode !== null) throw new Error(`postgres ended with ${postmaster.exitCode}`);
    try {
      return await asked(url, async (client) => {
        for (const [name, wanted] of Object.entries(DURABLE)) {
          const value = await shown(client, name);
          if (value !== wanted) throw new NotDurable(`postgres runs with ${name}=${value}`);
        }
        return shown(client, 'server_version');
      });
    } catch (error) {
      if (error instanceof NotDurable || performance.now() >= deadline) throw error;
      await sleep(100);
    }
  }
}

class NotDurable extends Error {}

async function shown(client: Client, name: string): Promise<string> {
  return (await client.query(`show ${name}`)).rows[0][name];
}

async function asked<T>(url: string, ask: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: url });
  try {
    await client.connect();
    return await ask(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}
