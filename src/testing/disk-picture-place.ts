import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { openImageStore } from '../media/open-image-store';
import type { PicturePlace } from './picture-store-suites';

/** A data directory of its own for pictures, deleted at the end. */
export async function openDiskPlace(): Promise<PicturePlace & { directory: string }> {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'cmbuyer-pictures-'));
  const directory = path.join(dataDir, 'images');
  return {
    directory,
    open: () => openImageStore({ dataDir }),
    names: async () =>
      readdirSync(directory, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => path.relative(directory, path.join(entry.parentPath, entry.name)))
        .sort(),
    overwrite: async (name, bytes) => writeFileSync(path.join(directory, name), bytes),
    close: async () => rmSync(dataDir, { recursive: true, force: true }),
  };
}
