import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';

export interface PostgresServer {
  url: string;
  /** The postmaster, for tests that stop, kill or pause it. */
  process: ChildProcess;
  restart(): Promise<void>;
  stop(): Promise<void>;
}

/** Where Debian's packages put their programs, newest first. */
const DEBIAN_ROOT = '/usr/lib/postgresql';

/**
 * A PostgreSQL of its own on loopback, in a temporary directory, gone at `stop`.
 * @throws Error when PostgreSQL 14 or later is not installed: a test that needs it fails, it is never skipped
 */
export async function startPostgres(): Promise<PostgresServer> {
  const bin = findPrograms();
  const folder = mkdtempSync(path.join(tmpdir(), 'cmbuyer-postgres-'));
  const data = path.join(folder, 'data');
  const port = await freePort();
  // PostgreSQL refuses to run as root; Debian's package brings a user for it.
  const owner = process.getuid?.() === 0 ? ownerIds() : undefined;
  chmodSync(folder, 0o700);
  if (owner) chownSync(folder, owner.uid, owner.gid);
  execFileSync(
    path.join(bin, 'initdb'),
    ['-D', data, '-U', 'cmbuyer', '-A', 'trust', '-E', 'UTF8', '--locale', 'C', '--no-sync'],
    { ...owner, cwd: folder, stdio: 'pipe' },
  );

  function launch(): ChildProcess {
    const settings = ['-c', 'fsync=off', '-c', 'max_connections=200', '-c', `timezone=America/New_York`];
    return spawn(
      path.join(bin, 'postgres'),
      ['-D', data, '-h', '127.0.0.1', '-p', String(port), '-k', folder, ...settings],
      {
        ...owner,
        cwd: folder,
        stdio: 'ignore',
      },
    );
  }

  const url = `postgresql://cmbuyer@127.0.0.1:${port}/postgres`;
  const server: PostgresServer = {
    url,
    process: launch(),
    async restart() {
      await end(server.process);
      server.process = launch();
      await untilReady(url, server.process);
    },
    async stop() {
      await end(server.process);
      rmSync(folder, { recursive: true, force: true });
    },
  };
  await untilReady(url, server.process);
  return server;
}

function findPrograms(): string {
  const versions = existsSync(DEBIAN_ROOT)
    ? readdirSync(DEBIAN_ROOT).filter((name) => Number(name) >= 14)
    : [];
  const newest = versions.sort((a, b) => Number(b) - Number(a))[0];
  if (newest === undefined)
    throw new Error("PostgreSQL 14 or later is needed: install Debian's package postgresql");
  return path.join(DEBIAN_ROOT, newest, 'bin');
}

function ownerIds(): { uid: number; gid: number } {
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as AddressInfo;
      probe.close(() => resolve(port));
    });
  });
}

async function untilReady(url: string, postmaster: ChildProcess): Promise<void> {
  for (;;) {
    if (postmaster.exitCode !== null) throw new Error(`postgres ended with ${postmaster.exitCode}`);
    const client = new Client({ connectionString: url });
    try {
      await client.connect();
      await client.end();
      return;
    } catch {
      await client.end().catch(() => undefined);
      await sleep(100);
    }
  }
}

/** SIGINT is PostgreSQL's fast shutdown: sessions are cut, nothing committed is lost. */
function end(postmaster: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (postmaster.exitCode !== null || postmaster.signalCode !== null) return resolve();
    postmaster.once('exit', () => resolve());
    postmaster.kill('SIGINT');
  });
}
