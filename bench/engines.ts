import { copyFileSync, mkdirSync } from 'node:fs';
import { cpus } from 'node:os';
import path from 'node:path';
import type { Knex } from 'knex';
import { type Database, type Engine, openDatabase } from '../src/store/database';
import { migrateData } from '../src/store/migrate-data';
import { describeMachine, type Machine, sentenceOf } from './machine';
import { median, quantile, rounded, table, tell } from './numbers';
import { eachStep, Line, STEPS, type Step } from './phones';
import { PostgresProcess } from './postgres';
import { countRoundTrips, ROUND_TRIP_CYCLES } from './round-trips';
import { type SeededPhone, seed } from './seed';
import { ServerProcess } from './server';

export interface EngineSettings {
  engine: 'postgres';
  /** How many server processes share the one PostgreSQL, in turn. */
  processes: number[];
  phones: number[];
  rounds: number;
  cycles: number;
  tasks: number;
  json: boolean;
}

interface SetupResult {
  engine: Engine;
  processes: number;
  /** Cycles per second, by round. */
  speed: number[];
  /** Median of the rounds' own ratios to SQLite, and their extremes. */
  ratio: number;
  ratio_min: number;
  ratio_max: number;
  /** Processor time of one cycle in all server processes, in PostgreSQL and in the phones' process; the first two only on Linux. */
  server_cpu_ms: number | null;
  postgres_cpu_ms: number | null;
  phones_cpu_ms: number;
  /** Cores that these three used together, and those that everything else on the machine used meanwhile. */
  cores_used: number | null;
  cores_others: number | null;
  /** Share of the time in which the phones' own process was busy: near 1 they, not the servers, were the limit. */
  phones_busy: number;
  /** Calls that were answered with 503 and sent again. */
  refused: number;
  p50_ms: Record<Step, number>;
  p99_ms: Record<Step, number>;
}

export interface EngineReport {
  machine: Machine & { postgres: string };
  settings: EngineSettings;
  /** What one call asks of PostgreSQL, one after the other. */
  round_trips: Record<Step, number>;
  results: { phones: number; setups: SetupResult[] }[];
  /** Tasks that were ordered, each once, as counted in the databases at the end. */
  ordered: Record<Engine, number>;
}

/** One server to measure, of one process or several. */
interface Setup {
  engine: Engine;
  servers: ServerProcess[];
  postgres?: PostgresProcess;
}

interface Round {
  speed: number;
  serverCpu?: number;
  postgresCpu?: number;
  phonesCpu: number;
  /** Milliseconds in which any core did anything, for each cycle. */
  allCpu: number;
  busy: number;
  refused: number;
}

/** A round is at least so many cycles of each phone: with fewer they would all be at the same step at once. */
const FEWEST_CYCLES_OF_A_PHONE = 2;
/** Of every process before anything is measured: it compiles its code, opens connections and prepares statements. */
const WARM_UP_CYCLES = 128;
/** After this long no other round begins, and what there is counts: the run ends within its limit, with an answer. */
const ROUNDS_LIMIT_MS = 420_000;

/** Cycles that the PostgreSQL side, the one with more of them, goes through. */
export function tasksNeeded(
  settings: Pick<EngineSettings, 'processes' | 'phones' | 'rounds' | 'cycles'>,
): number {
  const { processes, phones, rounds, cycles } = settings;
  const ofRounds = phones.reduce((sum, count) => sum + cyclesOfRound(cycles, count), 0);
  const measured = processes.length * rounds * ofRounds;
  return ROUND_TRIP_CYCLES + Math.max(...processes) * WARM_UP_CYCLES + measured;
}

function cyclesOfRound(cycles: number, phones: number): number {
  return Math.max(cycles, phones * FEWEST_CYCLES_OF_A_PHONE);
}

