import path from 'node:path';
import type { Page } from 'playwright-core';
import { openPageServer, PASSWORD, type PageServer } from '../../src/pages/testing/page-client';
import { audit } from './audit';
import { TestBrowser } from './browser';
import { Office, runAfternoon } from './shop';
import { bringSession, field, send, typeWish } from './staff';

type Afternoon = Awaited<ReturnType<typeof runAfternoon>>;

interface Place {
  server: PageServer;
  page: Page;
  tasks: Afternoon;
}

const at =
  (path: string) =>
  async ({ page }: Place) => {
    await page.goto(path);
  };

const task =
  (name: Exclude<keyof Afternoon, 'chen'>) =>
  async ({ page, tasks }: Place) => {
    await page.goto(`/admin/tasks/${tasks[name]}`);
  };

const pages: Record<string, (place: Place) => Promise<void>> = {
  'the list': at('/admin/tasks'),
  'the list, with the days open': at('/admin/tasks?created_from=2026-03-01'),
  'the list, with wrong filters': at('/admin/tasks?status=GONE&created_to=yesterday'),
  'the list of what waits': at('/admin/tasks?attention=ANY'),
  'the list without a hit': at('/admin/tasks?q=zeppelin'),
  'the bar, unfolded': async ({ page }) => {
    await page.goto('/admin/tasks');
    for (const name of ['菜单', '外观', 'boss']) {
      const fold = page.locator('summary').filter({ hasText: name });
      if (await fold.isVisible()) await fold.click();
    }
  },
  'a draft': task('draft'),
  'a draft without an allowed start': task('needingConfirmation'),
  'a pending task': task('pending'),
  'a claimed task': task('claimed'),
  'a running task': task('running'),
  'a task being submitted': task('submitting'),
  'an uncertain task': task('uncertain'),
  'an ordered task': task('ordered'),
  'a saved task': async ({ page, tasks }) => {
    await page.goto(`/admin/tasks/${tasks.draft}?done=updated`);
  },
  'a draft with a refused picture': async ({ page, tasks }) => {
    await page.goto(`/admin/tasks/${tasks.draft}`);
    await send(page, '更换参考图');
  },
  'a new task': at('/admin/tasks/new'),
  'a new task with faults': async ({ page }) => {
    await page.goto('/admin/tasks/new');
    await field(page, '商品链接').fill('javascript:alert(1)');
    await send(page, '保存为草稿');
  },
  'an edited task': async ({ page, tasks }) => {
    await page.goto(`/admin/tasks/${tasks.draft}/edit`);
  },
  'an edited task with faults': async ({ page, tasks }) => {
    await page.goto(`/admin/tasks/${tasks.draft}/edit`);
    await typeWish(page, { title: '', quantity: '很多', unit: '1e9', total: '999999999' });
    await send(page, '保存修改');
  },
  'a conflict over a draft': async ({ server, page, tasks }) => {
    await page.goto(`/admin/tasks/${tasks.draft}/edit`);
    const office = await Office.enter(server.origin, 'boss', PASSWORD);
    const now = await office.admin.getTask({ path: { task_id: tasks.draft } });
    await office.admin.updateTask({
      path: { task_id: tasks.draft },
      body: {
        expected_task_version: now.version,
        title: '瑜伽球',
        quantity: now.quantity + 1,
        max_unit_price_cents: 5900,
        max_total_cents: 59_000,
      },
    });
    await field(page, '规格').fill('红色 75cm');
    await send(page, '保存修改');
  },
  'a conflict over a started task': async ({ page, tasks }) => {
    await page.goto(`/admin/tasks/${tasks.running}/edit`);
  },
  'the devices': at('/admin/devices'),
  'a device': at('/admin/devices/honor-20d84be617'),
  'a new device': at('/admin/devices/new'),
  'a new device with faults': async ({ page }) => {
    await page.goto('/admin/devices/new');
    await field(page, '设备编号').fill('x');
    await send(page, '授权这部手机');
  },
  'the users': at('/admin/users'),
  'a new user': at('/admin/users/new'),
  'a new user with faults': async ({ page }) => {
    await page.goto('/admin/users/new');
    await send(page, '新建用户');
  },
  'a user': async ({ page }) => {
    await page.goto('/admin/users');
    await page.getByRole('link', { name: '林伟' }).click();
    await page.waitForURL(/users\/[0-9a-f-]{36}/);
  },
  'the password': at('/admin/password'),
  'the password with faults': async ({ page }) => {
    await page.goto('/admin/password');
    await send(page, '修改密码');
  },
  'signing in': async ({ page }) => {
    await page.context().clearCookies();
    await page.goto('/admin/login?note=ended&return_to=/admin/tasks');
  },
  'signing in with faults': async ({ page }) => {
    await page.context().clearCookies();
    await page.goto('/admin/login');
    await send(page, '登录');
  },
  'nothing there': at('/admin/nowhere'),
  'no such task': at('/admin/tasks/019cad6a-0000-7000-8000-000000000000'),
  'a refused form': async ({ page }) => {
    await page.goto('/admin/devices/new');
    await page.locator('main input[name="_csrf"]').evaluate((field) => {
      field.value = 'another';
    });
    await send(page, '授权这部手机');
  },
  'a failure': async ({ server, page }) => {
    await page.goto('/admin/devices/new');
    jest.spyOn(server.database, 'write').mockRejectedValueOnce(new Error('the disk is gone'));
    await field(page, '设备编号').fill('new-phone-0001');
    await field(page, '名称').fill('5 号机');
    await field(page, '采购员').selectOption({ index: 1 });
    await send(page, '授权这部手机');
  },
};

