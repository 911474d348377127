import { createHash } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import BetterSqlite from 'better-sqlite3';
import type { Knex } from 'knex';
import { ConfigError } from '../config';
import { Refusal } from '../contract/errors';
import { readShape, type Table } from './catalogue';
import { checkFacts } from './check-facts';
import type { Database, Work } from './database';
import { FACT_CHECKS } from './fact-checks';

export interface CopiedTable {
  name: string;
  rows: number;
}

/** Rows of one round trip: enough to be fast, few enough that their JSON stays below some megabytes. */
const BATCH_ROWS = 500;

const REFERENCES_HOLD = FACT_CHECKS.filter(({ name }) =>
  /^(references-exist|pictures-are-known)$/.test(name),
);

/** The SQLite file that is meant by its own path or by that of its data directory. */
export function sqliteFileOf(from: string): string {
  const isDirectory = existsSync(from) && statSync(from).isDirectory();
  return isDirectory ? path.join(from, 'cmbuyer.sqlite') : path.resolve(from);
}

/**
 * Copies every fact of an SQLite file into an empty, migrated PostgreSQL database: one transaction there, committed only
 * after counts, references and digests of both sides agree. The source is locked meanwhile and never written.
 * @throws ConfigError in one line, with nothing changed on either side
 */
export async function migrateData(from: string, target: Database): Promise<CopiedTable[]> {
  if (target.engine !== 'postgres') {
    throw new ConfigError(
      'CMBUYER_DATABASE_URL must name the PostgreSQL database to fill, for example CMBUYER_DATABASE_URL=postgresql://cmbuyer@localhost/cmbuyer',
    );
  }
  const source = openLocked(sqliteFileOf(from));
  try {
    return await target.write((work) => copyEverything(source, work));
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'SERVICE_UNAVAILABLE') throw error;
    throw new ConfigError(
      'the target is in use or out of reach; stop what uses it and run this again: it copies everything or nothing',
    );
  } finally {
    source.close();
  }
}

/**
 * An idle server holds no write lock, and would go on writing to the old file after the copy. So this takes the file for
 * itself alone, which fails while any other connection is open, and keeps every server from starting on it meanwhile.
 */
function openLocked(file: string): BetterSqlite.Database {
  if (!existsSync(file)) throw new ConfigError(`--from: there is no ${file}`);
  let source: BetterSqlite.Database | undefined;
  try {
    source = new BetterSqlite(file, { fileMustExist: true, timeout: 0 });
    source.pragma('locking_mode = EXCLUSIVE');
    source.exec('begin immediate');
    source.pragma('query_only = ON');
    return source;
  } catch (error) {
    source?.close();
    const { code } = error as { code?: string };
    if (code?.startsWith('SQLITE_BUSY')) {
      throw new ConfigError(
        `--from: ${file} is in use; stop the server, and whatever else has it open, first`,
      );
    }
    throw new ConfigError(`--from: ${file} cannot be opened and locked (${code ?? error})`);
  }
}

async function copyEverything(source: BetterSqlite.Database, work: Work): Promise<CopiedTable[]> {
  const { trx } = work;
  const { tables } = await readShape({ knex: trx, connection: work.connection });
  await mustBeOfOneShape(source, trx, tables);
  await trx.raw(`lock table ${tables.map(({ name }) => name).join(', ')} in access exclusive mode`);
  await mustBeEmpty(trx, tables);

  const copied: CopiedTable[] = [];
  const digests = new Map<string, string>();
  for (const table of parentsFirst(tables)) {
    const { rows, digest } = await copyTable(source, trx, table);
    copied.push({ name: table.name, rows });
    digests.set(table.name, digest);
  }
  for (const table of tables) await continueNumbering(source, trx, table);

  await mustHoldReferences(work);
  for (const table of tables) await mustBeEqual(source, trx, table, digests.get(table.name)!);
  return copied.sort((a, b) => (a.name < b.name ? -1 : 1));
}

// ------------------------------------------------------------------------------------------- refusing

