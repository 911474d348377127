import { createHash, randomFillSync } from 'node:crypto';
import { deflateSync } from 'node:zlib';
import sharp from 'sharp';
import { Refusal } from '../contract/errors';
import { type ImageLimits, type NormalizedImage, normalizeImage } from './normalize-image';

const LIMITS: ImageLimits = { maxBytes: 10 * 1024 * 1024, maxPixels: 40_000_000 };

const RED = [255, 0, 0];
const GREEN = [0, 255, 0];
const BLUE = [0, 0, 255];
const WHITE = [255, 255, 255];

/** Four coloured quarters: red and green above, blue and white below. */
function quarters(width = 96, height = 64): sharp.Sharp {
  const data = Buffer.alloc(width * height * 3);
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const above = y < height / 2;
      const left = x < width / 2;
      const colour = above ? (left ? RED : GREEN) : left ? BLUE : WHITE;
      data.set(colour, (y * width + x) * 3);
    }
  }
  return sharp(data, { raw: { width, height, channels: 3 } });
}

function flat(width: number, height: number, background = '#3070b0'): sharp.Sharp {
  return sharp({ create: { width, height, channels: 3, background } });
}

/** Noise that is the same in every run: a tile of prime length, repeated. */
function noise(width: number, height: number): sharp.Sharp {
  const tile = Buffer.alloc(65_537);
  let state = 1;
  for (let i = 0; i < tile.length; i += 1) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    tile[i] = state >>> 24;
  }
  return sharp(Buffer.alloc(width * height * 3, tile), { raw: { width, height, channels: 3 } });
}

async function pixelAt(image: NormalizedImage, x: number, y: number): Promise<number[]> {
  const { data, info } = await sharp(image.jpeg).raw().toBuffer({ resolveWithObject: true });
  expect([info.width, info.height, info.channels]).toEqual([image.width, image.height, 3]);
  return [...data.subarray((y * info.width + x) * 3, (y * info.width + x) * 3 + 3)];
}

/** Top left, top right, bottom left, bottom right. */
async function corners(image: NormalizedImage): Promise<number[][]> {
  const right = image.width - 5;
  const bottom = image.height - 5;
  return [
    await pixelAt(image, 4, 4),
    await pixelAt(image, right, 4),
    await pixelAt(image, 4, bottom),
    await pixelAt(image, right, bottom),
  ];
}

function expectNear(actual: number[], expected: number[], distance = 12): void {
  actual.forEach((value, i) => {
    expect(Math.abs(value - expected[i]!)).toBeLessThanOrEqual(distance);
  });
}

async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    expect(error).toBeInstanceOf(Refusal);
    return (error as Refusal).code;
  }
  return 'accepted';
}

function refusalOf(input: Buffer, limits = LIMITS): Promise<string> {
  return codeOf(normalizeImage(input, limits));
}

/** A JPEG segment (marker, length, payload) put right after the start-of-image marker. */
function withSegment(jpeg: Buffer, marker: number, payload: Buffer): Buffer {
  const head = Buffer.from([0xff, marker, 0, 0]);
  head.writeUInt16BE(payload.length + 2, 2);
  return Buffer.concat([jpeg.subarray(0, 2), head, payload, jpeg.subarray(2)]);
}

/** The markers before the compressed data. */
function markersOf(jpeg: Buffer): number[] {
  const markers: number[] = [];
  for (let at = 2; jpeg[at + 1] !== 0xda; at += 2 + jpeg.readUInt16BE(at + 2)) markers.push(jpeg[at + 1]!);
  return markers;
}

function pngChunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  let crc = 0xffffffff;
  for (const byte of body) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  const frame = Buffer.alloc(8);
  frame.writeUInt32BE(data.length, 0);
  frame.writeUInt32BE((crc ^ 0xffffffff) >>> 0, 4);
  return Buffer.concat([frame.subarray(0, 4), body, frame.subarray(4)]);
}

