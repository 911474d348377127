import {
  type AdminClient,
  createAdminClient,
  createDeviceClient,
  type DeviceClient,
  type DeviceHeartbeatRequest,
  keyHeaders,
  newCallKeys,
  newIdempotencyKey,
  type SubmissionResultRequest,
  type TaskDetail,
} from '@cmbuyer/sdk';
import { drawProduct, type Shape } from '../../src/demo-pictures';

/** What the office and the phones did before a test looks at the pages: all of it through the SDK. */

const BUYER_PASSWORD = 'buyer-correct-horse-battery';

const key = () => ({ 'Idempotency-Key': newIdempotencyKey() });

export type Wish = Parameters<AdminClient['createTask']>[0]['body'];

export interface PhoneFacts {
  username: string;
  displayName?: string;
  deviceId: string;
  label: string;
}

export class Office {
  private constructor(
    readonly origin: string,
    readonly admin: AdminClient,
  ) {}

  static async enter(origin: string, username: string, password: string): Promise<Office> {
    const admin = createAdminClient({ baseUrl: origin });
    await admin.loginAdmin({ body: { username, password } });
    return new Office(origin, admin);
  }

  async draft(wish: Wish, picture?: Buffer): Promise<TaskDetail> {
    const task = await this.admin.createTask({ headers: key(), body: wish });
    if (!picture) return task;
    return this.admin.putReferenceImage({
      path: { task_id: task.id },
      query: { expected_task_version: task.version },
      body: { file: new Blob([new Uint8Array(picture)], { type: 'image/jpeg' }) },
    });
  }

  async started(wish: Wish, picture?: Buffer): Promise<TaskDetail> {
    const task = await this.draft(wish, picture);
    return this.admin.startPurchase({
      path: { task_id: task.id },
      body: { expected_task_version: task.version },
    });
  }

  /** A buyer with a phone that is signed in and ready to claim. */
  async phone(
    { username, displayName, deviceId, label }: PhoneFacts,
    versions: Partial<DeviceHeartbeatRequest> = {},
  ): Promise<ShopPhone> {
    const user = await this.admin.createUser({
      headers: key(),
      body: { username, password: BUYER_PASSWORD, role: 'BUYER', display_name: displayName },
    });
    await this.admin.authorizeDevice({
      headers: key(),
      body: { device_id: deviceId, label, user_id: user.id },
    });
    return ShopPhone.signIn(this.origin, { username, password: BUYER_PASSWORD, deviceId }, versions);
  }
}

export class ShopPhone {
  #keys = newCallKeys();
  #taskId = '';
  #generation = 0;
  #version = 0;
  #executionId = '';
  #submissionId?: string;

  private constructor(
    private readonly client: DeviceClient,
    private readonly deviceId: string,
    private readonly versions: Partial<DeviceHeartbeatRequest>,
  ) {}

  static async signIn(
    origin: string,
    { username, password, deviceId }: { username: string; password: string; deviceId: string },
    versions: Partial<DeviceHeartbeatRequest> = {},
  ): Promise<ShopPhone> {
    const client = createDeviceClient({ baseUrl: origin });
    await client.loginDevice({ body: { username, password, device_id: deviceId } });
    const phone = new ShopPhone(client, deviceId, versions);
    await phone.beat();
    return phone;
  }

  /** Tells that the phone itself is well. */
  async beat(): Promise<void> {
    await this.client.sendDeviceHeartbeat({
      body: {
        device_id: this.deviceId,
        app_version: '1.4.2',
        android_version: '14',
        pinduoduo_version: '7.32.0',
        accessibility_connected: true,
        pinduoduo_installed: true,
        ...this.versions,
      },
    });
  }

