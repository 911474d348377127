import type { Database, Work } from '../store/database';
import { findImage, insertImage } from '../store/images';
import type { ImageStore } from './image-store';
import { type ImageLimits, normalizeImage } from './normalize-image';

/** A reference picture: at most 10 MB and 40 megapixels. */
export const REFERENCE_IMAGE_LIMITS: ImageLimits = { maxBytes: 10 * 1024 * 1024, maxPixels: 40_000_000 };

/**
 * Normalises a picture, stores its bytes, then runs `write`, which calls `record` inside its transaction to get the
 * digest to refer to. Stored before it is referred to; taken away again when the write is refused and nothing else
 * refers to it.
 * @throws Refusal PAYLOAD_TOO_LARGE, INVALID_IMAGE, SERVICE_UNAVAILABLE
 */
export async function keepImage<T>(
  { database, images }: { database: Database; images: ImageStore },
  upload: Buffer,
  write: (record: (work: Work) => Promise<string>) => Promise<T>,
  limits: ImageLimits = REFERENCE_IMAGE_LIMITS,
): Promise<T> {
  const image = await normalizeImage(upload, limits);
  return images.holding(image.sha256, async () => {
    await images.put(image);
    try {
      return await write(async (work) => {
        await insertImage(work, image);
        return image.sha256;
      });
    } catch (error) {
      if (!(await findImage(database.read, image.sha256))) await images.remove(image.sha256);
      throw error;
    }
  });
}