/** A black one-bit PNG; `rows` may be fewer than the header promises. */
function blackPng(width: number, height: number, rows = height): Buffer {
  const header = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    pngChunk('IHDR', header),
    pngChunk('IDAT', deflateSync(Buffer.alloc((1 + Math.ceil(width / 8)) * rows))),
    pngChunk('IEND', Buffer.alloc(0)),
  ]);
}

describe('normalizeImage', () => {
  describe('stands the picture upright', () => {
    const asSeen: [number, number[][]][] = [
      [1, [RED, GREEN, BLUE, WHITE]],
      [2, [GREEN, RED, WHITE, BLUE]],
      [3, [WHITE, BLUE, GREEN, RED]],
      [4, [BLUE, WHITE, RED, GREEN]],
      [5, [RED, BLUE, GREEN, WHITE]],
      [6, [BLUE, RED, WHITE, GREEN]],
      [7, [WHITE, GREEN, BLUE, RED]],
      [8, [GREEN, WHITE, RED, BLUE]],
    ];

    it.each(asSeen)('for EXIF orientation %i', async (orientation, expected) => {
      const jpeg = await quarters().withMetadata({ orientation }).jpeg({ quality: 95 }).toBuffer();

      const image = await normalizeImage(jpeg, LIMITS);

      expect([image.width, image.height]).toEqual(orientation >= 5 ? [64, 96] : [96, 64]);
      (await corners(image)).forEach((corner, i) => {
        expectNear(corner, expected[i]!, 20);
      });
    });

    it('when the picture is also made smaller', async () => {
      const jpeg = await quarters(3600, 2000).withMetadata({ orientation: 6 }).jpeg().toBuffer();

      const image = await normalizeImage(jpeg, LIMITS);

      expect([image.width, image.height]).toEqual([889, 1600]);
      expectNear((await corners(image))[0]!, BLUE);
    });

    it('for WebP and PNG with an orientation tag', async () => {
      for (const format of ['webp', 'png'] as const) {
        const input = await quarters().withMetadata({ orientation: 6 }).toFormat(format).toBuffer();
        const image = await normalizeImage(input, LIMITS);
        expect([image.width, image.height]).toEqual([64, 96]);
      }
    });
  });

  describe('keeps nothing but pixels', () => {
    it('drops EXIF with GPS, XMP, IPTC, ICC and comments', async () => {
      let jpeg: Buffer = await quarters()
        .withExif({
          IFD0: { Make: 'SECRETMAKE', Orientation: '1' },
          IFD3: { GPSLatitudeRef: 'N', GPSLatitude: '31/1 14/1 0/1', GPSMapDatum: 'SECRETGPS' },
        })
        .withXmp('<x:xmpmeta xmlns:x="adobe:ns:meta/"><SECRETXMP/></x:xmpmeta>')
        .withIccProfile('p3')
        .jpeg()
        .toBuffer();
      jpeg = withSegment(
        jpeg,
        0xed,
        Buffer.from('Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x0eSECRETIPTC1234', 'latin1'),
      );
      jpeg = withSegment(jpeg, 0xfe, Buffer.from('SECRETCOMMENT'));
      const before = await sharp(jpeg).metadata();
      expect([before.exif, before.xmp, before.iptc, before.icc].map((block) => block?.length)).not.toContain(
        undefined,
      );

      const { jpeg: stored } = await normalizeImage(jpeg, LIMITS);

      const after = await sharp(stored).metadata();
      expect([after.exif, after.xmp, after.iptc, after.icc, after.comments, after.orientation]).toEqual(
        Array(6).fill(undefined),
      );
      expect(stored.toString('latin1')).not.toMatch(/SECRET|Exif|xmpmeta|Photoshop|ICC_PROFILE/);
      // JFIF, tables and the frame: no other application segment, no comment.
      expect(markersOf(stored).filter((marker) => marker >= 0xe1)).toEqual([]);
    });

    it('drops a ZIP or HTML tail', async () => {
      const jpeg = await quarters().jpeg().toBuffer();
      const plain = await normalizeImage(jpeg, LIMITS);

      for (const tail of ['PK\x03\x04payload.sh', '<html><script>alert(1)</script></html>']) {
        const image = await normalizeImage(Buffer.concat([jpeg, Buffer.from(tail, 'latin1')]), LIMITS);
        expect(image.jpeg.equals(plain.jpeg)).toBe(true);
        expect(image.jpeg.subarray(-2)).toEqual(Buffer.from([0xff, 0xd9]));
      }
    });
  });

  describe('makes one kind of picture of many', () => {
    it('lays a transparent PNG on white', async () => {
      const png = await sharp({
        create: { width: 40, height: 30, channels: 4, background: { r: 0, g: 0, b: 0, alpha: 0 } },
      })
        .png()
        .toBuffer();

      expectNear(await pixelAt(await normalizeImage(png, LIMITS), 20, 15), WHITE, 1);
    });

    it('mixes half transparency with white', async () => {
      const webp = await sharp({
        create: { width: 40, height: 30, channels: 4, background: { r: 255, g: 0, b: 0, alpha: 0.5 } },
      })
        .webp({ lossless: true })
        .toBuffer();

      expectNear(await pixelAt(await normalizeImage(webp, LIMITS), 20, 15), [255, 128, 128], 6);
    });

    it('takes WebP, lossy and lossless', async () => {
      for (const lossless of [false, true]) {
        const image = await normalizeImage(await quarters().webp({ lossless }).toBuffer(), LIMITS);
        expectNear((await corners(image))[1]!, GREEN, 20);
      }
    });

    it('converts a CMYK JPEG', async () => {
      const cmyk = await flat(64, 64, '#c03020').toColourspace('cmyk').jpeg().toBuffer();
      expect((await sharp(cmyk).metadata()).space).toBe('cmyk');

      const image = await normalizeImage(cmyk, LIMITS);

      expect((await sharp(image.jpeg).metadata()).space).toBe('srgb');
      expectNear(await pixelAt(image, 32, 32), [192, 48, 32], 40);
    });

    it('converts a wide-gamut profile to sRGB before dropping it', async () => {
      const p3 = await flat(64, 64, '#c03020').withIccProfile('p3').png().toBuffer();
      expect([...(await sharp(p3).raw().toBuffer()).subarray(0, 3)]).not.toEqual([
        ...(await sharp(p3, { ignoreIcc: true }).raw().toBuffer()).subarray(0, 3),
      ]);

      expectNear(await pixelAt(await normalizeImage(p3, LIMITS), 32, 32), [192, 48, 32], 4);
    });

    it('takes greyscale, 16 bits and 16 bits with a profile', async () => {
      const grey = await flat(64, 64, '#808080').greyscale().png().toBuffer();
      const deep = await flat(64, 64, '#3070b0').toColourspace('rgb16').png().toBuffer();
      const deepP3 = await flat(64, 64, '#3070b0')
        .toColourspace('rgb16')
        .withIccProfile('p3')
        .png()
        .toBuffer();
      expect((await sharp(deep).metadata()).depth).toBe('ushort');

      expectNear(await pixelAt(await normalizeImage(grey, LIMITS), 32, 32), [128, 128, 128], 4);
      expectNear(await pixelAt(await normalizeImage(deep, LIMITS), 32, 32), [0x30, 0x70, 0xb0], 6);
      expectNear(await pixelAt(await normalizeImage(deepP3, LIMITS), 32, 32), [0x30, 0x70, 0xb0], 6);
    });

    it('takes the first frame of an animated WebP', async () => {
      const frames = Buffer.concat([
        Buffer.alloc(32 * 32 * 3, Buffer.from(RED)),
        Buffer.alloc(32 * 32 * 3, Buffer.from(BLUE)),
      ]);
      const webp = await sharp(frames, { raw: { width: 32, height: 64, channels: 3, pageHeight: 32 } })
        .webp({ loop: 0, delay: [100, 100] })
        .toBuffer();
      expect((await sharp(webp).metadata()).pages).toBe(2);

      const image = await normalizeImage(webp, LIMITS);

      expect([image.width, image.height]).toEqual([32, 32]);
      expectNear(await pixelAt(image, 16, 16), RED, 20);
    });
  });

  describe('bounds what it answers', () => {
    it('squeezes noise of 4000x3000 under 300 KiB and 1600 px', async () => {
      const input = await noise(4000, 3000).jpeg({ quality: 50 }).toBuffer();

      const image = await normalizeImage(input, LIMITS);

      expect(image.bytes).toBeLessThanOrEqual(300 * 1024);
      expect(Math.max(image.width, image.height)).toBeLessThanOrEqual(1600);
      expect(image.width / image.height).toBeCloseTo(4 / 3, 1);
    });

    it('squeezes noise that no quality makes small enough by making it smaller', async () => {
      const image = await normalizeImage(await noise(1600, 1600).jpeg({ quality: 90 }).toBuffer(), LIMITS);

      expect(image.bytes).toBeLessThanOrEqual(300 * 1024);
      expect(image.width).toBeLessThan(1600);
      expect(image.width).toBeGreaterThan(400);
    });

    it('shrinks to 1600 px on the long side and never enlarges', async () => {
      const wide = await normalizeImage(await flat(3200, 1000).jpeg().toBuffer(), LIMITS);
      const tall = await normalizeImage(await flat(100, 16000).png().toBuffer(), LIMITS);
      const small = await normalizeImage(await flat(7, 5).png().toBuffer(), LIMITS);

      expect([wide.width, wide.height]).toEqual([1600, 500]);
      expect([tall.width, tall.height]).toEqual([10, 1600]);
      expect([small.width, small.height]).toEqual([7, 5]);
    });

    it('answers the same bytes for the same input, and describes them', async () => {
      const input = await noise(900, 700).webp().toBuffer();

      const [first, second] = await Promise.all([
        normalizeImage(input, LIMITS),
        normalizeImage(input, LIMITS),
      ]);

      expect(second).toEqual(first);
      expect(first.sha256).toBe(createHash('sha256').update(first.jpeg).digest('hex'));
      expect(first.bytes).toBe(first.jpeg.length);
      const { format, width, height } = await sharp(first.jpeg).metadata();
      expect({ format, width, height }).toEqual({ format: 'jpeg', width: first.width, height: first.height });
    });
  });

  describe('refuses INVALID_IMAGE', () => {
    const svg =
      '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(1)</script></svg>';

    it.each([
      ['nothing', ''],
      ['SVG', svg],
      ['HTML', '<!doctype html><script>alert(1)</script>'],
      ['PDF', '%PDF-1.7\n1 0 obj\n<<>>\nendobj\n%%EOF'],
      ['SVG behind a WebP signature', `RIFF<!--WEBP-->${svg}`],
      ['HTML behind a JPEG signature', '\xff\xd8\xff<html></html>'],
      ['a bare PNG signature', '\x89PNG\r\n\x1a\n'],
    ])('for %s', async (_kind, content) => {
      expect(await refusalOf(Buffer.from(content, 'latin1'))).toBe('INVALID_IMAGE');
    });

    it('for GIF, TIFF and AVIF', async () => {
      for (const format of ['gif', 'tiff', 'avif'] as const) {
        expect(await refusalOf(await flat(16, 16).toFormat(format).toBuffer())).toBe('INVALID_IMAGE');
      }
    });

    it.each(['jpeg', 'png', 'webp'] as const)('for a truncated %s', async (format) => {
      const whole = await noise(200, 150).toFormat(format).toBuffer();
      expect(await refusalOf(whole)).toBe('accepted');

      for (const kept of [20, whole.length >> 2, whole.length >> 1, whole.length - 20]) {
        expect(await refusalOf(whole.subarray(0, kept))).toBe('INVALID_IMAGE');
      }
    });

    it('for a PNG with overwritten data', async () => {
      const damaged = Buffer.from(await noise(200, 150).png().toBuffer());
      damaged.fill(0, damaged.length >> 1, (damaged.length >> 1) + 300);

      expect(await refusalOf(damaged)).toBe('INVALID_IMAGE');
    });

    it('at 41 megapixels, without decoding them', async () => {
      const tooLarge = blackPng(8200, 5000);
      expect(tooLarge.length).toBeLessThan(10_000);
      const toBuffer = jest.spyOn(sharp.prototype, 'toBuffer');

      try {
        expect(await refusalOf(tooLarge)).toBe('INVALID_IMAGE');
        expect(toBuffer).not.toHaveBeenCalled();
        expect(await refusalOf(blackPng(8000, 5000))).toBe('accepted');
        expect(toBuffer).toHaveBeenCalled();
      } finally {
        toBuffer.mockRestore();
      }
    });

    it('at one pixel over the limit, not at the limit', async () => {
      const png = await flat(100, 50).png().toBuffer();

      expect(await refusalOf(png, { ...LIMITS, maxPixels: 5000 })).toBe('accepted');
      expect(await refusalOf(png, { ...LIMITS, maxPixels: 4999 })).toBe('INVALID_IMAGE');
    });

    it('for a pixel bomb whose header promises gigapixels', async () => {
      expect(await refusalOf(blackPng(60_000, 60_000, 10))).toBe('INVALID_IMAGE');
      expect(await refusalOf(blackPng(2 ** 31 - 1, 1, 0))).toBe('INVALID_IMAGE');
      expect(await refusalOf(blackPng(0, 0, 1))).toBe('INVALID_IMAGE');
    });

    it('for random bytes behind each signature, and stays usable', async () => {
      for (const magic of ['\xff\xd8\xff\xe0', '\x89PNG\r\n\x1a\n', 'RIFF\x00\x10\0\0WEBPVP8 ']) {
        const junk = randomFillSync(Buffer.alloc(4096));
        junk.write(magic, 'latin1');
        expect(await refusalOf(junk)).toBe('INVALID_IMAGE');
      }
      expect(await refusalOf(await flat(8, 8).jpeg().toBuffer())).toBe('accepted');
    });
  });

  it('refuses PAYLOAD_TOO_LARGE at one byte over the limit, before looking at the content', async () => {
    const png = await flat(100, 50).png().toBuffer();

    expect(await refusalOf(png, { ...LIMITS, maxBytes: png.length })).toBe('accepted');
    expect(await refusalOf(png, { ...LIMITS, maxBytes: png.length - 1 })).toBe('PAYLOAD_TOO_LARGE');
    expect(await refusalOf(Buffer.alloc(11), { ...LIMITS, maxBytes: 10 })).toBe('PAYLOAD_TOO_LARGE');
  });

  it('refuses SERVICE_UNAVAILABLE beyond 2 running and 32 waiting, and serves the others in full', async () => {
    const whole = await flat(64, 64).jpeg().toBuffer();
    const broken = whole.subarray(0, whole.length - 20);

    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, i) => refusalOf(i % 2 ? broken : whole)),
    );

    expect(answers.slice(0, 34)).toEqual(
      Array.from({ length: 34 }, (_, i) => (i % 2 ? 'INVALID_IMAGE' : 'accepted')),
    );
    expect(answers.slice(34)).toEqual(Array(6).fill('SERVICE_UNAVAILABLE'));
    expect(await refusalOf(whole)).toBe('accepted');
  });
});