/** Whole cycles over HTTP: one process on SQLite, and each number of processes on one PostgreSQL, in the same run. */
export async function measureEngines(settings: EngineSettings, folder: string): Promise<EngineReport> {
  const inFolder = (name: string) => {
    const made = path.join(folder, name);
    mkdirSync(made);
    return made;
  };
  const postgres = await PostgresProcess.start();
  const started: ServerProcess[] = [];
  try {
    const machine = { ...describeMachine(folder), postgres: postgres.version };
    tell(settings, `seeding ${settings.tasks} tasks`);
    const embedded = inFolder('sqlite');
    const phones = await seed(
      embedded,
      Math.max(...settings.phones, Math.max(...settings.processes)),
      settings.tasks,
    );
    tell(settings, 'copying them into PostgreSQL');
    const shared = inFolder('postgres');
    await copyAll(embedded, inFolder('copy'), postgres);
    const round_trips = await countRoundTrips(postgres.url, shared, phones[0] as SeededPhone);

    const start = async (dataDir: string, databaseUrl?: string) => {
      const server = await ServerProcess.start(dataDir, { databaseUrl });
      started.push(server);
      return server;
    };
    const single = await start(embedded);
    const many: ServerProcess[] = [];
    while (many.length < Math.max(...settings.processes)) many.push(await start(shared, postgres.url));
    const setupOf = (engine: Engine, servers: ServerProcess[]): Setup => ({
      engine,
      servers,
      ...(engine === 'postgres' && { postgres }),
    });
    const setups = [
      setupOf('sqlite', [single]),
      ...settings.processes.map((count) => setupOf('postgres', many.slice(0, count))),
    ];

    tell(settings, 'warming up');
    const done: Record<Engine, number> = { sqlite: WARM_UP_CYCLES, postgres: ROUND_TRIP_CYCLES };
    await runRound(setupOf('sqlite', [single]), phones, WARM_UP_CYCLES);
    done.postgres += many.length * WARM_UP_CYCLES;
    await runRound(setupOf('postgres', many), phones, many.length * WARM_UP_CYCLES);

    const results = await compare(settings, phones, setups, done);
    for (const server of started) await server.stop();
    await mustHaveOrderedOnce(openDatabase({ dataDir: embedded }), done.sqlite);
    await mustHaveOrderedOnce(openDatabase({ dataDir: shared, url: postgres.url }), done.postgres);
    return { machine, settings, round_trips, results, ordered: done };
  } catch (error) {
    // They would finish calls that nobody waits for, and log them.
    for (const server of started) server.kill();
    throw error;
  } finally {
    for (const server of started) await server.stop();
    postgres.stop();
  }
}

async function copyAll(from: string, to: string, postgres: PostgresProcess): Promise<void> {
  const file = path.join(to, 'cmbuyer.sqlite');
  copyFileSync(path.join(from, 'cmbuyer.sqlite'), file);
  const target = openDatabase({ dataDir: to, url: postgres.url });
  try {
    await target.migrateUp();
    await migrateData(file, target);
  } finally {
    await target.close();
  }
  await postgres.analyze();
}

/** Rounds of all setups in turn, another one beginning each time; `done` counts the cycles of each engine. */
async function compare(
  settings: EngineSettings,
  phones: SeededPhone[],
  setups: Setup[],
  done: Record<Engine, number>,
): Promise<EngineReport['results']> {
  const begun = performance.now();
  const measured = settings.phones.map((count) => ({
    count,
    setups: setups.map((setup) => ({ setup, rounds: [] as Round[], times: eachStep((): number[] => []) })),
  }));
  for (let round = 0; round < settings.rounds; round += 1) {
    for (const { count, setups: turns } of measured) {
      // Never for part of the setups, and the first round for all.
      if (round > 0 && performance.now() - begun > ROUNDS_LIMIT_MS) continue;
      tell(settings, `${count} phones, round ${round + 1} of ${settings.rounds}`);
      for (let turn = 0; turn < turns.length; turn += 1) {
        const next = turns[(turn + round) % turns.length];
        if (!next) continue;
        const { setup, rounds, times } = next;
        const cycles = cyclesOfRound(settings.cycles, count);
        rounds.push(await runRound(setup, phones.slice(0, count), cycles, times));
        done[setup.engine] += cycles;
      }
    }
  }
  return measured.map(({ count, setups: turns }) => {
    const base = turns[0]?.rounds ?? [];
    return {
      phones: count,
      setups: turns.map(({ setup, rounds, times }) => summaryOf(setup, rounds, times, base)),
    };
  });
}

