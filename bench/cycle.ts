import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import BetterSqlite from 'better-sqlite3';
import { BareCycles } from './bare';
import { type EngineSettings, measureEngines, tasksNeeded, textOfEngines } from './engines';
import { describeMachine, type Machine, sentenceOf } from './machine';
import { median, quantile, rounded, table, tell } from './numbers';
import { eachStep, Line, STEPS, type Step } from './phones';
import { cpuTimes } from './processor-time';
import { type ProfileSummary, summarizeProfile } from './profile';
import { recordCycle, type Script } from './record';
import { type SeededPhone, seed } from './seed';
import { ServerProcess } from './server';

interface Settings {
  phones: number[];
  rounds: number;
  cycles: number;
  tasks: number;
  profile: boolean;
  json: boolean;
}

interface StepResult {
  reads: number;
  writes: number;
  bare_us: number;
  http_p50_ms: number;
  http_p99_ms: number;
}

interface Result {
  phones: number;
  /** Cycles per second of the server over HTTP, by round. */
  http: number[];
  /** Cycles per second of the bare statements, by round. */
  bare: number[];
  /** Median of the rounds' own ratios, and their extremes: http / bare. */
  ratio: number;
  ratio_min: number;
  ratio_max: number;
  /** Processor time of one cycle, which other work on the machine changes least; the server's only on Linux. */
  http_cpu_ms: number | null;
  bare_cpu_ms: number;
  /** Share of the time in which the phones' own process was busy: near 1 they, not the server, were the limit. */
  client_busy: number;
  steps: Record<Step, StepResult>;
}

interface Report {
  machine: Machine;
  settings: Settings;
  results: Result[];
  profile?: ProfileSummary;
}

/** Before anything is measured: both sides compile their code and fill their caches. */
const WARM_UP_CYCLES = 256;
/** After this long with one number of phones no other round begins, once there were three. */
const ROUNDS_LIMIT_MS = 150_000;
const FEWEST_ROUNDS = 3;
/** The whole run; well before the seeded phones stop counting as ready. */
const TIME_LIMIT_MS = 600_000;

async function main(): Promise<void> {
  const settings = readSettings();
  const { json } = settings;
  const folder = mkdtempSync(path.join(tmpdir(), 'cmbuyer-bench-'));
  const cleanUp = () => rmSync(folder, { recursive: true, force: true });
  const limit = setTimeout(() => stop('the time limit was reached'), TIME_LIMIT_MS);
  const stop = (why: string) => {
    console.error(`bench: ${why}`);
    process.exit(1);
  };
  process.once('exit', cleanUp);
  // Not only once: a terminal's Ctrl-C arrives twice, and the second must not end the cleaning up.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(signal, () => stop(`ended by ${signal}`));
  const orphaned = setInterval(() => hasLostNpm() && stop('npm has ended'), 500);
  try {
    if ('processes' in settings) {
      const report = await measureEngines(settings, folder);
      console.log(json ? JSON.stringify(report, null, 2) : textOfEngines(report));
    } else {
      const report = await measure(settings, folder);
      console.log(json ? JSON.stringify(report, null, 2) : textOf(report));
    }
  } finally {
    clearTimeout(limit);
    clearInterval(orphaned);
    cleanUp();
  }
}

/** `npm run` hands a SIGTERM to the shell between us and it, which dies of it alone and tells nobody (seen on Linux). */
const hasLostNpm = (() => {
  const shell = () => cpuTimes(process.ppid)?.parent;
  const atStart = process.env.npm_lifecycle_event === 'bench' ? shell() : undefined;
  return () => atStart !== undefined && shell() !== atStart;
})();

