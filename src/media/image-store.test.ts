import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ImageStore, openImageStore } from './image-store';
import type { NormalizedImage } from './normalize-image';

function imageOf(content: string): NormalizedImage {
  const jpeg = Buffer.from(content);
  const sha256 = createHash('sha256').update(jpeg).digest('hex');
  return { jpeg, sha256, bytes: jpeg.length, width: 1, height: 1 };
}

describe('openImageStore', () => {
  let directory: string;
  let store: ImageStore;
  const image = imageOf('a picture');
  const other = imageOf('another picture');

  function fileOf({ sha256 }: NormalizedImage): string {
    return join(directory, sha256.slice(0, 2), `${sha256}.jpg`);
  }

  function filesIn(path: string): string[] {
    return readdirSync(path, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
  }

  beforeEach(() => {
    directory = join(mkdtempSync(join(tmpdir(), 'image-store-')), 'pictures');
    store = openImageStore(directory);
  });

  afterEach(() => rmSync(join(directory, '..'), { recursive: true, force: true }));

  it('keeps, finds and removes a picture under its digest', async () => {
    expect(await store.has(image.sha256)).toBe(false);
    expect(await store.read(image.sha256)).toBeUndefined();

    await store.put(image);
    await store.put(other);

    expect(await store.has(image.sha256)).toBe(true);
    expect(await store.read(image.sha256)).toEqual(image.jpeg);
    expect(filesIn(directory).sort()).toEqual([fileOf(image), fileOf(other)].sort());
    expect(statSync(fileOf(image)).mode & 0o077).toBe(0);

    await store.remove(image.sha256);
    await store.remove(image.sha256);

    expect(await store.has(image.sha256)).toBe(false);
    expect(await store.read(image.sha256)).toBeUndefined();
    expect(await store.read(other.sha256)).toEqual(other.jpeg);
  });

  it('finds its pictures again after it is reopened', async () => {
    await store.put(image);

    expect(await openImageStore(directory).read(image.sha256)).toEqual(image.jpeg);
  });

  it('stores the same picture twice at once, and again, as one file', async () => {
    await Promise.all([store.put(image), store.put(image)]);
    await store.put(image);

    expect(filesIn(directory)).toEqual([fileOf(image)]);
    expect(await store.read(image.sha256)).toEqual(image.jpeg);
  });

  it('shows readers the whole picture or none while it is written', async () => {
    const large = imageOf('x'.repeat(3_000_000));
    let done = false;
    const writing = Promise.all([store.put(large), store.put(large)]).then(() => {
      done = true;
    });

    while (!done) {
      const seen = existsSync(fileOf(large)) ? readFileSync(fileOf(large)).length : 0;
      expect([0, large.bytes]).toContain(seen);
      await new Promise(setImmediate);
    }
    await writing;
  });

  it('refuses every name that is not a digest, and touches nothing', async () => {
    writeFileSync(join(directory, '..', 'outside.jpg'), 'kept');
    const { sha256 } = image;
    const names = [
      '',
      '../outside',
      sha256.toUpperCase(),
      sha256.slice(1),
      `${sha256}0`,
      `${sha256}\n`,
      `${sha256}\0`,
    ];
    names.push(`../${sha256.slice(3)}`, `${sha256}.jpg`, '参考图');

    for (const name of names) {
      await expect(store.read(name)).rejects.toThrow(TypeError);
      await expect(store.has(name)).rejects.toThrow(TypeError);
      await expect(store.remove(name)).rejects.toThrow(TypeError);
      await expect(store.put({ ...image, sha256: name })).rejects.toThrow(TypeError);
      await expect(store.holding(name, async () => 1)).rejects.toThrow(TypeError);
    }
    expect(readdirSync(directory)).toEqual([]);
    expect(existsSync(join(directory, '..', 'outside.jpg'))).toBe(true);
  });

  it('refuses to keep a picture under the digest of another', async () => {
    await expect(store.put({ ...image, sha256: other.sha256 })).rejects.toThrow(TypeError);
    expect(filesIn(directory)).toEqual([]);
  });

  it('throws instead of serving a damaged file, and put heals it', async () => {
    await store.put(image);
    writeFileSync(fileOf(image), 'damage');

    await expect(store.read(image.sha256)).rejects.toThrow('damaged');

    await store.put(image);
    expect(await store.read(image.sha256)).toEqual(image.jpeg);
  });

  it('leaves nothing behind when the picture cannot be moved to its name', async () => {
    mkdirSync(fileOf(image), { recursive: true });

    await expect(store.put(image)).rejects.toThrow();

    expect(filesIn(directory)).toEqual([]);
  });

  it('removes what a crash left half written, and nothing else, when it is opened', async () => {
    await store.put(image);
    const shard = join(directory, image.sha256.slice(0, 2));
    writeFileSync(join(shard, `${image.sha256}.jpg.5f0c.tmp`), 'half');
    mkdirSync(join(directory, 'lost+found'));
    writeFileSync(join(directory, 'lost+found', 'foreign.tmp'), 'foreign');

    expect(await openImageStore(directory).read(image.sha256)).toEqual(image.jpeg);

    expect(filesIn(directory).sort()).toEqual(
      [fileOf(image), join(directory, 'lost+found', 'foreign.tmp')].sort(),
    );
  });

  describe('holding', () => {
    it('runs work on one picture one after another, in order, and goes on after a failure', async () => {
      const log: string[] = [];
      let letFirstEnd = (): void => undefined;
      const gate = new Promise<void>((resolve) => {
        letFirstEnd = resolve;
      });

      const first = store.holding(image.sha256, async () => {
        log.push('first begins');
        await gate;
        log.push('first ends');
        throw new Error('refused');
      });
      const second = store.holding(image.sha256, async () => {
        log.push('second');
        return 2;
      });
      const third = store.holding(image.sha256, async () => {
        log.push('third');
        return 3;
      });
      const elsewhere = await store.holding(other.sha256, async () => 'not held up');
      expect(elsewhere).toBe('not held up');
      expect(log).toEqual(['first begins']);

      letFirstEnd();

      await expect(first).rejects.toThrow('refused');
      expect(await Promise.all([second, third])).toEqual([2, 3]);
      expect(log).toEqual(['first begins', 'first ends', 'second', 'third']);
    });

    it('passes on an error thrown before the first await', async () => {
      const work = (): Promise<void> => {
        throw new Error('at once');
      };

      await expect(store.holding(image.sha256, work)).rejects.toThrow('at once');
      expect(await store.holding(image.sha256, async () => 'free')).toBe('free');
    });

    it('keeps a picture that one upload was refused and another accepted', async () => {
      let references = 0;
      const upload = (accepted: boolean): Promise<void> =>
        store.holding(image.sha256, async () => {
          await store.put(image);
          if (accepted) references += 1;
          else if (references === 0) await store.remove(image.sha256);
        });

      await Promise.all([upload(false), upload(true), upload(false)]);

      expect(await store.read(image.sha256)).toEqual(image.jpeg);
    });
  });
});
