import {
  CopyObjectCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  NoSuchKey,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import type { S3Location } from '../config';
import { type Shelf, storeUnavailable } from './image-store';

/** One picture is at most 300 KiB: whatever takes longer, retries included, will not come. */
const TIMEOUT_MS = 10_000;
const CONNECT_MS = 2_000;
const ATTEMPTS = 2;

/**
 * Names below the location's prefix; credentials come from the library's usual places, the AWS_* variables first.
 * Opening reaches for nothing, so a store that is down does not keep the server from starting.
 */
export function openS3Shelf(
  { bucket, prefix, region, endpoint, pathStyle }: S3Location,
  { timeoutMs = TIMEOUT_MS }: { timeoutMs?: number } = {},
): Shelf {
  const client = new S3Client({
    region,
    endpoint,
    forcePathStyle: pathStyle,
    maxAttempts: ATTEMPTS,
    // Stores other than AWS may not know the newer checksums; the digest in the name is checked on every read.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: { connectionTimeout: CONNECT_MS, socketTimeout: timeoutMs },
  });
  const at = (name: string) => ({ Bucket: bucket, Key: `${prefix}${name}` });
  const inTime = <T>(work: (limit: { abortSignal: AbortSignal }) => Promise<T>) => reach(timeoutMs, work);

  return {
    write: (name, bytes) =>
      inTime(async (limit) => {
        await client.send(
          new PutObjectCommand({ ...at(name), Body: bytes, ContentType: 'image/jpeg' }),
          limit,
        );
      }),

    read: (name) =>
      inTime(async (limit) => {
        try {
          const { Body } = await client.send(new GetObjectCommand(at(name)), limit);
          return Body && Buffer.from(await Body.transformToByteArray());
        } catch (error) {
          if (error instanceof NoSuchKey) return undefined;
          throw error;
        }
      }),

    // One page of 1,000: any copy will do.
    namesFrom: (beginning) =>
      inTime(async (limit) => {
        const { Bucket, Key } = at(beginning);
        const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket, Prefix: Key }), limit);
        return Contents.map((object) => String(object.Key).slice(prefix.length));
      }),

    move: (from, to) =>
      inTime(async (limit) => {
        // Nothing in it needs encoding: the settings and our own names allow no such character.
        const source = `${bucket}/${prefix}${from}`;
        await client.send(new CopyObjectCommand({ ...at(to), CopySource: source }), limit);
        await client.send(new DeleteObjectCommand(at(from)), limit);
      }),

    remove: (name) =>
      inTime(async (limit) => {
        await client.send(new DeleteObjectCommand(at(name)), limit);
      }),
  };
}

/** All that goes wrong on the way to the store, a refusal by the store included, is an outage to our callers. */
async function reach<T>(
  timeoutMs: number,
  work: (limit: { abortSignal: AbortSignal }) => Promise<T>,
): Promise<T> {
  const abortSignal = AbortSignal.timeout(timeoutMs);
  try {
    // The library listens to the signal in requests only, not while it looks for credentials or reads a body.
    return await Promise.race([work({ abortSignal }), rejectionOn(abortSignal)]);
  } catch (error) {
    throw storeUnavailable(error);
  }
}

function rejectionOn(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
