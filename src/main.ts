#!/usr/bin/env node
import { existsSync } from 'node:fs';
import { Command } from 'commander';
import { createAdmin } from './access/create-first-admin';
import { ConfigError, readConfig } from './config';
import { Refusal } from './contract/errors';
import { startServer } from './serve';
import { CHECK_PATIENCE_MS, checkDatabase, describeReport } from './store/check-facts';
import { type Database, openDatabase } from './store/database';
import { describeCopy, migrateData, sqliteFileOf } from './store/migrate-data';

const program = new Command('cmbuyer').description(
  'Decides which phone may buy what, exactly once, and keeps the proof. It never pays.',
);

program
  .command('serve')
  .description('run the server; settings come from CMBUYER_* variables')
  .action(async () => {
    const config = readConfig(process.env);
    const server = await startServer(config, {
      checkResponses: process.env.CMBUYER_CHECK_RESPONSES === 'on',
    });
    if (server.generatedPassword !== undefined) {
      // To the terminal only, once; the log never sees it.
      process.stderr.write(
        `\nFirst start: sign in at ${server.address}/admin as "${config.adminUsername}" with the password\n\n    ${server.generatedPassword}\n\nIt is shown only now.\n\n`,
      );
    }
    await untilToldToStop();
    await server.close();
  });

const migrate = program.command('migrate').description('bring the database to the shape of this version');
migrate
  .command('up')
  .description('apply what is missing')
  .action(() =>
    withDatabase(async (database) => print(await database.migrateUp(), 'applied', 'nothing to apply')),
  );
migrate
  .command('down')
  .description('undo the newest migration')
  .action(() =>
    withDatabase(async (database) => print(await database.migrateDown(), 'undone', 'nothing to undo')),
  );
migrate
  .command('status')
  .description('show what is applied and what is missing')
  .action(() =>
    withDatabase(async (database) => {
      const { done, pending } = await database.migrationStatus();
      print(done, 'applied', 'nothing applied');
      print(pending, 'missing', 'nothing missing');
    }),
  );

program
  .command('check')
  .description('look for facts that contradict each other; only reads, also beside running servers')
  .option('--json', 'print one JSON object instead of lines')
  .action(async ({ json }: { json?: boolean }) => {
    const { databaseUrl, dataDir } = readConfig(process.env);
    if (databaseUrl === '' && !existsSync(sqliteFileOf(dataDir))) {
      throw new ConfigError(`CMBUYER_DATA_DIR: there is no database in ${dataDir} to check`);
    }
    await withDatabase(async (database) => {
      const report = await checkDatabase(database);
      console.log(json ? JSON.stringify(report) : describeReport(report).join('\n'));
      if (report.count > 0) process.exitCode = 1;
    }, CHECK_PATIENCE_MS);
  });

program
  .command('migrate-data')
  .description('copy all facts of an SQLite file into the empty PostgreSQL database of CMBUYER_DATABASE_URL')
  .requiredOption('--from <path>', 'the SQLite file, or the data directory that holds it')
  .action(({ from }: { from: string }) =>
    withDatabase(async (database) => {
      const { dataDir, imageStore } = readConfig(process.env);
      const copied = await migrateData(from, database);
      console.log(describeCopy(copied, from, { dataDir, bucket: imageStore?.bucket }).join('\n'));
    }),
  );

program
  .command('admin')
  .description('admins')
  .command('create')
  .description('create an admin; the password comes from CMBUYER_ADMIN_PASSWORD or is made and shown once')
  .argument('<username>', '3 to 64 letters, digits, dots, dashes or underscores')
  .action((username: string) =>
    withDatabase(async (database) => {
      const { adminPassword } = readConfig({ ...process.env, CMBUYER_ADMIN_USERNAME: username });
      await database.migrateUp();
      const { generated_password } = await createAdmin(database, {
        username,
        password: adminPassword || undefined,
      });
      console.log(`admin "${username}" created`);
      if (generated_password !== undefined) console.log(`password, shown only now: ${generated_password}`);
    }),
  );

program
  .command('demo')
  .description('a throwaway server with tasks and three simulated phones, until Ctrl-C')
  .action(async () => {
    // The demo alone needs the simulated phones; a server in production does not load them.
    const { runDemo } = await import('./demo.js');
    const stop = await runDemo(readConfig(process.env));
    await untilToldToStop();
    await stop();
  });

program.parseAsync().catch((error: unknown) => {
  const line = explain(error);
  console.error(line === undefined ? error : `cmbuyer: ${line}`);
  process.exitCode = 1;
});

/** What the driver says of a PostgreSQL that is not there, does not let us in or has no such database. */
const NO_DATABASE = /^(ECONN|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|28|3D000)/;

/** The one line for people; undefined for what only a stack trace explains. */
function explain(error: unknown): string | undefined {
  if (error instanceof ConfigError) return error.message;
  if (error instanceof Refusal)
    return error.code === 'DUPLICATE_USERNAME' ? 'that username is taken' : error.code;
  const code = String((error as { code?: unknown } | undefined)?.code);
  if (!NO_DATABASE.test(code)) return undefined;
  return `CMBUYER_DATABASE_URL names a database that cannot be used (${code}), for example CMBUYER_DATABASE_URL=postgresql://cmbuyer@localhost/cmbuyer`;
}

async function withDatabase(
  command: (database: Database) => Promise<void>,
  silenceMs?: number,
): Promise<void> {
  const config = readConfig(process.env);
  const database = openDatabase({ url: config.databaseUrl, dataDir: config.dataDir, silenceMs });
  try {
    await command(database);
  } finally {
    await database.close();
  }
}

function print(names: string[], what: string, nothing: string): void {
  console.log(names.length === 0 ? nothing : names.map((name) => `${what}: ${name}`).join('\n'));
}

function untilToldToStop(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve());
  });
}
