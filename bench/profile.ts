import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { packageRoot } from '../src/config';

interface CpuProfile {
  nodes: {
    id: number;
    callFrame: { functionName: string; url: string; lineNumber: number };
    children?: number[];
  }[];
  /** In microseconds of the monotonic clock. */
  startTime: number;
  samples: number[];
  timeDeltas: number[];
}

export interface Share {
  name: string;
  percent: number;
}

/** Where the server's main thread spent its time. */
export interface ProfileSummary {
  /** Share of the profile's length in which the thread did anything. */
  busy_percent: number;
  /** Shares of the busy time, by whose code was on top of the stack. */
  areas: Share[];
  functions: Share[];
  /** Shares of the busy time with everything that a function calls before it awaits. */
  inclusive: Share[];
}

interface Frame {
  name: string;
  area: string;
  micros: number;
  children: number[];
}

const SHOWN = 20;
/** Functions whose whole time says something: a server's inner loops all hold nearly everything. */
const NAMED = /^\w+ (src|openapi-backend|ajv|knex|body-parser)\//;

/** Sums up what was sampled between two instants of the monotonic clock, so that the start of the server is left out. */
export function summarizeProfile(folder: string, window: { from: number; to: number }): ProfileSummary {
  const file = readdirSync(folder).find((name) => name.endsWith('.cpuprofile'));
  if (!file) throw new Error('the server left no profile');
  const profile: CpuProfile = JSON.parse(readFileSync(path.join(folder, file), 'utf8'));

  const frames = new Map<number, Frame>();
  for (const { id, callFrame, children } of profile.nodes) {
    const { functionName, url, lineNumber } = callFrame;
    const place = placeOf(url);
    const name = `${functionName || '(anonymous)'}${place && ` ${place}:${lineNumber + 1}`}`;
    frames.set(id, { name, area: areaOf(url, functionName), micros: 0, children: children ?? [] });
  }
  let at = profile.startTime;
  for (const [index, id] of profile.samples.entries()) {
    const micros = profile.timeDeltas[index] ?? 0;
    at += micros;
    if (at >= window.from && at <= window.to) (frames.get(id) as Frame).micros += Math.max(0, micros);
  }

  const areas = new Map<string, number>();
  const functions = new Map<string, number>();
  const inclusive = new Map<string, number>();
  walk(profile.nodes[0]?.id as number, undefined, new Set());

  let total = 0;
  for (const { micros } of frames.values()) total += micros;
  if (total === 0) throw new Error('the profile holds nothing of the time in question');
  const idle = functions.get('(idle)') ?? 0;
  const busy = total - idle;
  for (const counted of [areas, functions, inclusive]) {
    for (const name of ['(idle)', '(root)']) counted.delete(name);
  }
  for (const name of inclusive.keys()) if (!NAMED.test(name)) inclusive.delete(name);
  return {
    busy_percent: percent(busy, total),
    areas: sharesOf(areas, busy),
    functions: sharesOf(functions, busy),
    inclusive: sharesOf(inclusive, busy),
  };

  /** Counts a frame and all below it, and answers their time; a recursive function counts once. */
  function walk(id: number, caller: Frame | undefined, above: Set<string>): number {
    const frame = frames.get(id) as Frame;
    // A native function has no file: it counts for whoever called it.
    const area = frame.area || `${caller?.area ?? ''}, native`;
    const name = frame.area ? frame.name : `${frame.name} < ${caller?.name}`;
    add(areas, frame.area === '' && caller?.area === '' ? 'native' : area, frame.micros);
    add(functions, name, frame.micros);
    const isNew = !above.has(name);
    if (isNew) above.add(name);
    let micros = frame.micros;
    for (const child of frame.children) micros += walk(child, frame, above);
    if (isNew) {
      above.delete(name);
      add(inclusive, name, micros);
    }
    return micros;
  }
}

function add(counted: Map<string, number>, name: string, micros: number): void {
  counted.set(name, (counted.get(name) ?? 0) + micros);
}

function sharesOf(counted: Map<string, number>, busy: number): Share[] {
  return [...counted]
    .sort(([, a], [, b]) => b - a)
    .slice(0, SHOWN)
    .map(([name, micros]) => ({ name, percent: percent(micros, busy) }));
}

function percent(part: number, whole: number): number {
  return Math.round((part / whole) * 1000) / 10;
}

function placeOf(url: string): string {
  const file = url.replace(/^file:\/\//, '');
  if (!file.startsWith(packageRoot)) return file;
  return path
    .relative(packageRoot, file)
    .replace(/^node_modules\//, '')
    .replace(/^dist\//, '');
}

function areaOf(url: string, functionName: string): string {
  if (url === '') return functionName.startsWith('(') ? functionName : '';
  if (url.startsWith('node:')) return `node ${url.split('/').slice(0, 2).join('/').replace('node:', '')}`;
  const place = placeOf(url);
  if (place.startsWith('src/')) return `ours: ${place.split('/').slice(0, 2).join('/')}`;
  const [first, second] = place.split('/');
  return String(first?.startsWith('@') ? `${first}/${second}` : first);
}
