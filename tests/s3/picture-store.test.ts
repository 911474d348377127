import { HeadObjectCommand } from '@aws-sdk/client-s3';
import { readConfig } from '../../src/config';
import { imageStoreOn } from '../../src/media/image-store';
import { openImageStore } from '../../src/media/open-image-store';
import { openS3Shelf } from '../../src/media/s3-shelf';
import { refusalOf } from '../../src/testing/expect-refusal';
import {
  describeImageStore,
  describeKeepImage,
  imageOf,
  sharedNameOf,
} from '../../src/testing/picture-store-suites';
import { type LocalS3, openS3Place, startLocalS3 } from './local-s3';

let s3: LocalS3;

beforeAll(async () => {
  s3 = await startLocalS3();
});
afterAll(() => s3?.stop());

describeImageStore('in S3', () => openS3Place(s3));
describeKeepImage('in S3', () => openS3Place(s3));

describe('a picture store in S3', () => {
  const image = imageOf('a picture');

  it('keeps a picture as a JPEG under prefix/ab/abcdef….jpg', async () => {
    const { dataDir, imageStore } = readConfig({ CMBUYER_IMAGE_STORE_URL: s3.url() });
    const store = await openImageStore({ dataDir, imageStore });
    await (await store.put(image)).keep();

    const Key = `${imageStore!.prefix}${sharedNameOf(image)}`;
    const head = await s3.client.send(new HeadObjectCommand({ Bucket: s3.bucket, Key }));
    expect([head.ContentType, head.ContentLength]).toEqual(['image/jpeg', image.bytes]);
  });

  it('works at the root of a bucket', async () => {
    const store = await openImageStore(
      readConfig({ CMBUYER_IMAGE_STORE_URL: s3.url().replace(/(s3:\/\/[^/]+)[^?]*/, '$1') }),
    );
    await (await store.put(image)).keep();
    expect(await store.read(image.sha256)).toEqual(image.jpeg);
  });

  it('takes a bucket that does not exist for an outage, not for a missing picture', async () => {
    const store = await openImageStore(
      readConfig({ CMBUYER_IMAGE_STORE_URL: s3.url().replace('s3://pictures', 's3://no-such-bucket') }),
    );
    expect(await refusalOf(store.read(image.sha256))).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
    expect(await refusalOf(store.put(image))).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
  });

  it('refuses SERVICE_UNAVAILABLE in time while the server hangs, and works again after', async () => {
    const { imageStore } = readConfig({ CMBUYER_IMAGE_STORE_URL: s3.url() });
    const store = imageStoreOn(openS3Shelf(imageStore!, { timeoutMs: 500 }));
    const stored = await store.put(image);
    s3.pause();
    try {
      const refusals = [store.put(image), store.read(image.sha256), stored.keep(), stored.discard()];
      for (const refused of refusals.map(refusalOf)) {
        expect(await refused).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
      }
    } finally {
      s3.resume();
    }
    await (await imageStoreOn(openS3Shelf(imageStore!)).put(image)).keep();
    expect(await imageStoreOn(openS3Shelf(imageStore!)).read(image.sha256)).toEqual(image.jpeg);
  });
});
