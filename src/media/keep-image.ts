import { Refusal } from '../contract/errors';
import type { Work } from '../store/database';
import { insertImage } from '../store/images';
import type { ImageStore } from './image-store';
import { type ImageLimits, normalizeImage } from './normalize-image';

/** A reference picture: at most 10 MB and 40 megapixels. */
export const REFERENCE_IMAGE_LIMITS: ImageLimits = { maxBytes: 10 * 1024 * 1024, maxPixels: 40_000_000 };

/**
 * Normalises a picture, stores its bytes, then runs `write`, which calls `record` inside its transaction to get the
 * digest to refer to; a `Refusal` below 500 from `write` must mean that nothing was committed.
 * @throws Refusal PAYLOAD_TOO_LARGE, INVALID_IMAGE, SERVICE_UNAVAILABLE
 */
export async function keepImage<T>(
  { images }: { images: ImageStore },
  upload: Buffer,
  write: (record: (work: Work) => Promise<string>) => Promise<T>,
  limits: ImageLimits = REFERENCE_IMAGE_LIMITS,
): Promise<T> {
  const image = await normalizeImage(upload, limits);
  // A call removes only its own copy, never the shared name: nothing that another process refers to can go. Before it
  // commits its copy is stored; until the shared name holds the picture the copy stays. Readers look at the shared
  // name, at copies, and at the shared name again, which by then holds whatever was moved meanwhile.
  const stored = await images.put(image);
  try {
    const result = await write(async (work) => {
      await insertImage(work, image);
      return image.sha256;
    });
    // Past the commit a failure here is no failure of the call: the copy is found under its own name.
    await stored.keep().catch(() => undefined);
    return result;
  } catch (error) {
    // A connection lost in a commit leaves it open whether it stands; a refusal by a guard does not.
    const isSurelyUnwritten = error instanceof Refusal && error.status < 500;
    await (isSurelyUnwritten ? stored.discard() : stored.keep()).catch(() => undefined);
    throw error;
  }
}
