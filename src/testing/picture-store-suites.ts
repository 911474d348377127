import { createHash } from 'node:crypto';
import sharp from 'sharp';
import { Refusal } from '../contract/errors';
import type { ImageStore, StoredImage } from '../media/image-store';
import { keepImage } from '../media/keep-image';
import type { NormalizedImage } from '../media/normalize-image';
import type { Database } from '../store/database';
import { findImage } from '../store/images';
import { openTestDatabase, type TestDatabase } from './open-test-database';

/** A place for pictures, empty at first, as the tests of every kind of store see it. */
export interface PicturePlace {
  /** A store on this place, as another process has one. */
  open(): Promise<ImageStore>;
  /** All that lies there, sorted. */
  names(): Promise<string[]>;
  /** Writes behind the store's back. */
  overwrite(name: string, bytes: Buffer): Promise<void>;
  close(): Promise<void>;
}

export function imageOf(content: string): NormalizedImage {
  const jpeg = Buffer.from(content);
  const sha256 = createHash('sha256').update(jpeg).digest('hex');
  return { jpeg, sha256, bytes: jpeg.length, width: 1, height: 1 };
}

export function sharedNameOf({ sha256 }: Pick<NormalizedImage, 'sha256'>): string {
  return `${sha256.slice(0, 2)}/${sha256}.jpg`;
}

/** What every picture store promises, whatever it stands on. */
export function describeImageStore(kind: string, openPlace: () => Promise<PicturePlace>): void {
  describe(`a picture store ${kind}`, () => {
    const image = imageOf('a picture');
    const other = imageOf('another picture');
    let place: PicturePlace;
    let store: ImageStore;
    let another: ImageStore;

    beforeEach(async () => {
      place = await openPlace();
      store = await place.open();
      another = await place.open();
    });

    afterEach(() => place.close());

    it('keeps and finds a picture under its digest, for every process', async () => {
      expect(await store.read(image.sha256)).toBeUndefined();

      await (await store.put(image)).keep();
      await (await another.put(other)).keep();

      expect(await another.read(image.sha256)).toEqual(image.jpeg);
      expect(await store.read(other.sha256)).toEqual(other.jpeg);
      expect(await place.names()).toEqual([sharedNameOf(image), sharedNameOf(other)].sort());
    });

    it('shows a picture to every process as soon as it is put, kept or not', async () => {
      await store.put(image);

      expect(await store.read(image.sha256)).toEqual(image.jpeg);
      expect(await another.read(image.sha256)).toEqual(image.jpeg);
      expect(await (await place.open()).read(image.sha256)).toEqual(image.jpeg);
    });

    it('leaves nothing of a picture that is discarded, even twice', async () => {
      const stored = await store.put(image);
      await stored.discard();
      await stored.discard();

      expect(await store.read(image.sha256)).toBeUndefined();
      expect(await place.names()).toEqual([]);
    });

    it('discards one copy and never what another call put or kept', async () => {
      const [kept, early, late] = [
        await store.put(image),
        await another.put(image),
        await another.put(image),
      ];
      await early.discard();
      expect(await another.read(image.sha256)).toEqual(image.jpeg);

      await kept.keep();
      await late.discard();

      expect(await another.read(image.sha256)).toEqual(image.jpeg);
      expect(await place.names()).toEqual([sharedNameOf(image)]);
    });

    it('stores the same picture at once, and again, under one name', async () => {
      const stored = await Promise.all([store, another, store, another].map((opened) => opened.put(image)));
      await Promise.all(stored.map((each) => each.keep()));
      await (await store.put(image)).keep();

      expect(await place.names()).toEqual([sharedNameOf(image)]);
      expect(await store.read(image.sha256)).toEqual(image.jpeg);
    });

    it('never shows a gap, nor a part of a picture, while copies are kept and discarded', async () => {
      const large = imageOf('x'.repeat(300_000));
      for (let round = 0; round < 10; round += 1) {
        const fresh = { ...imageOf(`${large.jpeg}${round}`) };
        const stored = await Promise.all([store.put(fresh), another.put(fresh), store.put(fresh)]);
        let done = false;
        const settled = Promise.all([stored[0]!.discard(), stored[1]!.keep(), stored[2]!.discard()]).then(
          () => {
            done = true;
          },
        );
        do {
          const [one, two] = await Promise.all([store.read(fresh.sha256), another.read(fresh.sha256)]);
          expect([one?.length, two?.length]).toEqual([fresh.bytes, fresh.bytes]);
        } while (!done);
        await settled;
      }
    });

    it('refuses every name that is not a digest, and touches nothing', async () => {
      const { sha256 } = image;
      const names = [
        '',
        '../outside',
        sha256.toUpperCase(),
        sha256.slice(1),
        `${sha256}0`,
        `${sha256}\n`,
        `${sha256}\0`,
        `../${sha256.slice(3)}`,
        `${sha256}.jpg`,
        '参考图',
      ];
      for (const name of names) {
        await expect(store.read(name)).rejects.toThrow(TypeError);
        await expect(store.put({ ...image, sha256: name })).rejects.toThrow(TypeError);
      }
      expect(await place.names()).toEqual([]);
    });

    it('refuses to store a picture under the digest of another', async () => {
      await expect(store.put({ ...image, sha256: other.sha256 })).rejects.toThrow(TypeError);
      expect(await place.names()).toEqual([]);
    });

    it('throws instead of serving a damaged picture, and keeping it again heals it', async () => {
      await (await store.put(image)).keep();
      await place.overwrite(sharedNameOf(image), Buffer.from('damage'));
      await expect(store.read(image.sha256)).rejects.toThrow('damaged');

      await (await another.put(image)).keep();
      expect(await store.read(image.sha256)).toEqual(image.jpeg);
    });

    it('passes over a damaged copy that nobody kept', async () => {
      await store.put(image);
      const [name] = await place.names();
      await place.overwrite(name!, Buffer.from('damage'));
      expect(await store.read(image.sha256)).toBeUndefined();

      await another.put(image);
      expect(await store.read(image.sha256)).toEqual(image.jpeg);
    });
  });
}

