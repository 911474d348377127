import { ConfigError } from '../config';
import { readShape } from './catalogue';
import { type Database, queryOn, type Reader } from './database';
import { FACT_CHECKS, type FactCheck } from './fact-checks';

/** Something that should never be: which rows, what they say, and what they should say. */
export interface Finding {
  check: string;
  says: string;
  ids: Record<string, string>;
  seen: string;
  expected: string;
}

export interface CheckReport {
  /** Rows looked at. */
  facts: number;
  /** All of them, also those that are not listed. */
  count: number;
  findings: Finding[];
}

/** Findings listed of one check, so that a thoroughly broken database does not fill the memory. */
const LISTED_PER_CHECK = 200;

/** One look at millions of facts takes longer than any call of a phone may: milliseconds, for server and connection. */
export const CHECK_PATIENCE_MS = 600_000;

/**
 * Looks for facts that contradict each other, in one consistent snapshot, reading only: also beside running servers.
 * @throws ConfigError when the database does not have the shape of this version
 */
export async function checkDatabase(database: Database): Promise<CheckReport> {
  if (!(await database.read.knex.schema.hasTable('knex_migrations'))) {
    throw new ConfigError('the database is empty; "cmbuyer migrate up" or the first start fills it');
  }
  const { pending } = await database.migrationStatus();
  if (pending.length > 0) {
    throw new ConfigError(
      `the database was made by an older version (${pending[0]} is missing); run "cmbuyer migrate up" first`,
    );
  }
  return database.snapshot((reader) => checkFacts(reader));
}

/** Runs the checks on what a reader sees. */
export async function checkFacts(
  reader: Reader,
  checks: readonly FactCheck[] = FACT_CHECKS,
): Promise<CheckReport> {
  const shape = await readShape(reader);
  if (shape.engine === 'postgres') {
    await queryOn(reader).raw(`set local statement_timeout = ${CHECK_PATIENCE_MS}`);
  }
  const report: CheckReport = { facts: 0, count: 0, findings: [] };
  report.facts = await countRows(
    reader,
    shape.tables.map(({ name }) => `select 1 from ${name}`).join(' union all '),
  );
  for (const check of checks) {
    let room = LISTED_PER_CHECK;
    for (const sql of [check.broken(shape)].flat()) {
      const rows = await readRows(reader, sql, room).catch((error) => cannotRun(check, error));
      report.findings.push(...rows.map((row) => findingOf(check, row)));
      report.count += rows.length < room ? rows.length : await countRows(reader, sql);
      room -= rows.length;
    }
  }
  return report;
}

type FoundRow = Record<string, unknown>;

/** A check that cannot run has found nothing out: never to be taken for one that found nothing. */
function cannotRun({ name }: FactCheck, cause: unknown): never {
  throw new Error(`${name} could not be checked (${(cause as { code?: string }).code ?? 'no code'})`, {
    cause,
  });
}

function findingOf({ name, says }: FactCheck, { seen, expected, ...ids }: FoundRow): Finding {
  return {
    check: name,
    says,
    ids: Object.fromEntries(Object.entries(ids).map(([id, value]) => [id, shown(value)])),
    seen: shown(seen),
    expected: shown(expected),
  };
}

function shown(value: unknown): string {
  return value === null || value === undefined ? 'nothing' : String(value).trim();
}

/** Whatever a query finds, up to `limit` rows of it. */
function readRows(reader: Reader, sql: string, limit: number): Promise<FoundRow[]> {
  if (limit === 0) return Promise.resolve([]);
  const knex = queryOn(reader);
  return knex
    .select('*')
    .from(knex.raw(`(${sql}) as found`))
    .limit(limit);
}

async function countRows(reader: Reader, sql: string): Promise<number> {
  const knex = queryOn(reader);
  const row: { count: number } = await knex
    .count({ count: '*' })
    .from(knex.raw(`(${sql}) as found`))
    .first();
  return Number(row.count);
}

/** A report as people read it: one line for each finding, and one at the end. */
export function describeReport({ facts, count, findings }: CheckReport): string[] {
  const hidden = count - findings.length;
  return [
    ...findings.map(describeFinding),
    ...(hidden > 0 ? [`... and ${hidden} more of the same kinds`] : []),
    count === 0
      ? `${facts} facts checked, nothing wrong`
      : `${facts} facts checked, ${count} ${count === 1 ? 'finding' : 'findings'}`,
  ];
}

export function describeFinding({ check, says, ids, seen, expected }: Finding): string {
  const where = Object.entries(ids).map(([id, value]) => ` ${id}=${value}`);
  return `${check}${where.join('')}: seen ${seen}, expected ${expected}. ${says}`;
}
