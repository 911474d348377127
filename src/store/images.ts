import type { Instant } from '../clock';
import type { Source, Work } from './database';
import { param, params, statement } from './statements';

/** A stored picture: its digest is its name. */
export interface ImageRow {
  sha256: string;
  bytes: number;
  width: number;
  height: number;
  created_at: Instant;
}

const insertImageRow = statement<object>('insert_image', (knex) =>
  knex('images')
    .insert(params(['sha256', 'bytes', 'width', 'height', 'created_at']))
    .onConflict('sha256')
    .ignore(),
);
const selectImage = statement<{ sha256: string }, ImageRow>('select_image', (knex) =>
  knex('images').select('*').where('sha256', param('sha256')),
);

/** Records a picture whose bytes are already stored; the same picture again changes nothing. */
export async function insertImage(work: Work, image: Omit<ImageRow, 'created_at'>): Promise<void> {
  const { sha256, bytes, width, height } = image;
  await insertImageRow.run(work, { sha256, bytes, width, height, created_at: work.now });
}

export function findImage(source: Source, sha256: string): Promise<ImageRow | undefined> {
  return selectImage.first(source, { sha256 });
}
