import { openDiskPlace } from '../testing/disk-picture-place';
import { describeImageStore, imageOf } from '../testing/picture-store-suites';
import { openDiskShelf } from './disk-shelf';
import { imageStoreOn } from './image-store';

describeImageStore('on the local disk', openDiskPlace);

describe('imageStoreOn', () => {
  it.each(['before', 'after'])(
    'finds a picture that is given its shared name just %s the copies are listed',
    async (when) => {
      const place = await openDiskPlace();
      const shelf = openDiskShelf(place.directory);
      const image = imageOf('a picture');
      const stored = await imageStoreOn(shelf).put(image);
      const store = imageStoreOn({
        ...shelf,
        async namesFrom(beginning) {
          if (when === 'before') await stored.keep();
          const names = await shelf.namesFrom(beginning);
          if (when === 'after') await stored.keep();
          return names;
        },
      });

      expect(await store.read(image.sha256)).toEqual(image.jpeg);
      await place.close();
    },
  );
});
