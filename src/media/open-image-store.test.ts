import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readConfig } from '../config';
import { openDiskPlace } from '../testing/disk-picture-place';
import { refusalOf } from '../testing/expect-refusal';
import { imageOf } from '../testing/picture-store-suites';
import { openImageStore } from './open-image-store';

const loaded = jest.fn();
jest.mock('@aws-sdk/client-s3', () => {
  loaded();
  return jest.requireActual('@aws-sdk/client-s3');
});

describe('openImageStore', () => {
  const image = imageOf('a picture');
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY } = process.env;

  beforeAll(() => {
    Object.assign(process.env, { AWS_ACCESS_KEY_ID: 'a-key-id', AWS_SECRET_ACCESS_KEY: 'a-secret-key' });
  });

  afterAll(() => {
    const before = { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY };
    for (const [name, value] of Object.entries(before)) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  });

  const openS3 = (endpoint: string) =>
    openImageStore(
      readConfig({ CMBUYER_IMAGE_STORE_URL: `s3://pictures?endpoint=${endpoint}&path_style=true` }),
    );

  it('loads the S3 library only when the settings ask for it', async () => {
    const place = await openDiskPlace();
    const store = await place.open();
    await (await store.put(image)).keep();
    await place.close();
    expect(loaded).not.toHaveBeenCalled();

    await openS3('http://127.0.0.1:9');
    expect(loaded).toHaveBeenCalled();
  });

  it('opens while the S3 store is out of reach, which then refuses SERVICE_UNAVAILABLE', async () => {
    const store = await openS3('http://127.0.0.1:9');
    for (const attempt of [() => store.put(image), () => store.read(image.sha256)]) {
      expect(await refusalOf(attempt())).toMatchObject({
        code: 'SERVICE_UNAVAILABLE',
        cause: { message: expect.stringContaining('ECONNREFUSED') },
      });
    }
  });

  it('takes whatever the S3 store refuses for an outage, and gives its secret to nobody', async () => {
    const seen: string[] = [];
    const server = createServer((request, response) => {
      seen.push(JSON.stringify([request.url, request.headers]));
      response.writeHead(403, { 'Content-Type': 'application/xml' });
      response.end('<Error><Code>AccessDenied</Code><Message>no</Message></Error>');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const store = await openS3(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const refusals = [await refusalOf(store.put(image)), await refusalOf(store.read(image.sha256))];
    server.closeAllConnections();
    server.close();

    for (const refusal of refusals) {
      expect(refusal.code).toBe('SERVICE_UNAVAILABLE');
      expect(JSON.stringify([refusal.cause, (refusal.cause as Error).stack])).not.toContain('a-secret-key');
    }
    expect(seen.join()).not.toContain('a-secret-key');
    expect(seen.join()).toContain(`/pictures/${image.sha256.slice(0, 2)}/${image.sha256}.jpg`);
  });
});
