import { createHash, randomBytes } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client } from 'pg';
import { packageRoot } from '../config';
import { type Database, openDatabase } from '../store/database';
import { type SettableClock, settableClock } from './settable-clock';

/** A migrated database of its own for one test, with a clock that the test moves. */
export interface TestDatabase {
  database: Database;
  clock: SettableClock;
  /** Holds the SQLite file; a place for pictures on both engines. */
  dataDir: string;
  /** Of the PostgreSQL database, when the suites run on that engine. */
  url?: string;
  /** A second pool on the same facts, as another process has one; closed together with the first. */
  openAnother(): Database;
  /** Closes and deletes everything. */
  close(): Promise<void>;
}

/**
 * SQLite in a temporary directory; where TEST_DATABASE_URL names a server whose user may create databases, a
 * PostgreSQL database that is dropped at the end. Both start as copies of a migrated one.
 */
export async function openTestDatabase(clock: SettableClock = settableClock()): Promise<TestDatabase> {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'cmbuyer-test-'));
  const server = process.env.TEST_DATABASE_URL;
  const postgres = server ? await copyPostgres(server) : undefined;
  if (!postgres) await copySqlite(dataDir);
  const open = () => openDatabase({ dataDir, clock, url: postgres?.url });
  const database = open();
  const others: Database[] = [];
  return {
    database,
    clock,
    dataDir,
    url: postgres?.url,
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

/** Names the present migrations by their content, so that a changed one makes a new template. */
function templateName(): string {
  const folder = path.join(packageRoot, 'migrations');
  const files = readdirSync(folder).filter((file) => /^\d{4}-.*(?<!\.test)\.ts$/.test(file));
  const digest = createHash('sha256');
  for (const file of files.sort()) digest.update(file).update(readFileSync(path.join(folder, file)));
  return `cmbuyer_template_${digest.digest('hex').slice(0, 16)}`;
}

async function copySqlite(dataDir: string): Promise<void> {
  const template = path.join(tmpdir(), `${templateName()}.sqlite`);
  if (!existsSync(template)) {
    const folder = mkdtempSync(path.join(tmpdir(), 'cmbuyer-template-'));
    const database = openDatabase({ dataDir: folder });
    await database.migrateUp();
    await database.close();
    // Whoever comes last puts the same bytes in the same place.
    renameSync(path.join(folder, 'cmbuyer.sqlite'), template);
    rmSync(folder, { recursive: true, force: true });
  }
  mkdirSync(dataDir, { recursive: true });
  copyFileSync(template, path.join(dataDir, 'cmbuyer.sqlite'));
}

async function copyPostgres(server: string): Promise<{ url: string; drop(): Promise<void> }> {
  const template = templateName();
  const name = `cmbuyer_test_${randomBytes(8).toString('hex')}`;
  await onServer(server, async (client) => {
    await client.query('select pg_advisory_lock(7306002)');
    const { rows } = await client.query('select 1 from pg_database where datname = $1', [template]);
    if (rows.length === 0) await makeTemplate(server, client, template);
    await client.query('select pg_advisory_unlock(7306002)');
    await client.query(`create database ${name} template ${template}`);
  });
  const drop = () =>
    onServer(server, async (client) => {
      await client.query(`drop database ${name} with (force)`);
    });
  return { url: urlOf(server, name), drop };
}

async function makeTemplate(server: string, client: Client, template: string): Promise<void> {
  const unfinished = `${template}_${randomBytes(4).toString('hex')}`;
  await client.query(`create database ${unfinished}`);
  const database = openDatabase({ url: urlOf(server, unfinished), dataDir: tmpdir() });
  await database.migrateUp();
  await database.close();
  await client.query(`alter database ${unfinished} rename to ${template}`);
}

function urlOf(server: string, database: string): string {
  const url = new URL(server);
  url.pathname = `/${database}`;
  return url.toString();
}

async function onServer(server: string, act: (client: Client) => Promise<void>): Promise<void> {
  const client = new Client({ connectionString: server });
  await client.connect();
  try {
    await act(client);
  } finally {
    await client.end();
  }
}