async function measure(settings: Settings, folder: string): Promise<Report> {
  const inFolder = (name: string) => {
    const made = path.join(folder, name);
    mkdirSync(made);
    return made;
  };
  const machine = describeMachine(folder);
  tell(settings, 'recording one cycle of the server');
  const script = await recordCycle(inFolder('recording'));

  tell(settings, `seeding ${settings.tasks} tasks`);
  const [ours, bareFolder] = [inFolder('http'), inFolder('bare')];
  const phones = await seed(ours, Math.max(...settings.phones), settings.tasks);
  const [ourFile, bareFile] = [ours, bareFolder].map((place) => path.join(place, 'cmbuyer.sqlite')) as [
    string,
    string,
  ];
  copyFileSync(ourFile, bareFile);

  const results = await withServer(ours, undefined, async (server) => {
    const bare = new BareCycles(bareFile, script);
    try {
      return await compare(settings, script, phones, server, bare);
    } finally {
      bare.close();
    }
  });
  mustHoldTheSame(ourFile, bareFile);
  if (!settings.profile) return { machine, settings, results };

  tell(settings, 'profiling the server');
  const profiles = inFolder('profile');
  const window = await withServer(ours, profiles, async ({ port }) => {
    const line = new Line([port], phones.length);
    try {
      await line.run(phones, WARM_UP_CYCLES);
      const from = microseconds();
      await line.run(phones, profiledCycles(settings));
      return { from, to: microseconds() };
    } finally {
      line.close();
    }
  });
  return { machine, settings, results, profile: summarizeProfile(profiles, window) };

  async function withServer<T>(
    dataDir: string,
    profileDir: string | undefined,
    use: (server: ServerProcess) => Promise<T>,
  ): Promise<T> {
    const server = await ServerProcess.start(dataDir, { profileDir });
    try {
      return await use(server);
    } finally {
      await server.stop();
    }
  }
}

/** Rounds of the server and of the bare statements in turn, the one that begins changing from round to round. */
async function compare(
  settings: Settings,
  script: Script,
  phones: SeededPhone[],
  server: ServerProcess,
  bare: BareCycles,
): Promise<Result[]> {
  const { rounds, cycles } = settings;
  const line = new Line([server.port], phones.length);
  try {
    await line.run(phones, WARM_UP_CYCLES);
    bare.run(phones, WARM_UP_CYCLES);

    const results: Result[] = [];
    for (const count of settings.phones) {
      const some = phones.slice(0, count);
      const [http, perBare]: [number[], number[]] = [[], []];
      const [httpTimes, bareTimes] = [timesByStep(), timesByStep()];
      const busy: number[] = [];
      const [httpCpu, bareCpu]: [number[], number[]] = [[], []];
      const overHttp = async () => {
        const before = performance.eventLoopUtilization();
        const cpuBefore = server.cpuMs();
        const took = await line.run(some, cycles, { after: (step, ms) => httpTimes[step].push(ms) });
        busy.push(performance.eventLoopUtilization(before).utilization);
        http.push((cycles / took) * 1000);
        if (cpuBefore !== undefined) httpCpu.push(((server.cpuMs() as number) - cpuBefore) / cycles);
      };
      const onBare = () => {
        const before = process.cpuUsage();
        perBare.push((cycles / bare.run(some, cycles, bareTimes)) * 1000);
        const { user, system } = process.cpuUsage(before);
        bareCpu.push((user + system) / 1000 / cycles);
      };
      const begun = performance.now();
      for (let round = 0; round < rounds; round += 1) {
        if (round >= FEWEST_ROUNDS && performance.now() - begun > ROUNDS_LIMIT_MS) break;
        tell(settings, `${count} phones, round ${round + 1} of ${rounds}`);
        if (round % 2 === 1) onBare();
        await overHttp();
        if (round % 2 === 0) onBare();
      }
      const ratios = http.map((speed, round) => speed / (perBare[round] as number));
      results.push({
        phones: count,
        http: http.map(Math.round),
        bare: perBare.map(Math.round),
        ratio: rounded(median(ratios), 2),
        ratio_min: rounded(Math.min(...ratios), 2),
        ratio_max: rounded(Math.max(...ratios), 2),
        http_cpu_ms: httpCpu.length > 0 ? rounded(median(httpCpu), 2) : null,
        bare_cpu_ms: rounded(median(bareCpu), 2),
        client_busy: rounded(median(busy), 2),
        steps: eachStep((step) => ({
          reads: script.steps[step].filter((operation) => operation.reads).length,
          writes: script.steps[step].filter(({ reads, rows }) => !reads && rows > 0).length,
          bare_us: Math.round(median(bareTimes[step]) * 1000),
          http_p50_ms: rounded(median(httpTimes[step]), 1),
          http_p99_ms: rounded(quantile(httpTimes[step], 0.99), 1),
        })),
      });
    }
    return results;
  } finally {
    line.close();
  }
}

/** Both sides did the same work, or no ratio means anything. */
function mustHoldTheSame(ourFile: string, bareFile: string): void {
  const [ours, bare] = [countsOf(ourFile), countsOf(bareFile)];
  if (ours !== bare) throw new Error(`the two databases differ:\n${ours}\n${bare}`);
}

