import type { Page } from 'playwright-core';
import { drawProduct } from '../../src/demo-pictures';
import { ADMIN_PASSWORD, BUYER_PASSWORD, ServerProcess } from '../e2e/server-process';
import { TestBrowser } from './browser';
import { ShopPhone } from './shop';
import { field, send, signIn, typeWish } from './staff';

// A real server and a real browser; on a busy machine that takes a while.
jest.setTimeout(180_000);

const buyer = { username: 'lin.wei', password: BUYER_PASSWORD, deviceId: 'redmi-7f3a91c2d0' };
const orderNo = '260302-418273650914527';

/** Where the task's page says that the task stands, and its facts by their names. */
async function standing(page: Page) {
  await page.reload();
  const text = async (selector: string) => (await page.locator(selector).textContent())?.trim();
  const facts = await page.locator('.task-stands .facts > div').evaluateAll((rows): [string, string][] =>
    rows.map((row) => {
      const [name, value] = ['dt', 'dd'].map((part) => row.querySelector(part).textContent.trim());
      return [name, value.replace(/\s+/g, ' ')];
    }),
  );
  return {
    status: await text('.task-title .badge'),
    lead: await text('.now-lead'),
    facts: Object.fromEntries(facts),
  };
}

/** Everything that the office does before a phone can buy, from the first sign-in to the started purchase. */
async function prepare(page: Page, { hasScript }: { hasScript: boolean }): Promise<void> {
  await signIn(page, 'root', ADMIN_PASSWORD);

  await page.getByRole('link', { name: '用户', exact: true }).click();
  await page.getByRole('link', { name: '新建用户' }).click();
  await field(page, '用户名').fill(buyer.username);
  await field(page, '显示名').fill('林伟');
  await field(page, '角色').selectOption({ label: '采购员' });
  await field(page, '密码').fill(buyer.password);
  await send(page, '新建用户');
  await page.getByText('用户已新建。').waitFor();

  await page.getByRole('link', { name: '设备', exact: true }).click();
  await page.getByRole('link', { name: '授权新设备' }).first().click();
  await field(page, '设备编号').fill(buyer.deviceId);
  await field(page, '名称').fill('1 号机');
  await field(page, '采购员').selectOption({ label: '林伟 (lin.wei)' });
  await send(page, '授权这部手机');
  await page.getByText('设备已授权，可以在手机上登录了。').waitFor();
  await page.getByRole('row').filter({ hasText: '1 号机' }).filter({ hasText: '从未连接' }).waitFor();

  await page.getByRole('link', { name: '任务', exact: true }).click();
  await page.getByRole('link', { name: '新建任务' }).first().click();
  await typeWish(page, { title: '陶瓷马克杯', quantity: '6', unit: '12.9', total: '77.40' });
  await field(page, '规格').fill('奶白 400ml');
  await field(page, '选择图片').setInputFiles({
    name: '参考图.jpg',
    mimeType: 'image/jpeg',
    buffer: await drawProduct('cup', [214, 190, 160]),
  });
  if (hasScript) await page.locator('#picture-preview canvas').waitFor();
  await send(page, '保存为草稿');
  await page.getByText('草稿已保存。确认无误后再开始采购。').waitFor();
  await page.getByRole('img', { name: '“陶瓷马克杯”的参考图' }).first().waitFor();
  await page.getByText('720 × 720 像素').waitFor();

  await page.getByRole('link', { name: '编辑草稿' }).click();
  await field(page, '规格').fill('奶白 400ml 带手柄');
  await send(page, '保存修改');
  await page.getByText('修改已保存。').waitFor();
  await page.getByText('奶白 400ml 带手柄').waitFor();
  await page.getByText('版本 2', { exact: true }).waitFor();

  await send(page, '开始采购（只创建待付款订单）');
  await page.getByText('已开始采购，正在等待手机领取。').waitFor();
  expect(await standing(page)).toMatchObject({
    status: '待领取',
    facts: { 领取者: '无人领取', 采购授权: '有效' },
  });
}

describe('a purchase, seen from the office', () => {
  let server: ServerProcess;
  let browser: TestBrowser;

  beforeEach(async () => {
    [server, browser] = await Promise.all([ServerProcess.start(), TestBrowser.launch()]);
  });
  afterEach(async () => {
    await browser.endTest().finally(() => browser.close());
    await server.discard();
  });

  it('is clicked together, watched, and done when the order number is there', async () => {
    const page = await browser.open(server.baseUrl);
    await prepare(page, { hasScript: true });

    const phone = await ShopPhone.signIn(server.baseUrl, buyer);
    await phone.claim();
    expect(await standing(page)).toMatchObject({
      status: '已领取',
      lead: '手机“1 号机”已领取，还没有开始操作。',
      facts: { 领取者: '1 号机 lin.wei', 租约: expect.stringMatching(/^\d+ 分( \d+ 秒)?$/), 领取代次: '1' },
    });

    await phone.start();
    expect(await standing(page)).toMatchObject({
      status: '执行中',
      facts: { 执行尝试: '正在操作', 租约: expect.stringMatching(/^(1 分( \d+ 秒)?|\d+ 秒)$/) },
    });
    await phone.step('COMPARING_OFFERS');
    expect(await standing(page)).toMatchObject({
      status: '执行中',
      facts: { 手机所在步骤: 'COMPARING_OFFERS' },
    });

    await phone.fence(1190, 6);
    expect(await standing(page)).toMatchObject({
      status: '提交中（围栏已关闭）',
      lead: '围栏已关闭，手机“1 号机”正在提交订单。从现在起可能已经有订单。',
      facts: { 提交: '已关闭围栏，等待结果', 采购授权: '已用于提交' },
    });
    await page.getByText('拼多多里是否已经有这个订单。').waitFor();

    await phone.report({ outcome: 'ORDER_CREATED', order_no: orderNo, amount_cents: 7140 });
    expect(await standing(page)).toMatchObject({
      status: '已生成待付款订单',
      facts: { 租约: expect.stringMatching(/^已关闭/), 订单金额: '¥71.40', 执行尝试: '已成单' },
    });
    await page.getByText(`订单号 ${orderNo}。`).waitFor();

    expect(await page.locator('.timeline h3').allTextContents()).toEqual([
      '创建任务',
      '修改草稿',
      '开始采购',
      '手机领取',
      '开始操作',
      '关闭提交围栏',
      '生成待付款订单',
    ]);
    await page.getByRole('link', { name: '返回任务列表' }).click();
    const row = page.getByRole('row').filter({ hasText: '陶瓷马克杯' });
    await row.getByText('已生成待付款订单').waitFor();

    await page.locator('summary').filter({ hasText: 'root' }).click();
    await send(page, '退出登录');
    await page.getByText('已退出登录。').waitFor();
  });

  it('can be prepared with scripts switched off', async () => {
    const page = await browser.open(server.baseUrl, { withoutScript: true });
    await prepare(page, { hasScript: false });
  });
});
