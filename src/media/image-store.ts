import { createHash, randomUUID } from 'node:crypto';
import { Refusal } from '../contract/errors';
import type { NormalizedImage } from './normalize-image';

/**
 * Pictures by the SHA-256 of their bytes, shared by any number of processes; a name that is not 64 lowercase hex
 * digits throws a TypeError.
 * @throws Refusal SERVICE_UNAVAILABLE, from every method, while the store is out of reach
 */
export interface ImageStore {
  /** Stores a copy of this call's own durably before it resolves; readers find it from then on. */
  put(image: NormalizedImage): Promise<StoredImage>;
  /** Answers the picture, or undefined when there is none; throws when its bytes no longer match its name. */
  read(sha256: string): Promise<Buffer | undefined>;
}

/** The copy that one `put` stored. */
export interface StoredImage {
  /** Gives the copy the name that all calls share and that nothing removes: for when something may refer to it. */
  keep(): Promise<void>;
  /** Takes this copy away, and no other: for when nothing can refer to it through this call. */
  discard(): Promise<void>;
}

/** Files or objects by name, `/` between folders. */
export interface Shelf {
  /** Durable before it resolves; readers see all of it or nothing. */
  write(name: string, bytes: Buffer): Promise<void>;
  read(name: string): Promise<Buffer | undefined>;
  /** The names that begin so. */
  namesFrom(beginning: string): Promise<string[]>;
  /** At every moment one of the two names, at least, can be read; what stood at `to` is replaced in one step. */
  move(from: string, to: string): Promise<void>;
  /** No error when it is not there. */
  remove(name: string): Promise<void>;
}

const OWN = '.new';

/** Pictures on a shelf: `ab/abcdef….jpg` is the shared name, `ab/abcdef….jpg.<uuid>.new` the copy of one call. */
export function imageStoreOn(shelf: Shelf): ImageStore {
  async function put({ jpeg, sha256 }: NormalizedImage): Promise<StoredImage> {
    const shared = sharedNameOf(sha256);
    if (digestOf(jpeg) !== sha256) throw new TypeError('The digest is not that of the picture');
    const own = `${shared}.${randomUUID()}${OWN}`;

    await shelf.write(own, jpeg);
    return { keep: () => shelf.move(own, shared), discard: () => shelf.remove(own) };
  }

  async function read(sha256: string): Promise<Buffer | undefined> {
    const shared = sharedNameOf(sha256);
    return (
      (await readShared(shared, sha256)) ?? (await readOwn(shared, sha256)) ?? readShared(shared, sha256)
    );
  }

  async function readShared(shared: string, sha256: string): Promise<Buffer | undefined> {
    const jpeg = await shelf.read(shared);
    if (jpeg && digestOf(jpeg) !== sha256) throw new Error(`Stored picture ${sha256} is damaged`);
    return jpeg;
  }

  /** Copies not yet moved: of a call that is under way, or that ended with its process after the commit. */
  async function readOwn(shared: string, sha256: string): Promise<Buffer | undefined> {
    for (const name of await shelf.namesFrom(`${shared}.`)) {
      const jpeg = name.endsWith(OWN) ? await shelf.read(name) : undefined;
      if (jpeg && digestOf(jpeg) === sha256) return jpeg;
    }
    return undefined;
  }

  return { put, read };
}

/** What every method of a store refuses with while the disk or the object store behind it fails. */
export function storeUnavailable(cause: unknown): Refusal {
  return new Refusal('SERVICE_UNAVAILABLE', { retryAfterSeconds: 5, cause });
}

function sharedNameOf(sha256: string): string {
  if (!/^[0-9a-f]{64}$/.test(sha256)) throw new TypeError('A picture is named by 64 lowercase hex digits');
  return `${sha256.slice(0, 2)}/${sha256}.jpg`;
}

function digestOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}
