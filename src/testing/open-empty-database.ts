import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client } from 'pg';

/** A place for a database that nobody has migrated yet. */
export interface EmptyDatabase {
  dataDir: string;
  /** Of the PostgreSQL database, where TEST_DATABASE_URL names a server; otherwise the engine is SQLite. */
  url?: string;
  /** Makes it empty again, in the same place. */
  renew(): Promise<void>;
  drop(): Promise<void>;
}

/** An empty PostgreSQL database where TEST_DATABASE_URL names a server whose user may create some; an empty directory otherwise. */
export async function openEmptyDatabase(): Promise<EmptyDatabase> {
  const server = process.env.TEST_DATABASE_URL;
  const dataDir = path.join(mkdtempSync(path.join(tmpdir(), 'cmbuyer-empty-')), 'data');
  const name = `cmbuyer_empty_${randomBytes(8).toString('hex')}`;

  async function create(): Promise<void> {
    if (server) await onServer(server, `create database ${name}`);
  }
  async function remove(): Promise<void> {
    rmSync(dataDir, { recursive: true, force: true });
    if (server) await onServer(server, `drop database if exists ${name} with (force)`);
  }

  await create();
  return {
    dataDir,
    url: server && Object.assign(new URL(server), { pathname: `/${name}` }).toString(),
    async renew() {
      await remove();
      await create();
    },
    async drop() {
      await remove();
      rmSync(path.dirname(dataDir), { recursive: true, force: true });
    },
  };
}

async function onServer(server: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: server });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}
