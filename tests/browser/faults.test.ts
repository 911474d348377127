import type { FileChooser, Locator, Page } from 'playwright-core';
import { drawProduct } from '../../src/demo-pictures';
import { openPageServer, PASSWORD, type PageServer } from '../../src/pages/testing/page-client';
import { TestBrowser } from './browser';
import { Office } from './shop';
import { bringSession, field, send, signIn, typeWish } from './staff';

const mug = { title: '陶瓷马克杯', quantity: '6', unit: '12.90', total: '77.40' };
const wish = { title: '陶瓷马克杯', quantity: 6, max_unit_price_cents: 1290, max_total_cents: 7740 };

const isFocused = (place: Locator) =>
  place.evaluate((element) => element.ownerDocument.activeElement === element);

let server: PageServer;
let browser: TestBrowser;

beforeAll(async () => {
  [server, browser] = await Promise.all([openPageServer(), TestBrowser.launch()]);
});
afterAll(async () => {
  await browser.close();
  await server.close();
});
afterEach(() => browser.endTest());

async function openSignedIn(): Promise<Page> {
  const page = await browser.open(server.origin);
  await bringSession(page, server);
  return page;
}

/** The summary has the focus and is in sight, and leads to the fields, each of which says what is wrong with it. */
async function expectFaults(page: Page, faults: Record<string, string>): Promise<void> {
  const summary = page.getByRole('alert');
  expect(await isFocused(summary)).toBe(true);
  const box = await summary.boundingBox();
  expect(box!.y).toBeGreaterThanOrEqual(0);
  expect(box!.y + box!.height).toBeLessThanOrEqual(900);
  expect(await summary.getByRole('link').allTextContents()).toEqual(Object.values(faults));
  for (const [label, text] of Object.entries(faults)) {
    const wrong = field(page, label);
    expect(await wrong.getAttribute('aria-invalid')).toBe('true');
    const notes = (await wrong.getAttribute('aria-describedby')) ?? '';
    const told = await page
      .locator(
        notes
          .split(' ')
          .map((id) => `#${id}`)
          .join(', '),
      )
      .allTextContents();
    expect(told.map((note) => note.trim())).toContain(text);
    await summary.getByRole('link', { name: text, exact: true }).click();
    expect(await isFocused(wrong)).toBe(true);
  }
}