const images = path.join(__dirname, '../../docs/images');
const isUpdatingImages = process.env.CMBUYER_UPDATE_IMAGES === 'on';

const desktop = { width: 1440, height: 900 };
const phones = [
  { width: 390, height: 844 },
  { width: 360, height: 800 },
];

describe('every page, at every width, light and dark', () => {
  let server: PageServer;
  let empty: PageServer;
  let browser: TestBrowser;
  let tasks: Afternoon;
  const windows = new Map<PageServer, { page: Page; sizes: (typeof desktop)[]; touch: boolean }[]>();

  beforeAll(async () => {
    [server, empty, browser] = await Promise.all([openPageServer(), openPageServer(), TestBrowser.launch()]);
    const office = await Office.enter(server.origin, 'boss', PASSWORD);
    tasks = await runAfternoon(office, (seconds) => server.clock.advance(seconds * 1000));
    for (const on of [empty, server]) {
      windows.set(on, [
        { page: await browser.open(on.origin, desktop), sizes: [desktop], touch: false },
        { page: await browser.open(on.origin, { ...phones[0], phone: true }), sizes: phones, touch: true },
      ]);
    }
  });
  afterAll(async () => {
    await browser.close();
    await server.close();
    await empty.close();
  });

  async function look(
    page: Page,
    sizes: { width: number; height: number }[],
    touch: boolean,
    language = 'zh-CN' as const,
  ) {
    const found: string[] = [];
    for (const size of sizes) {
      await page.setViewportSize(size);
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        const faults = await audit(page, { language, touch });
        found.push(...faults.map((fault) => `${size.width} ${colorScheme}: ${fault}`));
      }
    }
    return found;
  }

  /** Every page is drawn once for the wide screen and once for phones, then only resized. */
  async function everywhere(on: PageServer, visit: (place: Place) => Promise<void>) {
    const found: string[] = [];
    for (const { page, sizes, touch } of windows.get(on)!) {
      await bringSession(page, on);
      await visit({ server: on, page, tasks });
      found.push(...(await look(page, sizes, touch)));
    }
    browser.check();
    return found;
  }

  it('the pictures of the documentation', async () => {
    const [wide, narrow] = windows.get(server)!;
    const save = async (page: Page, name: string) => {
      const picture = await page.screenshot(isUpdatingImages ? { path: path.join(images, name) } : {});
      expect(picture.length).toBeGreaterThan(0);
    };
    for (const { page } of [wide!, narrow!]) await bringSession(page, server);

    await wide!.page.goto('/admin/tasks');
    for (const status of ['执行中', '已生成待付款订单']) {
      await wide!.page.getByRole('row').filter({ hasText: status }).waitFor();
    }
    await save(wide!.page, 'task-list.png');
    for (const [{ page }, name] of [
      [wide!, 'task-detail.png'],
      [narrow!, 'task-detail-phone.png'],
    ] as const) {
      await page.goto(`/admin/tasks/${tasks.running}`);
      await page.getByRole('img', { name: '“陶瓷马克杯”的参考图' }).first().waitFor();
      await save(page, name);
    }
    browser.check();
  });

  it.each(Object.entries(pages))('%s', async (name, visit) => {
    if (name === 'a failure') browser.expectStatus(500);
    expect(await everywhere(server, visit)).toEqual([]);
  });

  it.each([
    ['tasks', '/admin/tasks'],
    ['tasks that wait', '/admin/tasks?attention=ANY'],
    ['devices', '/admin/devices'],
    ['devices, when there is no buyer', '/admin/devices/new'],
    ['users but oneself', '/admin/users'],
  ])('no %s', async (_name, path) => {
    expect(await everywhere(empty, at(path))).toEqual([]);
  });
});
