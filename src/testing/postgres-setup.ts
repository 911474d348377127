import { type PostgresServer, startPostgres } from './postgres-server';

/** For the run of all suites on PostgreSQL: a given server, or one of our own for as long as the run lasts. */
export default async function setUp(): Promise<void> {
  if (process.env.TEST_DATABASE_URL) return;
  const server = await startPostgres();
  process.env.TEST_DATABASE_URL = server.url;
  (globalThis as { postgresOfThisRun?: PostgresServer }).postgresOfThisRun = server;
}
