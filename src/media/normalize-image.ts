import { createHash } from 'node:crypto';
import sharp from 'sharp';
import { Refusal } from '../contract/errors';

export type ImageLimits = { maxBytes: number; maxPixels: number };

export type NormalizedImage = {
  jpeg: Buffer;
  /** SHA-256 of `jpeg`, 64 lowercase hex digits. */
  sha256: string;
  /** Length of `jpeg`. */
  bytes: number;
  /** Pixels, as seen: after the orientation tag was applied. */
  width: number;
  height: number;
};

type Format = 'jpeg' | 'png' | 'webp';
type Pixels = { data: Buffer; width: number; height: number; channels: sharp.Channels };

// A phone screen's height, and enough to read a price in a screenshot.
const MAX_SIDE = 1600;
// Keeps a task page with a dozen pictures under 4 MB; devices fetch these over mobile networks.
const MAX_JPEG_BYTES = 300 * 1024;
// Below 50, block artefacts cost more legibility than a smaller picture does.
const QUALITIES = [82, 74, 66, 58, 50];
const SHRINK_STEP = 0.8;

// libuv has four threads; two stay free for files and password hashes. Decoding 40 megapixels can hold
// 320 MB (16 bits, interlaced), so two bound the memory as well.
const MAX_RUNNING = 2;
// Each waiting caller holds its upload: 32 of 10 MB at most.
const MAX_WAITING = 32;
// A full queue of ordinary photos is worked off in about this time.
const RETRY_AFTER_SECONDS = 5;

// One thread for each picture, no pixels kept between pictures.
sharp.concurrency(1);
sharp.cache(false);
// Process-wide: nobody's SVG, PDF or video frame is ever parsed here, whatever reaches the library.
sharp.block({ operation: ['VipsForeignLoad'] });
sharp.unblock({ operation: ['VipsForeignLoadJpeg', 'VipsForeignLoadPng', 'VipsForeignLoadWebp'] });

/**
 * Turns an uploaded JPEG, PNG or WebP, judged by its content alone, into a fresh upright sRGB JPEG without
 * metadata, at most 1600 px on its long side and 300 KiB; of several frames or pages the first is taken.
 * Refuses `PAYLOAD_TOO_LARGE` over `maxBytes`; `INVALID_IMAGE` when it is of another kind, over `maxPixels`
 * (read from the header) or damaged; `SERVICE_UNAVAILABLE` when too many pictures wait already.
 */
export async function normalizeImage(input: Buffer, limits: ImageLimits): Promise<NormalizedImage> {
  if (input.length > limits.maxBytes) throw new Refusal('PAYLOAD_TOO_LARGE');
  const format = sniffFormat(input);
  if (format === undefined) throw new Refusal('INVALID_IMAGE');

  return inDecodingSlot(async () => {
    const pixels = await decode(input, format, limits.maxPixels);

    return encodeWithinBudget(pixels);
  });
}

function sniffFormat(input: Buffer): Format | undefined {
  const magic = input.toString('latin1', 0, 12);
  if (magic.startsWith('\xff\xd8\xff')) return 'jpeg';
  if (magic.startsWith('\x89PNG\r\n\x1a\n')) return 'png';
  if (magic.startsWith('RIFF') && magic.endsWith('WEBP')) return 'webp';
  return undefined;
}

async function decode(input: Buffer, format: Format, maxPixels: number): Promise<Pixels> {
  // 'error' refuses truncated data; 'warning' would also refuse whole photos of some phones, whose
  // JPEG headers carry a harmless fault.
  const options: sharp.SharpOptions = { failOn: 'error', limitInputPixels: maxPixels, autoOrient: true };

  try {
    const header = await sharp(input, options).metadata();
    if (header.format !== format) throw new Error(`Begins like ${format}, is ${header.format}`);
    if (header.width * header.height > maxPixels) throw new Error(`${header.width}x${header.height} pixels`);

    const picture = sharp(input, options)
      .flatten({ background: '#ffffff' })
      .resize({ width: MAX_SIDE, height: MAX_SIDE, fit: 'inside', withoutEnlargement: true })
      .toColourspace('srgb');
    // sharp leaves 16-bit pictures with a profile in P3; without one this would distort them.
    if (header.hasProfile && header.space === 'rgb16') picture.withIccProfile('srgb', { attach: false });

    // Raw pixels carry no metadata, so nothing of the upload but its pixels can reach the JPEG.
    const { data, info } = await picture.raw({ depth: 'uchar' }).toBuffer({ resolveWithObject: true });
    return { data, width: info.width, height: info.height, channels: info.channels };
  } catch (cause) {
    // The library tells damage, an unknown kind and its own pixel limit apart only by message text.
    throw new Refusal('INVALID_IMAGE', { cause });
  }
}

async function encodeWithinBudget(pixels: Pixels): Promise<NormalizedImage> {
  let side = Math.max(pixels.width, pixels.height);
  for (;;) {
    for (const quality of QUALITIES) {
      const { data, info } = await fromPixels(pixels)
        .resize({ width: side, height: side, fit: 'inside' })
        .jpeg({ quality })
        .toBuffer({ resolveWithObject: true });
      if (data.length <= MAX_JPEG_BYTES) {
        const sha256 = createHash('sha256').update(data).digest('hex');
        return { jpeg: data, sha256, bytes: data.length, width: info.width, height: info.height };
      }
    }
    side = Math.floor(side * SHRINK_STEP);
  }
}

function fromPixels({ data, width, height, channels }: Pixels): sharp.Sharp {
  return sharp(data, { raw: { width, height, channels } });
}

let running = 0;
const waiting: (() => void)[] = [];

/** Runs `work` when one of the slots is free, first come first served. */
async function inDecodingSlot<T>(work: () => Promise<T>): Promise<T> {
  if (running < MAX_RUNNING) {
    running += 1;
  } else {
    if (waiting.length >= MAX_WAITING) {
      throw new Refusal('SERVICE_UNAVAILABLE', { retryAfterSeconds: RETRY_AFTER_SECONDS });
    }
    await new Promise<void>((resolve) => waiting.push(resolve));
  }

  try {
    return await work();
  } finally {
    // The slot is handed over, not freed, so that a newcomer cannot slip in between.
    const next = waiting.shift();
    if (next) next();
    else running -= 1;
  }
}
