import { createHash, randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { NormalizedImage } from './normalize-image';

/** Pictures by the SHA-256 of their bytes; a name that is not 64 lowercase hex digits throws a TypeError. */
export type ImageStore = {
  /** Keeps the picture durably before it resolves; storing the same picture again changes nothing. */
  put(image: NormalizedImage): Promise<void>;
  /** Answers the picture, or undefined when there is none; throws when its bytes no longer match its name. */
  read(sha256: string): Promise<Buffer | undefined>;
  has(sha256: string): Promise<boolean>;
  /** Removes the picture if it is there; call it inside `holding`, once nothing refers to it. */
  remove(sha256: string): Promise<void>;
  /**
   * Runs `work` while no other `holding` of this picture runs in this process: store, commit, and remove
   * again when the commit was refused. Not reentrant, and never to be called inside a database transaction.
   */
  holding<T>(sha256: string, work: () => Promise<T>): Promise<T>;
};

const TEMPORARY = '.tmp';

/**
 * Opens the picture store in a local directory, made if absent, and removes what a crash left half written;
 * so only one process at a time may have a directory open.
 */
export function openImageStore(directory: string): ImageStore {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  removeLeftovers(directory);
  const tails = new Map<string, Promise<void>>();

  function shardOf(sha256: string): string {
    return join(directory, checkedDigest(sha256).slice(0, 2));
  }

  function pathOf(sha256: string): string {
    return join(shardOf(sha256), `${sha256}.jpg`);
  }

  async function put(image: NormalizedImage): Promise<void> {
    const path = pathOf(image.sha256);
    if (digestOf(image.jpeg) !== image.sha256) throw new TypeError('The digest is not that of the picture');

    // Written even when it is there already: the rename is atomic, and it heals a damaged file.
    await mkdir(shardOf(image.sha256), { recursive: true, mode: 0o700 });
    const temporary = `${path}.${randomUUID()}${TEMPORARY}`;
    try {
      await writeDurably(temporary, image.jpeg);
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
    await syncDirectory(shardOf(image.sha256));
    await syncDirectory(directory);
  }

  async function read(sha256: string): Promise<Buffer | undefined> {
    const jpeg = await unlessMissing(readFile(pathOf(sha256)));
    if (jpeg && digestOf(jpeg) !== sha256) throw new Error(`Stored picture ${sha256} is damaged`);
    return jpeg;
  }

  async function has(sha256: string): Promise<boolean> {
    return (await unlessMissing(stat(pathOf(sha256)))) !== undefined;
  }

  async function remove(sha256: string): Promise<void> {
    // Not synced: a picture that returns after a power cut is merely unreferenced.
    await rm(pathOf(sha256), { force: true });
  }

  async function holding<T>(sha256: string, work: () => Promise<T>): Promise<T> {
    const previous = tails.get(checkedDigest(sha256)) ?? Promise.resolve();
    const result = previous.then(work);
    const tail = result.then(
      () => undefined,
      () => undefined,
    );
    tails.set(sha256, tail);

    try {
      return await result;
    } finally {
      if (tails.get(sha256) === tail) tails.delete(sha256);
    }
  }

  return { put, read, has, remove, holding };
}

function checkedDigest(sha256: string): string {
  if (!/^[0-9a-f]{64}$/.test(sha256)) throw new TypeError('A picture is named by 64 lowercase hex digits');
  return sha256;
}

function digestOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function removeLeftovers(directory: string): void {
  for (const shard of readdirSync(directory, { withFileTypes: true })) {
    if (!shard.isDirectory() || !/^[0-9a-f]{2}$/.test(shard.name)) continue;
    for (const name of readdirSync(join(directory, shard.name))) {
      if (name.endsWith(TEMPORARY)) rmSync(join(directory, shard.name, name), { force: true });
    }
  }
}

async function writeDurably(path: string, bytes: Buffer): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.writeFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes renames inside the directory survive a power cut. */
async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
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
