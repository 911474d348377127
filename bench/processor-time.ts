import { readdirSync, readFileSync } from 'node:fs';

/** Linux counts processor time in hundredths of a second. */
const MS_PER_TICK = 10;

/** Milliseconds of processor time that a process used, and those of its children that have ended. */
export interface CpuTimes {
  parent: number;
  own: number;
  reaped: number;
}

/** Undefined where the system does not tell, and of a process that has ended. */
export function cpuTimes(pid: number): CpuTimes | undefined {
  if (process.platform !== 'linux') return undefined;
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined;
  }
  // The program's name, in brackets, may hold spaces; the parent is the 2nd field after it, the times the 12th to 15th.
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const [parent, user, system, userOfEnded, systemOfEnded] = [1, 11, 12, 13, 14].map(
    (index) => fields[index] as number,
  ) as [number, number, number, number, number];
  return { parent, own: (user + system) * MS_PER_TICK, reaped: (userOfEnded + systemOfEnded) * MS_PER_TICK };
}

export function processIds(): number[] {
  if (process.platform !== 'linux') return [];
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}
