import type { PostgresServer } from './postgres-server';

export default async function tearDown(): Promise<void> {
  await (globalThis as { postgresOfThisRun?: PostgresServer }).postgresOfThisRun?.stop();
}