/** That a picture is there whenever a committed fact refers to it, whatever other processes do. */
export function describeKeepImage(kind: string, openPlace: () => Promise<PicturePlace>): void {
  describe(`keepImage ${kind}`, () => {
    let place: PicturePlace;
    let facts: TestDatabase;
    let processes: { database: Database; images: ImageStore }[];

    beforeAll(async () => {
      facts = await openTestDatabase();
      place = await openPlace();
      processes = [
        { database: facts.database, images: await place.open() },
        { database: facts.openAnother(), images: await place.open() },
      ];
    });

    afterAll(async () => {
      await place.close();
      await facts.close();
    });

    async function isReferredTo(sha256: string): Promise<boolean> {
      return (await findImage(facts.database.read, sha256)) !== undefined;
    }

    async function expectNothingLost(sha256: string | undefined): Promise<void> {
      if (sha256 === undefined || !(await isReferredTo(sha256))) return;
      for (const { images } of processes) expect(await images.read(sha256)).toBeInstanceOf(Buffer);
    }

    async function expectKept(sha256: string): Promise<void> {
      expect(await isReferredTo(sha256)).toBe(true);
      await expectNothingLost(sha256);
      expect(await namesOf(sha256)).toEqual([sharedNameOf({ sha256 })]);
    }

    async function namesOf(sha256: string): Promise<string[]> {
      return (await place.names()).filter((name) => name.includes(sha256));
    }

    it('has the picture stored, for every process, before anything can refer to it', async () => {
      const [here, there] = processes as [Process, Process];
      const seen = await keepImage(here, await newUpload(), (record) =>
        here.database.write(async (work) => {
          const sha256 = await record(work);
          return { sha256, before: await there.images.read(sha256) };
        }),
      );
      expect(seen.before).toBeInstanceOf(Buffer);
      await expectKept(seen.sha256);
    });

    it('leaves nothing when the write is refused', async () => {
      const [here] = processes as [Process, Process];
      const before = await place.names();
      let sha256 = '';
      const refused = keepImage(here, await newUpload(), (record) =>
        here.database.write(async (work) => {
          sha256 = await record(work);
          throw new Refusal('VERSION_CONFLICT');
        }),
      );
      await expect(refused).rejects.toThrow('VERSION_CONFLICT');
      expect(await isReferredTo(sha256)).toBe(false);
      expect(await place.names()).toEqual(before);
    });

    it.each([
      ['a lost connection', () => new Error('the connection was lost')],
      ['a refusal that the store gave', () => new Refusal('SERVICE_UNAVAILABLE')],
    ])('keeps the picture when %s hides that the commit stands', async (_name, failure) => {
      const [here] = processes as [Process, Process];
      let sha256 = '';
      const failed = keepImage(here, await newUpload(), async (record) => {
        sha256 = await here.database.write(record);
        throw failure();
      });
      await expect(failed).rejects.toThrow();
      await expectKept(sha256);
    });

    it('answers, and loses nothing, when its process cannot finish after the commit', async () => {
      const [here] = processes as [Process, Process];
      const cut: ImageStore = {
        ...here.images,
        put: async (image) => ({
          ...(await here.images.put(image)),
          keep: () => Promise.reject(new Error('gone')),
        }),
      };
      const upload = await newUpload();
      const write = (record: Record) => here.database.write(record);
      const sha256 = await keepImage({ images: cut }, upload, write);
      await expectNothingLost(sha256);
      expect(await namesOf(sha256)).not.toEqual([]);
    });

    it.each<[string, Fate, Fate]>([
      ['both written', 'written', 'written'],
      ['one written, one refused', 'written', 'refused'],
      ['both refused', 'refused', 'refused'],
    ])('two processes, the same picture, every order of their steps: %s', async (_name, one, two) => {
      for (const order of ordersOf(3, 3)) {
        const upload = await newUpload();
        let sha256: string | undefined;
        const calls = [one, two].map((fate, index) => {
          const { database, images } = processes[index] as Process;
          const steps = stepwise();
          const ended = keepImage({ images: stepping(images, steps.step) }, upload, (record) =>
            steps.step(() =>
              database.write(async (work) => {
                sha256 = await record(work);
                if (fate === 'refused') throw new Refusal('VERSION_CONFLICT');
              }),
            ),
          ).then(
            () => 'written',
            ({ code }) => (code === 'VERSION_CONFLICT' ? 'refused' : code),
          );
          return { steps, ended };
        });
        for (const turn of order) {
          await calls[turn]!.steps.next();
          await expectNothingLost(sha256);
        }
        expect(await Promise.all(calls.map(({ ended }) => ended))).toEqual([one, two]);
        if (one === 'written') await expectKept(sha256!);
        else expect(await namesOf(sha256!)).toEqual([]);
      }
    });

    it.each<Fate>(['written', 'refused'])(
      'two transactions on one picture at once, the first %s',
      async (fate) => {
        const [here, there] = processes as [Process, Process];
        const upload = await newUpload();
        const recorded = barrier();
        const secondPut = barrier();
        const first = keepImage(here, upload, (record) =>
          here.database.write(async (work) => {
            await record(work);
            recorded.open();
            await secondPut.opened;
            if (fate === 'refused') throw new Refusal('VERSION_CONFLICT');
          }),
        ).catch(({ code }) => code);
        await recorded.opened;
        const sha256 = await keepImage(there, upload, (record) => {
          const written = there.database.write(record);
          secondPut.open();
          return written;
        });
        expect(await first).toBe(fate === 'refused' ? 'VERSION_CONFLICT' : undefined);
        await expectKept(sha256);
      },
    );
  });
}