  /** Claims the next task and answers its id. */
  async claim(): Promise<string> {
    this.#keys = newCallKeys();
    const claimed = await this.client.claimNextTask({
      headers: keyHeaders(this.#keys),
      body: { device_id: this.deviceId },
    });
    if (!claimed) throw new Error('there is no task to claim');
    this.#taskId = claimed.task_id;
    this.#generation = claimed.claim_generation;
    this.#version = claimed.version;
    return claimed.task_id;
  }

  async start(): Promise<void> {
    const running = await this.client.startTask({
      ...this.#call(),
      body: { claim_generation: this.#generation, expected_version: this.#version },
    });
    this.#version = running.version;
    this.#executionId = running.execution_id!;
  }

  async step(step: string): Promise<void> {
    const { path } = this.#call();
    await this.client.sendTaskHeartbeat({
      path,
      headers: keyHeaders({ claimToken: this.#keys.claimToken }),
      body: { ...this.#held(), step },
    });
  }

  async fence(unit_price_cents: number, quantity: number): Promise<void> {
    const total_cents = unit_price_cents * quantity;
    const permit = await this.client.fenceSubmission({
      ...this.#call(),
      body: { ...this.#held(), expected_version: this.#version, unit_price_cents, quantity, total_cents },
    });
    this.#version = permit.version;
    this.#submissionId = permit.submission?.id;
  }

  async report(
    result: Pick<SubmissionResultRequest, 'outcome' | 'order_no' | 'amount_cents'>,
  ): Promise<void> {
    await this.client.reportSubmissionResult({
      ...this.#call(),
      body: { ...this.#held(), submission_id: this.#submissionId, ...result },
    });
  }

  #call() {
    return {
      headers: keyHeaders(newCallKeys(this.#keys.claimToken)),
      path: { task_id: this.#taskId },
    };
  }

  #held() {
    return { execution_id: this.#executionId, claim_generation: this.#generation };
  }
}

export interface Goods {
  wish: Wish;
  picture?: { shape: Shape; colour: readonly [number, number, number] };
}

export const photo = ({ picture }: Goods): Promise<Buffer> | undefined =>
  picture && drawProduct(picture.shape, picture.colour);

/** Things that a team buys. */
export const goods = {
  bottle: {
    wish: {
      title: '儿童保温杯 350ml',
      keywords: '保温杯 儿童 316',
      spec: '蓝色 350ml',
      external_ref: 'REQ-2026-0301',
      quantity: 2,
      max_unit_price_cents: 3990,
      max_total_cents: 7980,
    },
    picture: { shape: 'bottle', colour: [52, 120, 200] },
  },
  tissues: {
    wish: {
      title: '抽纸 24 包整箱',
      keywords: '抽纸 整箱',
      spec: '4 层 24 包',
      shop_name: '洁云官方旗舰店',
      quantity: 1,
      max_unit_price_cents: 4590,
      max_total_cents: 4590,
    },
    picture: { shape: 'box', colour: [120, 178, 120] },
  },
  mugs: {
    wish: {
      title: '陶瓷马克杯',
      keywords: '马克杯 陶瓷 简约',
      spec: '奶白 400ml',
      product_url: 'https://mobile.yangkeduo.com/goods.html?goods_id=598431200461',
      shop_name: '景德窑生活馆',
      buyer_note: '要带手柄的款式，不要礼盒装。\n同店有补差价链接的不要点。',
      quantity: 6,
      max_unit_price_cents: 1290,
      max_total_cents: 7740,
    },
    picture: { shape: 'cup', colour: [214, 190, 160] },
  },
  ball: {
    wish: {
      title: '瑜伽球 65cm 加厚防爆',
      keywords: '瑜伽球 加厚',
      spec: '紫色 65cm 送气泵',
      quantity: 1,
      max_unit_price_cents: 2990,
      max_total_cents: 2990,
    },
    picture: { shape: 'ball', colour: [150, 96, 180] },
  },
  soap: {
    wish: {
      title: '厨房洗洁精 1.5kg',
      keywords: '洗洁精 柠檬',
      spec: '1.5kg × 2 瓶',
      buyer_note: '不要加量装以外的赠品',
      external_ref: 'REQ-2026-0307',
      quantity: 2,
      max_unit_price_cents: 1890,
      max_total_cents: 3780,
    },
    picture: { shape: 'bottle', colour: [226, 196, 60] },
  },
  crates: {
    wish: {
      title: '收纳箱 特大号',
      keywords: '收纳箱 加厚 带轮',
      spec: '透明 100L',
      quantity: 3,
      max_unit_price_cents: 3490,
      max_total_cents: 10470,
    },
    picture: { shape: 'box', colour: [150, 170, 190] },
  },
  coffee: {
    wish: {
      title: '办公室咖啡豆 1kg',
      keywords: '咖啡豆 意式 深烘',
      spec: '1kg 袋装',
      confirmation_required: true,
      quantity: 2,
      max_unit_price_cents: 6900,
      max_total_cents: 13800,
    },
    picture: { shape: 'box', colour: [92, 60, 40] },
  },
  football: {
    wish: {
      title: '足球 5 号',
      keywords: '足球 5号 耐磨',
      spec: '成人 5 号',
      quantity: 1,
      max_unit_price_cents: 5900,
      max_total_cents: 5900,
    },
  },
} as const satisfies Record<string, Goods>;

const staff = [
  { username: 'lin.wei', displayName: '林伟', deviceId: 'redmi-7f3a91c2d0', label: '1 号机 红米' },
  { username: 'chen.yu', displayName: '陈宇', deviceId: 'honor-20d84be617', label: '2 号机 荣耀' },
  { username: 'zhou.min', displayName: '周敏', deviceId: 'xiaomi-b61c0f92ae', label: '3 号机 小米' },
  { username: 'wu.jie', displayName: '吴杰', deviceId: 'oppo-94e7d3a058', label: '4 号机 OPPO' },
] as const;

/**
 * An afternoon at the office: tasks in every state that the phones can bring about, oldest first.
 * @param pass lets some seconds go by, so that not everything happens at once
 */
export async function runAfternoon(office: Office, pass: (seconds: number) => void) {
  const phones: ShopPhone[] = [];
  for (const facts of staff) phones.push(await office.phone(facts));
  const [lin, chen, zhou, wu] = phones as [ShopPhone, ShopPhone, ShopPhone, ShopPhone];
  const start = async (item: Goods) => (await office.started(item.wish, await photo(item))).id;
  const beat = async () => {
    for (const phone of phones) await phone.beat();
  };

  const ordered = await start(goods.tissues);
  pass(40);
  await lin.claim();
  pass(6);
  await lin.start();
  pass(25);
  await lin.step('COMPARING_OFFERS');
  pass(31);
  await lin.fence(4390, 1);
  pass(9);
  await lin.report({ outcome: 'ORDER_CREATED', order_no: '260302-418273650914527', amount_cents: 4390 });

  pass(1_140);
  await beat();
  const uncertain = await start(goods.football);
  pass(30);
  await wu.claim();
  await wu.start();
  pass(45);
  await wu.fence(5200, 1);
  pass(20);
  await wu.report({ outcome: 'UNKNOWN' });

  pass(760);
  await beat();
  const submitting = await start(goods.soap);
  pass(10);
  await zhou.claim();
  await zhou.start();
  pass(30);
  await zhou.step('CHECKING_PRICE');

  const running = await start(goods.mugs);
  pass(12);
  await chen.claim();
  pass(3);
  await chen.start();
  pass(20);
  await chen.step('COMPARING_OFFERS');
  await zhou.fence(1790, 2);

  const claimed = await start(goods.bottle);
  pass(8);
  await beat();
  await lin.claim();
  const pending = await start(goods.crates);
  pass(6);
  const needingConfirmation = (await office.draft(goods.coffee.wish, await photo(goods.coffee))).id;
  const draft = (await office.draft(goods.ball.wish, await photo(goods.ball))).id;
  pass(4);
  return { ordered, uncertain, submitting, running, claimed, pending, needingConfirmation, draft, chen };
}