/** On connections of its own: between two rounds of a setup the server would close them as idle. */
async function runRound(
  { servers, postgres }: Setup,
  phones: SeededPhone[],
  cycles: number,
  times = eachStep((): number[] => []),
): Promise<Round> {
  const serversCpu = () => sumOf(servers.map((server) => server.cpuMs()));
  const before = {
    servers: serversCpu(),
    postgres: postgres?.cpuMs(),
    phones: process.cpuUsage(),
    all: busyMsOfMachine(),
  };
  const loop = performance.eventLoopUtilization();
  let refused = 0;
  const line = new Line(
    servers.map(({ port }) => port),
    phones.length,
  );
  const watch = {
    after: (step: Step, ms: number) => times[step].push(ms),
    refused: () => {
      refused += 1;
    },
  };
  const took = await line.run(phones, cycles, watch).finally(() => line.close());
  const { user, system } = process.cpuUsage(before.phones);
  return {
    speed: (cycles / took) * 1000,
    serverCpu: perCycle(before.servers, serversCpu()),
    postgresCpu: perCycle(before.postgres, postgres?.cpuMs()),
    phonesCpu: (user + system) / 1000 / cycles,
    allCpu: (busyMsOfMachine() - before.all) / cycles,
    busy: performance.eventLoopUtilization(loop).utilization,
    refused,
  };

  function perCycle(from: number | undefined, to: number | undefined): number | undefined {
    return from === undefined || to === undefined ? undefined : (to - from) / cycles;
  }
}

function summaryOf(
  { engine, servers }: Setup,
  rounds: Round[],
  times: Record<Step, number[]>,
  base: Round[],
): SetupResult {
  const ratios = rounds.map(({ speed }, round) => speed / (base[round]?.speed ?? Number.NaN));
  const server = medianOf(rounds.map(({ serverCpu }) => serverCpu));
  const postgres = medianOf(rounds.map(({ postgresCpu }) => postgresCpu));
  const ourCpu = ({ serverCpu = 0, postgresCpu = 0, phonesCpu }: Round) =>
    serverCpu + postgresCpu + phonesCpu;
  const ours = rounds.map((round) => (round.speed * ourCpu(round)) / 1000);
  const others = rounds.map((round) => Math.max(0, (round.speed * (round.allCpu - ourCpu(round))) / 1000));
  return {
    engine,
    processes: servers.length,
    speed: rounds.map(({ speed }) => rounded(speed, 1)),
    ratio: rounded(median(ratios), 2),
    ratio_min: rounded(Math.min(...ratios), 2),
    ratio_max: rounded(Math.max(...ratios), 2),
    server_cpu_ms: server,
    postgres_cpu_ms: postgres,
    phones_cpu_ms: rounded(median(rounds.map(({ phonesCpu }) => phonesCpu)), 2),
    cores_used: server === null ? null : rounded(median(ours), 2),
    cores_others: server === null ? null : rounded(median(others), 2),
    phones_busy: rounded(median(rounds.map(({ busy }) => busy)), 2),
    refused: rounds.reduce((sum, round) => sum + round.refused, 0),
    p50_ms: eachStep((step) => rounded(median(times[step]), 1)),
    p99_ms: eachStep((step) => rounded(quantile(times[step], 0.99), 1)),
  };
}

function sumOf(values: (number | undefined)[]): number | undefined {
  return values.reduce(
    (sum, value) => (sum === undefined || value === undefined ? undefined : sum + value),
    0,
  );
}

