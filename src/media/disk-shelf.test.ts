import { mkdirSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { openDiskPlace } from '../testing/disk-picture-place';
import { refusalOf } from '../testing/expect-refusal';
import { imageOf, sharedNameOf } from '../testing/picture-store-suites';

describe('openDiskShelf', () => {
  const image = imageOf('a picture');
  const shard = image.sha256.slice(0, 2);
  let place: Awaited<ReturnType<typeof openDiskPlace>>;

  beforeEach(async () => {
    place = await openDiskPlace();
  });

  afterEach(() => place.close());

  /** A file that was last written so many minutes ago. */
  function leave(name: string, minutes: number): void {
    const file = path.join(place.directory, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, 'half');
    const then = Date.now() / 1000 - minutes * 60;
    utimesSync(file, then, then);
  }

  it('makes files that only its own user may read', async () => {
    await (await (await place.open()).put(image)).keep();
    expect(statSync(path.join(place.directory, sharedNameOf(image))).mode & 0o077).toBe(0);
    expect(statSync(place.directory).mode & 0o077).toBe(0);
  });

  it('removes what a crash left half written, and nothing that a live process may be writing', async () => {
    const stored = await (await place.open()).put(image);
    const [own] = await place.names();
    const old = `${shard}/${image.sha256}.jpg.5f0c.new.tmp`;
    const fresh = `${shard}/${image.sha256}.jpg.5f0d.new.tmp`;
    leave(old, 61);
    leave(fresh, 59);
    leave('lost+found/foreign.tmp', 600);

    const reopened = await place.open();

    expect(await place.names()).toEqual([own, fresh, 'lost+found/foreign.tmp'].sort());
    expect(await reopened.read(image.sha256)).toEqual(image.jpeg);
    await stored.keep();
    expect(await reopened.read(image.sha256)).toEqual(image.jpeg);
  });

  it('keeps a copy that was never given its shared name, however old', async () => {
    await (await place.open()).put(image);
    const [own] = await place.names();
    utimesSync(path.join(place.directory, own!), 1, 1);

    expect(await (await place.open()).read(image.sha256)).toEqual(image.jpeg);
  });

  it('refuses SERVICE_UNAVAILABLE while the disk fails, and leaves nothing behind', async () => {
    const store = await place.open();
    writeFileSync(path.join(place.directory, shard), 'no directory');
    expect(await refusalOf(store.put(image))).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
    expect(await refusalOf(store.read(image.sha256))).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
    expect(await place.names()).toEqual([shard]);
  });
});