async function mustBeOfOneShape(source: BetterSqlite.Database, trx: Knex, tables: Table[]): Promise<void> {
  const migrationsThere = (await trx.schema.hasTable('knex_migrations'))
    ? await trx('knex_migrations').orderBy('id').pluck('name')
    : [];
  const migrationsHere = hasTable(source, 'knex_migrations')
    ? source.prepare('select name from knex_migrations order by id').pluck().all()
    : [];
  if (migrationsHere.length === 0) throw new ConfigError('--from: this is no cmbuyer database');
  if (migrationsThere.length === 0) {
    throw new ConfigError(
      'the target has no tables yet; run "cmbuyer migrate up" with this CMBUYER_DATABASE_URL',
    );
  }
  if (migrationsHere.join() !== migrationsThere.join()) {
    throw new ConfigError(
      `the source is migrated to ${migrationsHere.at(-1)}, the target to ${migrationsThere.at(-1)}; run "cmbuyer migrate up" on the older one`,
    );
  }
  for (const { name, columns } of tables) {
    const here = source.prepare('select name from pragma_table_info(?)').pluck().all(name).sort();
    const there = columns.map((column) => column.name).sort();
    if (here.join() !== there.join()) {
      throw new ConfigError(`the table ${name} has other columns in the source than in the target`);
    }
  }
}

function hasTable(source: BetterSqlite.Database, name: string): boolean {
  try {
    return (
      source.prepare(`select 1 from sqlite_master where type = 'table' and name = ?`).get(name) !== undefined
    );
  } catch {
    return false;
  }
}

async function mustBeEmpty(trx: Knex, tables: Table[]): Promise<void> {
  for (const { name } of tables) {
    if ((await trx(name).first(trx.raw('1'))) === undefined) continue;
    throw new ConfigError(
      `the target is not empty (it has ${name}); give a new database, so that nothing is mixed or overwritten`,
    );
  }
}

async function mustHoldReferences(work: Work): Promise<void> {
  const { count, findings } = await checkFacts(
    { knex: work.trx, connection: work.connection },
    REFERENCES_HOLD,
  );
  if (count === 0) return;
  throw new ConfigError(
    `${count} references would point at nothing, the first is ${findings[0]?.ids.reference}; nothing was copied, run "cmbuyer check" on the source`,
  );
}

/** Reads back what PostgreSQL stored, as the program will read it, and holds it against what was sent. */
async function mustBeEqual(
  source: BetterSqlite.Database,
  trx: Knex,
  { name, columns }: Table,
  sent: string,
): Promise<void> {
  const digest = new RowsDigest(columns.map((column) => column.name));
  await trx.raw('declare stored no scroll cursor for select * from ??', [name]);
  for (;;) {
    const { rows } = await trx.raw(`fetch forward ${BATCH_ROWS} from stored`);
    if (rows.length === 0) break;
    for (const row of rows) digest.add(row);
  }
  await trx.raw('close stored');
  const expected = source.prepare(`select count(*) from ${name}`).pluck().get();
  if (digest.rows !== expected) {
    throw new ConfigError(
      `${name}: ${expected} rows in the source, ${digest.rows} arrived; nothing was copied`,
    );
  }
  if (digest.toString() !== sent) {
    throw new ConfigError(
      `${name}: what arrived differs from what was sent; nothing was copied, run "cmbuyer check" on the source`,
    );
  }
}

// -------------------------------------------------------------------------------------------- copying

/** Every table after those that it refers to. */
function parentsFirst(tables: Table[]): Table[] {
  const sorted: Table[] = [];
  const waiting = [...tables];
  while (waiting.length > 0) {
    const next = waiting.findIndex(({ name, references }) =>
      references.every(({ parent }) => parent === name || !waiting.some((other) => other.name === parent)),
    );
    if (next === -1)
      throw new Error(`tables refer to each other in a circle: ${waiting.map(({ name }) => name)}`);
    sorted.push(...waiting.splice(next, 1));
  }
  return sorted;
}

type Row = Record<string, unknown>;