type Process = { database: Database; images: ImageStore };
type Record = Parameters<Parameters<typeof keepImage>[2]>[0];
type Fate = 'written' | 'refused';
type Step = <T>(work: () => Promise<T>) => Promise<T>;

let uploads = 0;

/** A picture that no other call answers: its size is its own. */
async function newUpload(): Promise<Buffer> {
  uploads += 1;
  const create = {
    width: 1 + (uploads % 1000),
    height: 1 + Math.floor(uploads / 1000),
    channels: 3,
    background: '#3070b0',
  } as const;
  return sharp({ create }).png().toBuffer();
}

function barrier(): { open(): void; opened: Promise<void> } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

/** Holds each step until `next`, which ends when the step has ended. */
function stepwise(): { step: Step; next(): Promise<void> } {
  const gates: { start: ReturnType<typeof barrier>; end: ReturnType<typeof barrier> }[] = [];
  const gate = (index: number) => {
    gates[index] ??= { start: barrier(), end: barrier() };
    return gates[index];
  };
  let taken = 0;
  let released = 0;
  return {
    async step(work) {
      const { start, end } = gate(taken++);
      await start.opened;
      try {
        return await work();
      } finally {
        end.open();
      }
    },
    next() {
      const { start, end } = gate(released++);
      start.open();
      return end.opened;
    },
  };
}

function stepping(images: ImageStore, step: Step): ImageStore {
  const held = (stored: StoredImage): StoredImage => ({
    keep: () => step(() => stored.keep()),
    discard: () => step(() => stored.discard()),
  });
  return { ...images, put: async (image) => held(await step(() => images.put(image))) };
}

/** Every way to lay so many steps of call 0 and so many of call 1 one after another. */
function ordersOf(zeros: number, ones: number): number[][] {
  if (zeros === 0) return [Array(ones).fill(1)];
  if (ones === 0) return [Array(zeros).fill(0)];
  return [
    ...ordersOf(zeros - 1, ones).map((rest) => [0, ...rest]),
    ...ordersOf(zeros, ones - 1).map((rest) => [1, ...rest]),
  ];
}
