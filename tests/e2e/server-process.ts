import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type AdminClient,
  createAdminClient,
  createDeviceClient,
  type DeviceClient,
  keyHeaders,
  newIdempotencyKey,
  type TaskDetail,
  type TaskEvent,
} from '@cmbuyer/sdk';
import sharp from 'sharp';

const main = join(__dirname, '../../dist/src/main.js');

export const ADMIN_PASSWORD = 'admin-correct-horse-battery';
export const BUYER_PASSWORD = 'buyer-correct-horse-battery';

type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** The real program on a real SQLite file. It checks every answer of its own against the contract. */
export class ServerProcess {
  private constructor(
    readonly baseUrl: string,
    readonly dataDir: string,
    private readonly child: ChildProcess,
    private readonly written: string[],
  ) {}

  static async start(settings: Record<string, string> = {}): Promise<ServerProcess> {
    const dataDir = await mkdtemp(join(tmpdir(), 'cmbuyer-e2e-'));
    const child = spawn(process.execPath, [main, 'serve'], {
      env: {
        ...process.env,
        CMBUYER_PORT: '0',
        CMBUYER_DATA_DIR: dataDir,
        CMBUYER_ADMIN_USERNAME: 'root',
        CMBUYER_ADMIN_PASSWORD: ADMIN_PASSWORD,
        CMBUYER_CHECK_RESPONSES: 'on',
        ...settings,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const written: string[] = [];
    const baseUrl = await new Promise<string>((resolve, reject) => {
      const read = (chunk: Buffer) => {
        written.push(chunk.toString('utf8'));
        const address = /"address":"([^"]+)"/.exec(written.join(''))?.[1];
        if (address) resolve(address);
      };
      child.stdout.on('data', read);
      child.stderr.on('data', read);
      child.once('error', reject);
      child.once('exit', (code) => reject(new Error(`the server ended with ${code}: ${written.join('')}`)));
    });
    return new ServerProcess(baseUrl, dataDir, child, written);
  }

  /** All that the server wrote to its standard output and error. */
  get output(): string {
    return this.written.join('');
  }

  /** Every file that the server keeps. */
  async files(): Promise<{ name: string; bytes: Buffer }[]> {
    const entries = await readdir(this.dataDir, { recursive: true, withFileTypes: true });
    return Promise.all(
      entries
        .filter((entry) => entry.isFile())
        .map(async (entry) => ({
          name: entry.name,
          bytes: await readFile(join(entry.parentPath, entry.name)),
        })),
    );
  }

  /** Asks the server to stop, and waits until it has. */
  async stop(): Promise<number | null> {
    const { exitCode, signalCode } = this.child;
    const ended = new Promise<number | null>((resolve) => {
      if (exitCode !== null || signalCode !== null) resolve(exitCode);
      else this.child.once('close', resolve);
    });
    this.child.kill('SIGTERM');
    return ended;
  }

  async discard(): Promise<void> {
    await this.stop();
    await rm(this.dataDir, { recursive: true, force: true });
  }
}

export async function signInAdmin(baseUrl: string, fetch?: Fetch): Promise<AdminClient> {
  const admin = createAdminClient({ baseUrl, fetch });
  await admin.loginAdmin({ body: { username: 'root', password: ADMIN_PASSWORD } });
  return admin;
}

export interface Enrolled {
  username: string;
  password: string;
  deviceId: string;
  label: string;
}

/** Creates a buyer and authorises a device for them. */
export async function enrolPhone(admin: AdminClient, number: number): Promise<Enrolled> {
  const phone = {
    username: `buyer.${number}`,
    password: BUYER_PASSWORD,
    deviceId: `pdd-phone-${number}`,
    label: `Phone ${number}`,
  };
  const { username, password, deviceId, label } = phone;
  const user = await admin.createUser({ headers: newKey(), body: { username, password, role: 'BUYER' } });
  await admin.authorizeDevice({
    headers: newKey(),
    body: { device_id: deviceId, label, user_id: user.id },
  });
  return phone;
}

export async function signInPhone(
  baseUrl: string,
  { username, password, deviceId }: Enrolled,
  fetch?: Fetch,
): Promise<DeviceClient> {
  const phone = createDeviceClient({ baseUrl, fetch, sleep: async () => {} });
  await phone.loginDevice({ body: { username, password, device_id: deviceId } });
  return phone;
}

/** Makes the phone ready to claim. */
export function heartbeat(phone: DeviceClient, { deviceId }: Enrolled) {
  return phone.sendDeviceHeartbeat({
    body: {
      device_id: deviceId,
      app_version: '1.0.0',
      android_version: '14',
      accessibility_connected: true,
      pinduoduo_installed: true,
    },
  });
}

/** Writes a wish with a picture and starts its purchase. */
export async function startPurchase(admin: AdminClient, title: string): Promise<TaskDetail> {
  const draft = await admin.createTask({
    headers: newKey(),
    body: { title, quantity: 2, max_unit_price_cents: 2_500, max_total_cents: 4_800 },
  });
  const path = { task_id: draft.id };
  const withPicture = await admin.putReferenceImage({
    path,
    query: { expected_task_version: draft.version },
    body: { file: new Blob([new Uint8Array(await picture())], { type: 'image/png' }) },
  });
  return admin.startPurchase({ path, body: { expected_task_version: withPicture.version } });
}

export function picture(): Promise<Buffer> {
  return sharp({ create: { width: 64, height: 48, channels: 3, background: '#d03030' } })
    .png()
    .toBuffer();
}

export async function eventsOf(admin: AdminClient, taskId: string): Promise<TaskEvent[]> {
  const { items } = await admin.listTaskEvents({ path: { task_id: taskId }, query: { limit: 100 } });
  return items;
}

export function newKey(): { 'Idempotency-Key': string } {
  return keyHeaders({ idempotencyKey: newIdempotencyKey() });
}