function countsOf(file: string): string {
  const database = new BetterSqlite(file, { readonly: true });
  try {
    const names = database
      .prepare(
        `select name from sqlite_schema where type = 'table' and name not like 'sqlite%' order by name`,
      )
      .pluck()
      .all() as string[];
    const counts = names.map((name) => [
      name,
      database.prepare(`select count(*) from ${name}`).pluck().get(),
    ]);
    const byStatus = database.prepare('select status, count(*) from tasks group by status').raw().all();
    return JSON.stringify([...counts, ...byStatus]);
  } finally {
    database.close();
  }
}

// ------------------------------------------------------------------------------------------ settings

function readSettings(): Settings | EngineSettings {
  const { values } = parseArgs({
    options: {
      engine: { type: 'string' },
      processes: { type: 'string' },
      phones: { type: 'string' },
      rounds: { type: 'string' },
      cycles: { type: 'string', default: '512' },
      tasks: { type: 'string' },
      profile: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    },
  });
  const { engine, profile, json } = values;
  if (engine !== undefined && engine !== 'postgres') throw new Error('--engine must be postgres or absent');
  if (engine && profile) throw new Error('--profile goes without --engine');
  if (!engine && values.processes !== undefined) throw new Error('--processes goes with --engine=postgres');

  const phones = numbers('phones', values.phones ?? (engine ? '16,64,256' : '16,64'), 256);
  const rounds = whole('rounds', values.rounds ?? (engine ? '3' : '7'), 1, 99);
  const cycles = whole('cycles', values.cycles, 1, 10_000);
  const seeding = (needed: number) =>
    whole('tasks', values.tasks ?? String(Math.max(20_000, needed)), needed, 200_000);
  if (engine) {
    const processes = numbers('processes', values.processes ?? '1,2,4', 16);
    const settings = { engine: 'postgres' as const, processes, phones, rounds, cycles, json };
    return { ...settings, tasks: seeding(tasksNeeded(settings)) };
  }
  const needed =
    WARM_UP_CYCLES +
    phones.length * rounds * cycles +
    (profile ? WARM_UP_CYCLES + profiledCycles({ cycles }) : 0);
  return { phones, rounds, cycles, profile, json, tasks: seeding(needed) };
}

function numbers(name: string, text: string, maximum: number): number[] {
  return text.split(',').map((each) => whole(name, each, 1, maximum));
}

/** Enough for some seconds of samples. */
function profiledCycles({ cycles }: Pick<Settings, 'cycles'>): number {
  return cycles * 4;
}

function whole(name: string, text: string, minimum: number, maximum: number): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < minimum || value > maximum) {
    throw new Error(`--${name} must be whole numbers from ${minimum} to ${maximum}, not ${text}`);
  }
  return value;
}

// ------------------------------------------------------------------------------------------- printing

function textOf({ machine, settings, results, profile }: Report): string {
  const parts = [
    sentenceOf(machine),
    `${settings.tasks} tasks seeded, rounds of ${settings.cycles} cycles on each side in turn; whole cycles, medians of rounds:`,
    '',
    table(
      [
        'phones',
        'HTTP/s',
        'bare/s',
        'HTTP / bare',
        'lowest',
        'highest',
        'HTTP CPU ms',
        'bare CPU ms',
        'rounds',
      ],
      results.map((result) => [
        result.phones,
        median(result.http),
        median(result.bare),
        result.ratio,
        result.ratio_min,
        result.ratio_max,
        result.http_cpu_ms ?? '?',
        result.bare_cpu_ms,
        result.http.length,
      ]),
    ),
  ];
  for (const { phones, client_busy, steps } of results) {
    parts.push(
      '',
      table(
        [
          `${phones} phones, client ${Math.round(client_busy * 100)} % busy`,
          'reads',
          'writes',
          'bare µs',
          'HTTP p50 ms',
          'HTTP p99 ms',
        ],
        STEPS.map((step) => {
          const { reads, writes, bare_us, http_p50_ms, http_p99_ms } = steps[step];
          return [step, reads, writes, bare_us, http_p50_ms, http_p99_ms];
        }),
      ),
    );
  }
  if (profile) {
    parts.push('', `server busy ${profile.busy_percent} % of its profile; shares of that:`);
    for (const [title, shares] of [
      ['by area', profile.areas],
      ['by function', profile.functions],
      ['with all that it calls', profile.inclusive],
    ] as const) {
      parts.push(
        '',
        table(
          [title, '%'],
          shares.map(({ name, percent }) => [name, percent.toFixed(1)]),
        ),
      );
    }
  }
  return parts.join('\n');
}

/** The monotonic clock that profiles are stamped with. */
function microseconds(): number {
  return Number(process.hrtime.bigint() / 1000n);
}

function timesByStep(): Record<Step, number[]> {
  return eachStep(() => []);
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
