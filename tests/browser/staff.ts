import type { Locator, Page } from 'playwright-core';
import type { PageServer } from '../../src/pages/testing/page-client';

/** What an admin does on the pages, as a person does it: by the words on fields and buttons. */

/** The field that a label belongs to. */
export function field(page: Page, label: string): Locator {
  return page.locator('input, select, textarea').and(page.getByLabel(label));
}

/** Presses a button that sends a form, and waits for the page that comes of it. */
export async function send(page: Page, button: string): Promise<void> {
  await Promise.all([page.waitForEvent('load'), page.getByRole('button', { name: button }).click()]);
}

export async function signIn(page: Page, username: string, password: string): Promise<void> {
  await page.goto('/admin/login');
  await field(page, '用户名').fill(username);
  await field(page, '密码').fill(password);
  await send(page, '登录');
  await page.getByRole('heading', { level: 1, name: '任务' }).waitFor();
}

export interface TypedWish {
  title: string;
  quantity: string;
  unit: string;
  total: string;
}

/** Fills what a task must have. */
export async function typeWish(page: Page, { title, quantity, unit, total }: TypedWish): Promise<void> {
  await field(page, '标题').fill(title);
  await field(page, '数量').fill(quantity);
  await field(page, '单价上限').fill(unit);
  await field(page, '总价上限').fill(total);
}

/** Signs the server's first admin in, without the detour over the form. */
export async function bringSession(page: Page, server: PageServer): Promise<void> {
  const { cookies } = await server.signedIn();
  const url = `${server.origin}/admin`;
  await page.context().addCookies([...cookies].map(([name, value]) => ({ name, value, url })));
}