async function copyTable(source: BetterSqlite.Database, trx: Knex, table: Table) {
  const { name, columns, references, primaryKey } = table;
  const names = columns.map((column) => column.name);
  const booleans = columns.filter(({ type }) => type === 'boolean').map((column) => column.name);
  // A row may refer to a later one of its own table: those references follow when all rows are there.
  const toItself = references.filter(({ parent }) => parent === name).map(({ column }) => column);
  const digest = new RowsDigest(names);
  let batch: Row[] = [];
  let linked: Row[] = [];

  const send = async (rows: Row[], sql: string) => {
    if (rows.length === 0) return;
    const given = `json_populate_recordset(null::${name}, ?::json)`;
    await trx.raw(sql.replace('GIVEN', given), [JSON.stringify(rows)]).catch((error) => mustFit(name, error));
  };
  const list = names.join(', ');
  const insert = `insert into ${name} (${list}) overriding system value select ${list} from GIVEN`;

  for (const read of source.prepare(`select ${list} from ${name}`).iterate() as IterableIterator<Row>) {
    for (const column of booleans) read[column] = asBoolean(read[column], `${name}.${column}`);
    digest.add(read);
    batch.push({ ...read, ...Object.fromEntries(toItself.map((column) => [column, null])) });
    if (batch.length < BATCH_ROWS) continue;
    await send(batch, insert);
    batch = [];
  }
  await send(batch, insert);

  for (const column of toItself) {
    const key = primaryKey.map((key) => `t.${key} = g.${key}`).join(' and ');
    const update = `update ${name} as t set ${column} = g.${column} from GIVEN as g where ${key}`;
    const links = `select ${[...primaryKey, column].join(', ')} from ${name} where ${column} is not null`;
    for (const link of source.prepare(links).iterate() as IterableIterator<Row>) {
      linked.push(link);
      if (linked.length < BATCH_ROWS) continue;
      await send(linked, update);
      linked = [];
    }
    await send(linked, update);
    linked = [];
  }
  return { rows: digest.rows, digest: digest.toString() };
}

function asBoolean(value: unknown, column: string): boolean | null {
  if (value === null) return null;
  if (value === 0 || value === 1) return value === 1;
  throw new ConfigError(`--from: ${column} holds something other than 0 and 1; nothing was copied`);
}

/** A value that PostgreSQL does not take: wrong data or a broken reference, and no outage. */
function mustFit(name: string, error: { code?: string }): never {
  if (!/^2[23]/.test(error.code ?? '')) throw error;
  throw new ConfigError(
    `${name}: the target refuses a row (${error.code}); nothing was copied, run "cmbuyer check" on the source`,
  );
}

/** Numbers given by the database go on where they stood. Unlike `setval` this is rolled back with the rest. */
async function continueNumbering(source: BetterSqlite.Database, trx: Knex, { name }: Table): Promise<void> {
  const identity = await trx('information_schema.columns')
    .where({ table_name: name, is_identity: 'YES' })
    .whereRaw('table_schema = current_schema()')
    .first('column_name');
  if (!identity) return;
  const last = source.prepare('select seq from sqlite_sequence where name = ?').pluck().get(name);
  if (typeof last !== 'number') return;
  await trx.raw(`alter table ?? alter column ?? restart with ${last + 1}`, [name, identity.column_name]);
}

/** A digest of rows in whatever order they come: the sum of the rows' own digests. */
class RowsDigest {
  rows = 0;
  private sum = 0n;

  constructor(private readonly columns: string[]) {}

  add(row: Row): void {
    const values = this.columns.map((column) => row[column]);
    const digest = createHash('sha256').update(JSON.stringify(values)).digest('hex');
    this.sum = (this.sum + BigInt(`0x${digest}`)) % 2n ** 256n;
    this.rows += 1;
  }

  toString(): string {
    return this.sum.toString(16);
  }
}

/** What was copied, as people read it; `pictures` is where the server that comes after looks for them. */
export function describeCopy(
  copied: CopiedTable[],
  from: string,
  pictures: { dataDir: string; bucket?: string },
): string[] {
  const width = Math.max(...copied.map(({ name }) => name.length));
  const rows = copied.reduce((sum, table) => sum + table.rows, 0);
  const file = sqliteFileOf(from);
  const count = copied.find(({ name }) => name === 'images')?.rows ?? 0;
  return [
    ...copied.map((table) => `${table.name.padEnd(width)}  ${String(table.rows).padStart(9)}`),
    `${rows} rows copied; counts, references and digests agree`,
    describePictures(count, path.join(path.dirname(file), 'images'), pictures),
    `Set ${file} aside, so that no server starts on it by mistake; keep it until you are sure.`,
  ];
}

function describePictures(
  count: number,
  here: string,
  { dataDir, bucket }: { dataDir: string; bucket?: string },
): string {
  if (count === 0) return 'There are no pictures.';
  if (bucket !== undefined) {
    return `The ${count} pictures must be in the bucket ${bucket}: copy ${here} there, unless they were there before.`;
  }
  const there = path.join(dataDir, 'images');
  if (here === there) return `The ${count} pictures stay where they are, in ${there}.`;
  return `Now copy the ${count} pictures, which are files: cp -a ${here}/. ${there}/`;
}