function medianOf(values: (number | undefined)[]): number | null {
  const known = values.filter((value) => value !== undefined);
  return known.length === 0 ? null : rounded(median(known), 2);
}

function busyMsOfMachine(): number {
  return cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0);
}

/**
 * As many tasks ordered as cycles were run, each by one event and one submission, and none left half-way.
 * @throws Error with what the database holds instead; closes it either way
 */
async function mustHaveOrderedOnce(database: Database, cycles: number): Promise<void> {
  const { knex } = database.read;
  const count = async (query: Knex.QueryBuilder, distinct?: string) => {
    const [row] = await (distinct ? query.countDistinct(`${distinct} as n`) : query.count('* as n'));
    return Number((row as { n: number }).n);
  };
  try {
    const orders = () => knex('task_events').where('to_status', 'ORDERED');
    const found = {
      ordered: await count(knex('tasks').where('status', 'ORDERED')),
      events: await count(orders()),
      tasks_of_events: await count(orders(), 'task_id'),
      submissions: await count(knex('order_submissions')),
      tasks_of_submissions: await count(knex('order_submissions'), 'task_id'),
      half_way: await count(knex('tasks').whereNotIn('status', ['ORDERED', 'PENDING'])),
    };
    const { half_way, ...once } = found;
    if (half_way > 0 || Object.values(once).some((each) => each !== cycles)) {
      throw new Error(`${cycles} cycles on ${database.engine} left ${JSON.stringify(found)}`);
    }
  } finally {
    await database.close();
  }
}

// ------------------------------------------------------------------------------------------- printing

export function textOfEngines({ machine, settings, round_trips, results, ordered }: EngineReport): string {
  const parts = [
    `${sentenceOf(machine)}, PostgreSQL ${machine.postgres} with fsync and synchronous_commit on`,
    `${settings.tasks} tasks seeded, rounds of ${settings.cycles} cycles (at least ${FEWEST_CYCLES_OF_A_PHONE} of each phone) on each server in turn; whole cycles over HTTP, medians of rounds:`,
    '',
    table(
      [
        'phones',
        'server',
        'processes',
        'cycles/s',
        '/ SQLite',
        'lowest',
        'highest',
        'server CPU ms',
        'PostgreSQL CPU ms',
        'phones CPU ms',
        'cores used',
        'by others',
        'refused',
        'rounds',
      ],
      results.flatMap(({ phones, setups }) =>
        setups.map((setup) => [
          phones,
          NAMES[setup.engine],
          setup.processes,
          rounded(median(setup.speed), 1),
          setup.ratio,
          setup.ratio_min,
          setup.ratio_max,
          setup.server_cpu_ms ?? '?',
          setup.engine === 'sqlite' ? '-' : (setup.postgres_cpu_ms ?? '?'),
          setup.phones_cpu_ms,
          setup.cores_used ?? '?',
          setup.cores_others ?? '?',
          setup.refused,
          setup.speed.length,
        ]),
      ),
    ),
    '',
    'CPU is that of one cycle; what the phones waited for an answer, p50 / p99 ms:',
  ];
  for (const { phones, setups } of results) {
    parts.push(
      '',
      table(
        [
          `${phones} phones`,
          'round trips',
          ...setups.map(({ engine, processes }) => `${NAMES[engine]} x ${processes}`),
        ],
        STEPS.map((step) => [
          step,
          round_trips[step],
          ...setups.map(({ p50_ms, p99_ms }) => `${Math.round(p50_ms[step])} / ${Math.round(p99_ms[step])}`),
        ]),
      ),
    );
  }
  parts.push('', `every task ordered once: ${ordered.sqlite} on SQLite, ${ordered.postgres} on PostgreSQL`);
  return parts.join('\n');
}

const NAMES: Record<Engine, string> = { sqlite: 'SQLite', postgres: 'PostgreSQL' };
