import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type AdminClient, createAdminClient, keyHeaders, newIdempotencyKey } from '@cmbuyer/sdk';
import pino from 'pino';
import { type Config, ConfigError } from './config';
import { drawProduct, type Shape } from './demo-pictures';
import { type RunningServer, startServer } from './serve';
import { runFleet } from './simulator/fleet';

/** For a server on loopback that is thrown away: nothing to protect, easy to type. */
const PASSWORD = 'demo-demo-demo';

const PHONES = [
  { username: 'buyer-lin', deviceId: 'demo-phone-001', label: '林的红米' },
  { username: 'buyer-chen', deviceId: 'demo-phone-002', label: '陈的荣耀' },
  { username: 'buyer-zhou', deviceId: 'demo-phone-003', label: '周的小米' },
];

interface DemoTask {
  title: string;
  keywords: string;
  spec: string;
  shop_name?: string;
  buyer_note?: string;
  quantity: number;
  unitCents: number;
  shape: Shape;
  colour: readonly [number, number, number];
  start: boolean;
}

const TASKS: DemoTask[] = [
  {
    title: '儿童保温杯 350ml',
    keywords: '保温杯 儿童 316',
    spec: '蓝色 350ml',
    quantity: 2,
    unitCents: 3990,
    shape: 'bottle',
    colour: [52, 120, 200],
    start: true,
  },
  {
    title: '抽纸 24 包整箱',
    keywords: '抽纸 整箱',
    spec: '4 层 24 包',
    shop_name: '洁云官方旗舰店',
    quantity: 1,
    unitCents: 4590,
    shape: 'box',
    colour: [120, 178, 120],
    start: true,
  },
  {
    title: '陶瓷马克杯',
    keywords: '马克杯 陶瓷 简约',
    spec: '奶白 400ml',
    quantity: 6,
    unitCents: 1290,
    shape: 'cup',
    colour: [214, 190, 160],
    start: true,
  },
  {
    title: '瑜伽球 65cm',
    keywords: '瑜伽球 加厚',
    spec: '紫色 65cm 送气泵',
    quantity: 1,
    unitCents: 2990,
    shape: 'ball',
    colour: [150, 96, 180],
    start: true,
  },
  {
    title: '厨房洗洁精 1.5kg',
    keywords: '洗洁精 柠檬',
    spec: '1.5kg × 2 瓶',
    buyer_note: '不要加量装以外的赠品',
    quantity: 2,
    unitCents: 1890,
    shape: 'bottle',
    colour: [226, 196, 60],
    start: true,
  },
  {
    title: '收纳箱 特大号',
    keywords: '收纳箱 加厚 带轮',
    spec: '透明 100L',
    quantity: 3,
    unitCents: 3490,
    shape: 'box',
    colour: [150, 170, 190],
    start: true,
  },
  {
    title: '办公室咖啡豆 1kg',
    keywords: '咖啡豆 意式 深烘',
    spec: '1kg 袋装',
    quantity: 2,
    unitCents: 6900,
    shape: 'box',
    colour: [92, 60, 40],
    start: false,
  },
  {
    title: '足球 5 号',
    keywords: '足球 5号 耐磨',
    spec: '成人 5 号',
    quantity: 1,
    unitCents: 5900,
    shape: 'ball',
    colour: [220, 90, 70],
    start: false,
  },
];

/** Starts the demo and returns what stops it: server, phones, and the throwaway data directory. */
export async function runDemo(config: Config): Promise<() => Promise<void>> {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'cmbuyer-demo-'));
  const discard = () => rmSync(dataDir, { recursive: true, force: true });
  try {
    const server = await startSomewhere({ ...config, dataDir, databaseUrl: '', adminPassword: PASSWORD });
    const admin = createAdminClient({ baseUrl: server.address });
    await admin.loginAdmin({ body: { username: config.adminUsername, password: PASSWORD } });
    await enrolPhones(admin);
    introduce(server.address, config.adminUsername);
    const fleet = runFleet({
      baseUrl: server.address,
      phones: PHONES.map((phone) => ({ ...phone, password: PASSWORD })),
      pace: 'watchable',
      seed: 1,
      onEvent: ({ label, text }) =>
        console.log(`${new Date().toLocaleTimeString('zh-CN')}  ${label}  ${text}`),
    });
    await writeTasks(admin);
    return async () => {
      await fleet.stop();
      await server.close();
      discard();
    };
  } catch (error) {
    discard();
    throw error;
  }
}

/** The configured port, or any free one where that is taken: a demo should just run. */
async function startSomewhere(config: Config): Promise<RunningServer> {
  const log = pino({ level: 'warn', base: undefined });
  try {
    return await startServer(config, { log });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return startServer({ ...config, port: 0 }, { log });
  }
}

function introduce(address: string, username: string): void {
  console.log(`
  cmbuyer demo, nothing here is kept

    open      ${address}/admin
    sign in   ${username} / ${PASSWORD}

  Three simulated phones buy what is started. Start the drafts yourself, or write a task. Ctrl-C ends it.
`);
}

async function enrolPhones(admin: AdminClient): Promise<void> {
  for (const { username, deviceId, label } of PHONES) {
    const user = await admin.createUser({
      body: { username, password: PASSWORD, role: 'BUYER', display_name: label },
      headers: key(),
    });
    await admin.authorizeDevice({ body: { device_id: deviceId, label, user_id: user.id }, headers: key() });
  }
}

async function writeTasks(admin: AdminClient): Promise<void> {
  for (const { unitCents, shape, colour, start, ...wish } of TASKS) {
    const task = await admin.createTask({
      body: {
        ...wish,
        max_unit_price_cents: unitCents,
        max_total_cents: unitCents * wish.quantity,
      },
      headers: key(),
    });
    const picture = new Blob([new Uint8Array(await drawProduct(shape, colour))], { type: 'image/jpeg' });
    const pictured = await admin.putReferenceImage({
      path: { task_id: task.id },
      query: { expected_task_version: task.version },
      body: { file: picture },
    });
    if (!start) continue;
    await admin.startPurchase({
      path: { task_id: task.id },
      body: { expected_task_version: pictured.version },
    });
  }
}

function key() {
  return keyHeaders({ idempotencyKey: newIdempotencyKey() });
}
