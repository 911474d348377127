import { readdirSync } from 'node:fs';
import path from 'node:path';
import type { Knex } from 'knex';
import { ConfigError } from '../config';

const FOLDER = path.join(__dirname, '..', '..', 'migrations');

/** Where Knex records what it applied. */
const RECORDS = 'knex_migrations';

/** Migrations by name without ending, so that source and compiled code agree. */
export const migrationSource = {
  async getMigrations(): Promise<string[]> {
    return readdirSync(FOLDER)
      .filter((file) => /^\d{4}-.*(?<!\.test|\.d)\.[jt]s$/.test(file))
      .map((file) => file.slice(0, -3))
      .sort();
  },
  getMigrationName: (name: string) => name,
  async getMigration(name: string): Promise<Knex.Migration> {
    return require(path.join(FOLDER, name));
  },
};

/** Runs something while no other process migrates the same database; the engine frees it when a process dies. */
export type Exclusively = <T>(run: () => Promise<T>) => Promise<T>;

export interface Migrations {
  /** Applies what is missing and says what; of several processes that start at once one does, the others wait. */
  migrateUp(): Promise<string[]>;
  /** Undoes the newest migration. */
  migrateDown(): Promise<string[]>;
  migrationStatus(): Promise<{ done: string[]; pending: string[] }>;
}

/**
 * Each migration is one transaction together with its record, so that a kill in between leaves a whole number of them.
 * Knex's own lock is a row that outlives a killed process; under ours it is simply freed.
 */
export function migrationsOf(knex: Knex, exclusively: Exclusively): Migrations {
  return {
    migrateUp: () =>
      exclusively(async () => {
        await freeLeftOver(knex);
        return (await knex.migrate.latest())[1];
      }),
    migrateDown: () =>
      exclusively(async () => {
        await freeLeftOver(knex);
        return (await knex.migrate.down())[1];
      }),
    async migrationStatus() {
      const done = await doneIn(knex);
      const known = await migrationSource.getMigrations();
      return { done, pending: known.filter((name) => !done.includes(name)) };
    },
  };
}

/** Knex's own list refuses, with a stack trace, a database that knows more migrations than this version. */
async function doneIn(knex: Knex): Promise<string[]> {
  if (!(await knex.schema.hasTable(RECORDS))) return [];
  return knex(RECORDS).orderBy('id').pluck('name');
}

async function freeLeftOver(knex: Knex): Promise<void> {
  const known = await migrationSource.getMigrations();
  const unknown = (await doneIn(knex)).find((name) => !known.includes(name));
  if (unknown === undefined) return knex.migrate.forceFreeMigrationsLock();
  throw new ConfigError(
    `the database was migrated by a newer version (${unknown}); start that version, or restore the backup made before it`,
  );
}
