import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';
import path from 'node:path';
import BetterSqlite from 'better-sqlite3';
import { median } from './numbers';

/** What the numbers were measured on. */
export interface Machine {
  cores: number;
  cpu: string;
  memory_gib: number;
  platform: string;
  node: string;
  sqlite: string;
  /** Median of writing 4 KiB and waiting for the disk, in the folder of the databases. */
  fsync_us: number;
  /** Runnable processes over the last minute, this program's own and those of others. */
  load: number;
}

const SYNCS = 200;

export function describeMachine(folder: string): Machine {
  const memory = new BetterSqlite(':memory:');
  const sqlite = String(memory.prepare('select sqlite_version()').pluck().get());
  memory.close();
  return {
    cores: availableParallelism(),
    cpu: cpus()[0]?.model ?? 'unknown',
    memory_gib: Math.round(totalmem() / 2 ** 30),
    platform: `${process.platform} ${process.arch}`,
    node: process.versions.node,
    sqlite,
    fsync_us: Math.round(fsyncCost(folder) * 1000),
    load: Math.round((loadavg()[0] as number) * 10) / 10,
  };
}

export function sentenceOf(machine: Machine): string {
  const { cores, cpu, memory_gib, platform, node, sqlite, fsync_us, load } = machine;
  return `${cores} cores (${cpu}), ${memory_gib} GiB, ${platform}, Node ${node}, SQLite ${sqlite}, fsync ${fsync_us} µs, load ${load}`;
}

function fsyncCost(folder: string): number {
  const file = path.join(folder, 'fsync');
  const block = Buffer.alloc(4096, 1);
  const times: number[] = [];
  const descriptor = openSync(file, 'w');
  try {
    for (let index = 0; index < SYNCS; index += 1) {
      const started = performance.now();
      writeSync(descriptor, block);
      fdatasyncSync(descriptor);
      times.push(performance.now() - started);
    }
  } finally {
    closeSync(descriptor);
    rmSync(file);
  }
  return median(times);
}
