import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { type Shelf, storeUnavailable } from './image-store';

const HALF_WRITTEN = '.tmp';
/** Far longer than a write takes; a write that still loses its file fails, because it can no longer be renamed. */
const LEFTOVER_MS = 3_600_000;

/**
 * Opens a directory, made if absent, that several processes may share, and removes what a crash left half written
 * an hour ago or earlier.
 */
export function openDiskShelf(directory: string): Shelf {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  removeLeftovers(directory);
  const pathOf = (name: string) => path.join(directory, name);

  return {
    write: (name, bytes) =>
      onDisk(async () => {
        const folder = path.dirname(pathOf(name));
        await mkdir(folder, { recursive: true, mode: 0o700 });
        const halfWritten = `${pathOf(name)}${HALF_WRITTEN}`;
        try {
          await writeDurably(halfWritten, bytes);
          await rename(halfWritten, pathOf(name));
        } catch (error) {
          await rm(halfWritten, { force: true });
          throw error;
        }
        await syncDirectory(folder);
        await syncDirectory(directory);
      }),

    read: (name) => onDisk(() => unlessMissing(readFile(pathOf(name)))),

    async namesFrom(beginning) {
      const [folder, start] = [path.posix.dirname(beginning), path.posix.basename(beginning)];
      const names = (await onDisk(() => unlessMissing(readdir(pathOf(folder))))) ?? [];
      return names
        .filter((name) => name.startsWith(start) && !name.endsWith(HALF_WRITTEN))
        .map((name) => `${folder}/${name}`);
    },

    move: (from, to) =>
      onDisk(async () => {
        await rename(pathOf(from), pathOf(to));
        await syncDirectory(path.dirname(pathOf(to)));
      }),

    // Not synced: a picture that returns after a power cut is merely unreferenced.
    remove: (name) => onDisk(() => rm(pathOf(name), { force: true })),
  };
}

function removeLeftovers(directory: string): void {
  for (const shard of readdirSync(directory, { withFileTypes: true })) {
    if (!shard.isDirectory() || !/^[0-9a-f]{2}$/.test(shard.name)) continue;
    for (const name of readdirSync(path.join(directory, shard.name))) {
      const file = path.join(directory, shard.name, name);
      if (name.endsWith(HALF_WRITTEN) && isLeftover(file)) rmSync(file, { force: true });
    }
  }
}

function isLeftover(file: string): boolean {
  const found = statSync(file, { throwIfNoEntry: false });
  return found !== undefined && found.mtimeMs < Date.now() - LEFTOVER_MS;
}

async function writeDurably(file: string, bytes: Buffer): Promise<void> {
  const handle = await open(file, 'wx', 0o600);
  try {
    await handle.writeFile(bytes);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Makes renames inside the directory survive a power cut. */
async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function unlessMissing<T>(found: Promise<T>): Promise<T | undefined> {
  try {
    return await found;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** A full, failing or withdrawn disk is no bug of ours. */
async function onDisk<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw (error as NodeJS.ErrnoException).syscall === undefined ? error : storeUnavailable(error);
  }
}
