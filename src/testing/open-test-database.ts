import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client } from 'pg';
import { type Database, openDatabase } from '../store/database';
import { type SettableClock, settableClock } from './settable-clock';

/** A migrated database of its own for one test, with a clock that the test moves. */
export interface TestDatabase {
  database: Database;
  clock: SettableClock;
  /** Holds the SQLite file; a place for pictures on both engines. */
  dataDir: string;
  /** A second pool on the same facts, as another process has one; closed together with the first. */
  openAnother(): Database;
  /** Closes and deletes everything. */
  close(): Promise<void>;
}

/**
 * SQLite in a temporary directory; where CMBUYER_TEST_POSTGRES_URL names a server whose user may create databases, a
 * PostgreSQL database that is dropped at the end.
 */
export async function openTestDatabase(clock: SettableClock = settableClock()): Promise<TestDatabase> {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'cmbuyer-test-'));
  const server = process.env.TEST_DATABASE_URL ?? process.env.CMBUYER_TEST_POSTGRES_URL;
  const postgres = server ? await createPostgresDatabase(server) : undefined;
  const open = () => openDatabase({ dataDir, clock, url: postgres?.url });
  const database = open();
  const others: Database[] = [];
  await database.migrateUp();
  return {
    database,
    clock,
    dataDir,
    openAnother() {
      const other = open();
      others.push(other);
      return other;
    },
    async close() {
      for (const opened of [...others, database]) await opened.close();
      await postgres?.drop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

async function createPostgresDatabase(server: string): Promise<{ url: string; drop(): Promise<void> }> {
  const name = `cmbuyer_test_${randomBytes(8).toString('hex')}`;
  const url = new URL(server);
  url.pathname = `/${name}`;
  await runOn(server, `create database ${name}`);
  return { url: url.toString(), drop: () => runOn(server, `drop database ${name} with (force)`) };
}

async function runOn(server: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: server });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}
