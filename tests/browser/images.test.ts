import path from 'node:path';
import { openPageServer, PASSWORD, type PageServer } from '../../src/pages/testing/page-client';
import { TestBrowser } from './browser';
import { Office, runAfternoon } from './shop';
import { signIn } from './staff';

const folder = path.join(__dirname, '../../docs/images');
const isUpdating = process.env.CMBUYER_UPDATE_IMAGES === 'on';

describe('the pictures in the documentation', () => {
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

  it('show an afternoon at the office', async () => {
    const office = await Office.enter(server.origin, 'boss', PASSWORD);
    const { running } = await runAfternoon(office, (seconds) => server.clock.advance(seconds * 1000));
    const page = await browser.open(server.origin);
    await signIn(page, 'boss', PASSWORD);
    const save = (name: string) => page.screenshot(isUpdating ? { path: path.join(folder, name) } : {});

    await page.getByRole('row').filter({ hasText: '执行中' }).waitFor();
    await page.getByRole('row').filter({ hasText: '已生成待付款订单' }).waitFor();
    await save('task-list.png');

    await page.goto(`/admin/tasks/${running}`);
    await page.getByRole('img').first().waitFor();
    await save('task-detail.png');

    const phone = await browser.open(server.origin, { width: 390, height: 844, phone: true });
    await signIn(phone, 'boss', PASSWORD);
    await phone.goto(`/admin/tasks/${running}`);
    await phone.getByRole('img').first().waitFor();
    await phone.screenshot(isUpdating ? { path: path.join(folder, 'task-detail-phone.png') } : {});
  });
});
