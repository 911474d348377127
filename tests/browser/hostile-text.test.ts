import type { Page } from 'playwright-core';
import { openPageServer, PASSWORD, type PageServer } from '../../src/pages/testing/page-client';
import { audit } from './audit';
import { TestBrowser } from './browser';
import { Office } from './shop';
import { bringSession, field, send, typeWish } from './staff';

const backwards = '\u202Emoc.elpmaxe';

const hostile: [string, string][] = [
  ['a picture that runs a script', '<img src=x onerror=alert(1)>'],
  ['a drawing that breaks out of an attribute', '"><svg onload=alert(1)>'],
  ['a handler that breaks out of an attribute', "' onfocus=alert(1) autofocus x='"],
  ['the end of a script', '</script ><script>alert(1)</script>'],
  ['a template of braces', '{{7*7}} #{7*7}'],
  ['a template of this server', '<%= 7*7 %>'],
  ['an address that is a script', 'javascript:alert(1)'],
  ['words from right to left', backwards],
  ['one long word', 'W'.repeat(200)],
  ['one long Chinese word', '保'.repeat(200)],
  ['pictograms', '👩‍👩‍👧‍👦🧧❗️🏴‍☠️👍🏽'],
  ['an entity', '&lt;b&gt; &amp; &#60;'],
];

const cut = (text: string, length: number) => [...text].slice(0, length).join('');

/** Words of the page itself that a text from elsewhere turned around. */
function turnedAround(page: Page): Promise<string[]> {
  return page.locator('main').evaluate((main, text) => {
    const document = main.ownerDocument;
    const found: string[] = [];
    const walker = document.createTreeWalker(main, 4);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const words = node.textContent.trimEnd();
      if (words.trim().length < 2 || words.endsWith(text)) continue;
      const place = (at: number) => {
        const range = document.createRange();
        range.setStart(node, at);
        range.setEnd(node, at + 1);
        return range.getBoundingClientRect();
      };
      const [one, other] = [place(words.length - 2), place(words.length - 1)];
      if (one.top === other.top && one.left > other.left) found.push(words);
    }
    return found;
  }, backwards);
}

describe('hostile text', () => {
  let server: PageServer;
  let browser: TestBrowser;
  let page: Page;
  let office: Office;

  beforeAll(async () => {
    [server, browser] = await Promise.all([openPageServer(), TestBrowser.launch()]);
    page = await browser.open(server.origin, { width: 360, height: 800, phone: true });
    await bringSession(page, server);
    office = await Office.enter(server.origin, 'boss', PASSWORD);
  });
  afterAll(async () => {
    await browser.close();
    await server.close();
  });
  afterEach(() => browser.check());

  /** The text stands on the page as it was typed, did nothing, and fits a small phone. */
  async function expectLiteral(path: string, text: string): Promise<void> {
    await page.goto(path);
    const shown = await page.locator('main').evaluate((main) => {
      const fields = [...main.querySelectorAll('input, textarea, option')];
      return [main.textContent, ...fields.map((field) => field.value)].join('\n');
    });
    expect(shown).toContain(text);
    const made = page.locator(
      'main :is(img[onerror], svg[onload], script, [onfocus], a[href^="javascript"])',
    );
    expect(await made.count()).toBe(0);
    expect({ path, faults: await audit(page, { language: 'zh-CN', touch: true }) }).toEqual({
      path,
      faults: [],
    });
    expect(await turnedAround(page)).toEqual([]);
  }

  it.each(hostile)('%s', async (name, text) => {
    const number = hostile.findIndex(([known]) => known === name);
    const wish = {
      title: text,
      keywords: text,
      shop_name: text,
      spec: text,
      buyer_note: text,
      product_url: `https://shop.example/${encodeURI(text)}"'<>`,
      quantity: 999,
      max_unit_price_cents: 100_000_000,
      max_total_cents: 100_000_000,
    };
    const draft = await office.draft(wish);
    const task = await office.started(wish);
    const deviceId = `device-${number}-`.padEnd(64, 'x');
    const version = cut(text, 32);
    const phone = await office.phone(
      { username: `u${number}`.padEnd(64, 'w'), displayName: cut(text, 80), deviceId, label: cut(text, 80) },
      { app_version: version, android_version: version, pinduoduo_version: version },
    );
    await phone.claim();
    await phone.start();
    await phone.step(`S${'_LONG'.repeat(12)}`);
    const { items: users } = await office.admin.listUsers({ query: { limit: 100 } });
    const user = users.find(({ username }) => username.startsWith(`u${number}w`));

    await expectLiteral('/admin/tasks', text);
    await expectLiteral(`/admin/tasks?${new URLSearchParams({ q: text })}`, text);
    await expectLiteral(`/admin/tasks/${task.id}`, text);
    expect(await page.title()).toContain(text);
    await expectLiteral('/admin/devices', version);
    await expectLiteral(`/admin/devices/${deviceId}`, version);
    await expectLiteral('/admin/users', cut(text, 80));
    await expectLiteral(`/admin/users/${user?.id}`, cut(text, 80));
    await expectLiteral(`/admin/tasks/${draft.id}/edit`, text);
    // Nobody may edit it any more: the page that says so shows it, too.
    await expectLiteral(`/admin/tasks/${task.id}/edit`, text);

    await phone.fence(1, 999);
    await phone.report({ outcome: 'ORDER_CREATED', order_no: cut(text, 64) });
    await expectLiteral(`/admin/tasks/${task.id}`, cut(text, 64));

    await page.goto('/admin/tasks/new');
    await typeWish(page, { title: text, quantity: text, unit: text, total: text });
    await field(page, '商品链接').fill(text);
    await field(page, '给采购员的备注').fill(text);
    await send(page, '保存为草稿');
    for (const label of ['标题', '商品链接', '数量', '单价上限', '总价上限', '给采购员的备注']) {
      expect(await field(page, label).inputValue()).toBe(text);
    }
  });
});
