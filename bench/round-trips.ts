import { Client } from 'pg';
import pino from 'pino';
import { readConfig } from '../src/config';
import { startServer } from '../src/serve';
import { eachStep, Line, type Step } from './phones';
import { READY_SECONDS, type SeededPhone } from './seed';

/** The first cycles open connections and prepare statements. */
const UNCOUNTED_CYCLES = 2;
export const ROUND_TRIP_CYCLES = UNCOUNTED_CYCLES + 1;

type Query = (...given: unknown[]) => unknown;

/** Runs the server in this process and counts what its PostgreSQL driver sends, each with an answer waited for, by step. */
export async function countRoundTrips(
  databaseUrl: string,
  dataDir: string,
  phone: SeededPhone,
): Promise<Record<Step, number>> {
  let sent = 0;
  const query = Client.prototype.query as Query;
  Client.prototype.query = function counting(this: Client, ...given: unknown[]) {
    sent += 1;
    return query.apply(this, given);
  } as typeof Client.prototype.query;

  const config = readConfig({
    CMBUYER_DATA_DIR: dataDir,
    CMBUYER_DATABASE_URL: databaseUrl,
    CMBUYER_PORT: '0',
    CMBUYER_DEVICE_HEARTBEAT_TTL_SECONDS: String(READY_SECONDS),
  });
  const server = await startServer(config, { log: pino({ level: 'silent' }) });
  const line = new Line([Number(new URL(server.address).port)], 1);
  try {
    await line.run([phone], UNCOUNTED_CYCLES);
    const counts = eachStep(() => 0);
    await line.run([phone], 1, {
      before: () => {
        sent = 0;
      },
      after: (step) => {
        counts[step] = sent;
      },
    });
    return counts;
  } finally {
    line.close();
    await server.close();
    Client.prototype.query = query as typeof Client.prototype.query;
  }
}
