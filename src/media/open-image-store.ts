import path from 'node:path';
import type { Config } from '../config';
import { openDiskShelf } from './disk-shelf';
import { type ImageStore, imageStoreOn } from './image-store';

/** Opens the pictures where the settings say: in the data directory, or in an S3-compatible store. */
export async function openImageStore({
  dataDir,
  imageStore,
}: Pick<Config, 'dataDir' | 'imageStore'>): Promise<ImageStore> {
  if (!imageStore) return imageStoreOn(openDiskShelf(path.join(dataDir, 'images')));
  // The library is large, and most servers never need it.
  const { openS3Shelf } = await import('./s3-shelf.js');
  return imageStoreOn(openS3Shelf(imageStore));
}
