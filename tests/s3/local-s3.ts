import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { CreateBucketCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { readConfig } from '../../src/config';
import { openImageStore } from '../../src/media/open-image-store';
import type { PicturePlace } from '../../src/testing/picture-store-suites';

/** The secret that nothing may log; moto believes any. */
export const SECRET = 'a-secret-key-of-the-tests';
const BUCKET = 'pictures';
const START_MS = 60_000;

export interface LocalS3 {
  client: S3Client;
  bucket: string;
  /** CMBUYER_IMAGE_STORE_URL for a prefix of its own. */
  url(): string;
  /** Ends the server; what it held is gone. */
  stop(): Promise<void>;
  /** Answers no request until it is resumed, as a server does that hangs. */
  pause(): void;
  resume(): void;
}

/**
 * Starts `moto_server`, or what CMBUYER_TEST_MOTO_SERVER names, on a free loopback port, with one bucket, and sets the
 * AWS_* variables of this process for it.
 */
export async function startLocalS3(): Promise<LocalS3> {
  Object.assign(process.env, { AWS_ACCESS_KEY_ID: 'a-key-id', AWS_SECRET_ACCESS_KEY: SECRET });
  const port = await freePort();
  const server = await startMoto(port);
  const endpoint = `http://127.0.0.1:${port}`;
  const client = new S3Client({ endpoint, region: 'us-east-1', forcePathStyle: true });
  await client.send(new CreateBucketCommand({ Bucket: BUCKET }));
  return {
    client,
    bucket: BUCKET,
    url: () =>
      `s3://${BUCKET}/${randomBytes(6).toString('hex')}/pictures?endpoint=${endpoint}&path_style=true&region=us-east-1`,
    async stop() {
      client.destroy();
      await end(server);
    },
    pause: () => server.kill('SIGSTOP'),
    resume: () => server.kill('SIGCONT'),
  };
}

/** An empty place under a prefix of its own. */
export async function openS3Place({ client, bucket, url }: LocalS3): Promise<PicturePlace> {
  const { dataDir, imageStore } = readConfig({ CMBUYER_IMAGE_STORE_URL: url() });
  const prefix = imageStore!.prefix;
  return {
    open: () => openImageStore({ dataDir, imageStore }),
    async names() {
      const { Contents = [] } = await client.send(
        new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix }),
      );
      return Contents.map(({ Key }) => Key!.slice(prefix.length)).sort();
    },
    async overwrite(name, bytes) {
      await client.send(new PutObjectCommand({ Bucket: bucket, Key: `${prefix}${name}`, Body: bytes }));
    },
    close: async () => undefined,
  };
}

async function startMoto(port: number): Promise<ChildProcess> {
  const command = process.env.CMBUYER_TEST_MOTO_SERVER ?? 'moto_server';
  const server = spawn(command, ['-H', '127.0.0.1', '-p', String(port)], { stdio: 'ignore' });
  const failed = new Promise<never>((_resolve, reject) => {
    server.once('error', ({ message }) => reject(new Error(`${message}; ${HINT}`)));
    server.once('exit', (code) => reject(new Error(`${command} ended with ${code}; ${HINT}`)));
  });
  failed.catch(() => undefined);
  try {
    await Promise.race([failed, answers(port)]);
  } catch (error) {
    await end(server);
    throw error;
  }
  return server;
}

const HINT =
  'these tests need moto: pip install "moto[server]", then moto_server in PATH or in CMBUYER_TEST_MOTO_SERVER';

async function answers(port: number): Promise<void> {
  const deadline = Date.now() + START_MS;
  for (;;) {
    const answered = await fetch(`http://127.0.0.1:${port}/moto-api/data.json`).catch(() => undefined);
    if (answered?.ok) return;
    if (Date.now() > deadline) throw new Error(`moto_server did not answer; ${HINT}`);
    await sleep(50);
  }
}

async function end(server: ChildProcess): Promise<void> {
  if (server.pid === undefined || server.exitCode !== null || server.signalCode !== null) return;
  const ended = once(server, 'exit');
  server.kill('SIGKILL');
  await ended;
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}
