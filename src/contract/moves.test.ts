import { readFileSync } from 'node:fs';
import path from 'node:path';
import { packageRoot } from '../config';
import { isTerminal, MOVES, NOTES, TASK_STATUSES, TERMINAL_STATUSES } from './moves';

interface Move {
  by: string;
  from: readonly string[];
  to: string;
}
const moves: Record<string, Move> = MOVES;
const page = readFileSync(path.join(packageRoot, 'docs', 'state-machine.md'), 'utf8');

const inCode = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map((match) => match[1]!);

describe('the table of moves', () => {
  it('is the same in docs/state-machine.md, row by row', () => {
    const rows = [...page.matchAll(/^\| `([a-z_.]+)` \| (\w+) \| (.+) \| `(\w+)` \|$/gm)];
    const written = rows.map(([, event, by, from, to]) => [event!, { by, from: inCode(from!), to }]);
    expect(written).toEqual(
      Object.entries(moves).map(([event, { by, from, to }]) => [event, { by, from, to }]),
    );
  });

  it('is drawn in full in the diagram, and nothing else is', () => {
    const drawn = new Set(
      [...page.matchAll(/^\s+(\[\*\]|\w+) --> (\[\*\]|\w+)/gm)].map(([, from, to]) => `${from} ${to}`),
    );
    const legal = new Set(
      Object.values(moves).flatMap(({ from, to }) =>
        from.length === 0 ? [`[*] ${to}`] : from.map((one) => `${one} ${to}`),
      ),
    );
    for (const status of TERMINAL_STATUSES) legal.add(`${status} [*]`);
    expect([...drawn].sort()).toEqual([...legal].sort());
  });

  it('stands beside the same notes', () => {
    const sentence = /Events that change neither status nor version: ([\s\S]*?)\.\n/.exec(page);
    expect(inCode(sentence![1]!)).toEqual([...NOTES]);
    expect(NOTES.filter((note) => note in moves)).toEqual([]);
  });

  it('leaves no terminal status and reaches every status', () => {
    for (const { from } of Object.values(moves)) {
      expect(from.filter((status) => (TERMINAL_STATUSES as readonly string[]).includes(status))).toEqual([]);
    }
    expect(new Set(Object.values(moves).map(({ to }) => to))).toEqual(new Set(TASK_STATUSES));
    const left = new Set(Object.values(moves).flatMap(({ from }) => from));
    expect(TASK_STATUSES.filter((status) => !left.has(status))).toEqual(TERMINAL_STATUSES);
  });

  it('lets only admins decide what phones may not: permission, cancellation, the end of an uncertain order', () => {
    const byDevice = Object.entries(moves).filter(([, { by }]) => by === 'DEVICE');
    expect(
      byDevice.filter(([, { from }]) => from.includes('NEEDS_MANUAL') || from.includes('DRAFT')),
    ).toEqual([]);
    expect(byDevice.filter(([, { to }]) => to === 'FAILED' || to === 'DRAFT')).toEqual([]);
  });

  it('never lets a submitted task go back to a state in which it could be bought again', () => {
    const reachable = new Set<string>(['SUBMITTING']);
    for (let size = 0; size < reachable.size; ) {
      size = reachable.size;
      for (const [event, { from, to }] of Object.entries(moves)) {
        // After a fence these two are refused for ever by SUBMISSION_EXISTS.
        if (event === 'task.canceled' || event === 'task.reset_to_draft') continue;
        if (from.some((status) => reachable.has(status))) reachable.add(to);
      }
    }
    expect([...reachable].sort()).toEqual(['FAILED', 'NEEDS_MANUAL', 'ORDERED', 'SUBMITTING']);
  });
});

describe('isTerminal', () => {
  it.each(TASK_STATUSES)('%s', (status) => {
    expect(isTerminal(status)).toBe(['ORDERED', 'FAILED', 'CANCELED'].includes(status));
  });
});