describe('a form with faults', () => {
  it('names them at the top and beside the fields, and keeps everything typed', async () => {
    const page = await openSignedIn();
    await page.goto('/admin/tasks/new');
    const typed: Record<string, string> = {
      标题: '',
      商品链接: 'ftp://example.com/mug',
      店铺名称: '景德窑生活馆',
      搜索关键词: '马克杯 陶瓷',
      规格: '奶白 400ml',
      数量: '半打',
      单价上限: '12.999',
      总价上限: '0',
      给采购员的备注: '第一行\n  第二行',
      外部编号: 'REQ 1',
    };
    for (const [label, text] of Object.entries(typed)) await field(page, label).fill(text);
    await field(page, '下单前必须由人确认商品和价格').check();
    await send(page, '保存为草稿');

    await page.getByRole('heading', { name: '有 6 处需要修改' }).waitFor();
    await expectFaults(page, {
      标题: '请填写标题。',
      商品链接: '商品链接要以 http:// 或 https:// 开头。',
      数量: '数量要填整数，例如 2。',
      单价上限: '单价上限（元）要填金额，最多两位小数，例如 12.34。',
      总价上限: '总价上限（元）要在 0.01 到 1000000.00 之间。',
      外部编号: '外部编号里有不能用的字符。',
    });
    for (const [label, text] of Object.entries(typed)) {
      expect([label, await field(page, label).inputValue()]).toEqual([label, text]);
    }
    expect(await field(page, '下单前必须由人确认商品和价格').isChecked()).toBe(true);

    await typeWish(page, mug);
    await field(page, '商品链接').fill('https://example.com/mug');
    await field(page, '外部编号').fill('REQ-1');
    await send(page, '保存为草稿');
    await page.getByText('草稿已保存。').waitFor();
    await page.getByText('必须由人确认', { exact: true }).waitFor();
  });

  it('keeps what was typed when the picture is refused', async () => {
    const page = await openSignedIn();
    await page.goto('/admin/tasks/new');
    await typeWish(page, mug);
    const choose = (buffer: Buffer) =>
      field(page, '选择图片').setInputFiles({ name: '图片.jpg', mimeType: 'image/jpeg', buffer });
    await choose(Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'));
    await send(page, '保存为草稿');

    await expectFaults(page, { 选择图片: '这个文件不是可用的图片，或像素太大（上限 4000 万）。' });
    await page.getByText('如选过图片，请再选一次；浏览器不会保留文件。').waitFor();
    expect(await field(page, '标题').inputValue()).toBe(mug.title);
    expect(await field(page, '总价上限').inputValue()).toBe(mug.total);

    await choose(await drawProduct('cup', [214, 190, 160]));
    await send(page, '保存为草稿');
    await page.getByText('720 × 720 像素').waitFor();
  });

  it('makes one task, however often its button is pressed', async () => {
    const page = await openSignedIn();
    const title = '按了两次的马克杯';
    await page.goto('/admin/tasks/new');
    await typeWish(page, { ...mug, title });
    await page.getByRole('button', { name: '保存为草稿' }).dblclick();
    await page.getByText('草稿已保存。').waitFor();
    await page.goBack();
    await page.getByRole('button', { name: '保存为草稿' }).waitFor();
    await page.goto('/admin/tasks');
    expect(await page.getByRole('link', { name: title }).count()).toBe(1);
  });
});

describe('two windows on one draft', () => {
  it('the slower one sees what changed, and a fresh form with what it had typed', async () => {
    const office = await Office.enter(server.origin, 'boss', PASSWORD);
    const { id } = await office.draft(wish);
    const fast = await openSignedIn();
    const slow = await openSignedIn();
    for (const page of [fast, slow]) await page.goto(`/admin/tasks/${id}/edit`);

    await field(fast, '数量').fill('5');
    await field(fast, '规格').fill('奶白');
    await send(fast, '保存修改');
    await field(slow, '规格').fill('天青');
    await send(slow, '保存修改');

    await slow.getByRole('heading', { level: 1, name: '情况已经变了' }).waitFor();
    await slow.getByText('你看到的是版本 1，现在是版本 2。').waitFor();
    expect(await slow.locator('.timeline h3').allTextContents()).toEqual(['修改草稿']);
    const rows = slow.locator('.changes tbody tr');
    expect(await rows.filter({ hasText: '数量' }).getByRole('cell').allTextContents()).toEqual(['6', '5']);
    expect(await rows.filter({ hasText: '规格' }).getByRole('cell').allTextContents()).toEqual([
      '天青',
      '奶白',
    ]);
    expect(await rows.count()).toBe(2);
    expect(await field(slow, '规格').inputValue()).toBe('天青');

    await send(slow, '保存修改');
    await slow.getByText('修改已保存。').waitFor();
    await slow.getByText('版本 3', { exact: true }).first().waitFor();
    await slow.getByText('天青').waitFor();
  });

  it('the slower one learns that the purchase was started, and how the task stands', async () => {
    const office = await Office.enter(server.origin, 'boss', PASSWORD);
    const { id } = await office.draft(wish);
    const fast = await openSignedIn();
    const slow = await openSignedIn();
    await fast.goto(`/admin/tasks/${id}`);
    await slow.goto(`/admin/tasks/${id}/edit`);

    await send(fast, '开始采购（只创建待付款订单）');
    await field(slow, '数量').fill('60');
    await send(slow, '保存修改');

    await slow.getByText('你看着这个页面时，任务已被改动。没有做任何改动。').waitFor();
    expect(await slow.locator('.timeline h3').allTextContents()).toEqual(['开始采购']);
    await slow.getByText('任务在等手机领取，第一部准备好的手机会拿到它。').waitFor();
    expect(await slow.getByRole('button', { name: '保存修改' }).count()).toBe(0);
  });
});

describe('signing in', () => {
  it('says that the password is wrong, keeps the name, and after too many asks to wait', async () => {
    const page = await browser.open(server.origin);
    await page.goto('/admin/login');
    const attempt = async (password: string) => {
      await field(page, '用户名').fill('boss');
      await field(page, '密码').fill(password);
      await send(page, '登录');
    };
    await attempt('wrong wrong wrong');
    await expectFaults(page, { 用户名: '用户名或密码不对，或这个账户不能在这里登录。' });
    expect(await field(page, '用户名').inputValue()).toBe('boss');
    expect(await field(page, '密码').inputValue()).toBe('');

    for (let guess = 1; guess < 10; guess++) await attempt(`wrong wrong ${guess}`);
    await attempt(PASSWORD);
    await page.getByText('为了安全，请稍等再试。请在 900 秒后再试。').waitFor();
    expect(await field(page, '用户名').inputValue()).toBe('boss');

    server.clock.advance(900_000);
    await attempt(PASSWORD);
    await page.getByRole('heading', { level: 1, name: '任务' }).waitFor();
  });

  it('comes back to the page that an expired session was kept from', async () => {
    const page = await browser.open(server.origin);
    await signIn(page, 'boss', PASSWORD);
    server.clock.advance(12 * 3_600_000);
    await page.getByRole('link', { name: '设备', exact: true }).click();
    await page.getByText('登录已过期，请重新登录。').waitFor();
    await field(page, '用户名').fill('boss');
    await field(page, '密码').fill(PASSWORD);
    await send(page, '登录');
    await page.getByRole('heading', { level: 1, name: '设备' }).waitFor();
  });

  it('is asked for again where another window signed out; a form sent meanwhile does nothing', async () => {
    const page = await openSignedIn();
    const other = await page.context().newPage();
    await page.goto('/admin/users/new');
    await field(page, '用户名').fill('lin.wei');
    await field(page, '角色').selectOption('BUYER');
    await field(page, '密码').fill('correct horse battery');

    await other.goto('/admin/tasks?q=杯');
    await other.locator('summary').filter({ hasText: 'boss' }).click();
    await send(other, '退出登录');
    await other.getByText('已退出登录。').waitFor();

    await send(page, '新建用户');
    await page.getByRole('heading', { level: 1, name: '没有执行' }).waitFor();
    await page.getByText('登录已失效，所以没有做任何改动。请重新登录后再做一次。').waitFor();
    await page.getByRole('link', { name: '登录' }).click();
    await field(page, '用户名').fill('boss');
    await field(page, '密码').fill(PASSWORD);
    await send(page, '登录');
    await page.goto('/admin/users');
    expect(await page.getByText('lin.wei').count()).toBe(0);
  });
});

describe('language and theme', () => {
  it('change at once on the same page, and are remembered', async () => {
    const page = await openSignedIn();
    const ground = () =>
      page
        .locator('body')
        .evaluate((body) => body.ownerDocument.defaultView.getComputedStyle(body).backgroundColor);
    await page.goto('/admin/tasks?q=mug');
    const light = await ground();

    await send(page, 'English');
    await page.getByRole('heading', { level: 1, name: 'Tasks' }).waitFor();
    expect(await page.locator('html').getAttribute('lang')).toBe('en');
    expect(page.url()).toBe(`${server.origin}/admin/tasks?q=mug`);

    await page.locator('summary').filter({ hasText: 'Appearance' }).click();
    await send(page, 'Dark');
    expect(page.url()).toBe(`${server.origin}/admin/tasks?q=mug`);
    const dark = await ground();
    expect(dark).not.toBe(light);

    const other = await page.context().newPage();
    await other.goto('/admin/devices');
    await other.getByRole('heading', { level: 1, name: 'Devices' }).waitFor();
    expect(await other.locator('html').getAttribute('data-theme')).toBe('dark');

    await page.locator('summary').filter({ hasText: 'boss' }).click();
    await send(page, 'Sign out');
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    expect(await ground()).toBe(dark);

    await send(page, '中文');
    await page.getByRole('button', { name: '登录' }).waitFor();
    expect(await page.locator('html').getAttribute('lang')).toBe('zh-CN');
  });
});

describe('the keyboard alone', () => {
  /** Presses Tab until the place has the focus, which must be seen. */
  async function tabTo(page: Page, place: Locator): Promise<void> {
    for (let pressed = 0; pressed < 80; pressed++) {
      await page.keyboard.press('Tab');
      if (!(await isFocused(place))) continue;
      const ring = await place.evaluate((element) => {
        const { outlineStyle, outlineWidth } = element.ownerDocument.defaultView.getComputedStyle(element);
        return `${outlineStyle} ${outlineWidth}`;
      });
      expect(ring).toBe('solid 3px');
      return;
    }
    throw new Error('the Tab key does not lead there');
  }

  it('leads from signing in to a started purchase', async () => {
    const page = await browser.open(server.origin);
    // Asked for early: the browser must know of it before the key that opens the chooser.
    const chosen = new Promise<FileChooser>((resolve) => page.once('filechooser', resolve));
    const type = async (label: string, text: string) => {
      await tabTo(page, field(page, label));
      await page.keyboard.insertText(text);
    };
    const press = async (place: Locator, key = 'Enter') => {
      await tabTo(page, place);
      await Promise.all([page.waitForEvent('load'), page.keyboard.press(key)]);
    };
    const link = (name: string) => page.getByRole('link', { name, exact: true }).first();
    const button = (name: string) => page.getByRole('button', { name, exact: true });

    await page.goto('/admin/login');
    await page.keyboard.press('Tab');
    expect(await isFocused(link('跳到正文'))).toBe(true);
    await page.keyboard.press('Enter');
    await type('用户名', 'boss');
    await type('密码', PASSWORD);
    await Promise.all([page.waitForEvent('load'), page.keyboard.press('Enter')]);

    await press(link('用户'));
    await press(link('新建用户'));
    await type('用户名', 'chen.yu');
    await tabTo(page, field(page, '角色'));
    await page.keyboard.press('ArrowDown');
    await type('密码', 'correct horse battery');
    await press(button('新建用户'));

    await press(link('设备'));
    await press(link('授权新设备'));
    await type('设备编号', 'redmi-7f3a91c2d0');
    await type('名称', '1 号机');
    await tabTo(page, field(page, '采购员'));
    await page.keyboard.press('ArrowDown');
    await press(button('授权这部手机'), 'Space');
    await page.getByText('设备已授权，可以在手机上登录了。').waitFor();

    await press(link('任务'));
    await press(link('新建任务'));
    await type('标题', mug.title);
    await type('数量', mug.quantity);
    await type('单价上限', mug.unit);
    await type('总价上限', mug.total);
    await tabTo(page, field(page, '下单前必须由人确认商品和价格'));
    await page.keyboard.press('Space');
    await tabTo(page, field(page, '选择图片'));
    await page.keyboard.press('Enter');
    await (await chosen).setFiles({
      name: 'mug.png',
      mimeType: 'image/jpeg',
      buffer: await drawProduct('cup', [9, 9, 9]),
    });
    await page.locator('#picture-preview canvas').waitFor();
    await press(button('保存为草稿'));
    await press(button('开始采购（只创建待付款订单）'));
    await page.getByText('已开始采购，正在等待手机领取。').waitFor();
    await page.getByText('必须由人确认', { exact: true }).waitFor();
  });

  it('opens and closes the menus, and stays where it was', async () => {
    const page = await openSignedIn();
    await page.goto('/admin/tasks');
    const account = page.locator('summary').filter({ hasText: 'boss' });
    await tabTo(page, account);
    await page.keyboard.press('Enter');
    const item = page.getByRole('link', { name: '修改密码' });
    await item.waitFor();
    await tabTo(page, item);
    await page.keyboard.press('Escape');
    await item.waitFor({ state: 'hidden' });
    expect(await isFocused(account)).toBe(true);
  });
});
