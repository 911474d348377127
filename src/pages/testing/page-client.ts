import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import pino from 'pino';
import { buildApp } from '../../app';
import { readConfig } from '../../config';
import type { UserRow } from '../../store/users';
import { openTestDatabase, type TestDatabase } from '../../testing/open-test-database';
import { makeUser, PASSWORD, signInAdmin } from '../../testing/people-and-devices';

/** A running server with one admin, for tests that talk real HTTP to the pages. */
export interface PageServer extends TestDatabase {
  origin: string;
  admin: UserRow;
  /** A browser without cookies. */
  visitor(): PageClient;
  /** A browser with a live session of the admin, or of the user given. */
  signedIn(user?: UserRow): Promise<PageClient>;
}

export async function openPageServer(): Promise<PageServer> {
  const facts = await openTestDatabase();
  const admin = await makeUser(facts.database, 'boss', 'ADMIN');
  const config = { ...readConfig({ CMBUYER_LOG_LEVEL: 'silent' }), dataDir: facts.dataDir };
  const app = await buildApp({
    database: facts.database,
    config,
    log: pino({ level: process.env.PAGE_TEST_LOG ?? 'silent' }),
    checkResponses: true,
  });
  const server = createServer(app);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    ...facts,
    origin,
    admin,
    visitor: () => new PageClient(origin),
    async signedIn(user = admin) {
      const client = new PageClient(origin);
      client.cookies.set('cmbuyer_session', (await signInAdmin(facts.database, user)).raw);
      return client;
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await facts.close();
    },
  };
}

export { PASSWORD };

export interface PageAnswer {
  status: number;
  html: string;
  headers: Headers;
  /** Where a redirect leads. */
  location?: string;
}

type Fields = Record<string, string | string[]>;
export type Part = [name: string, value: string | { bytes: Uint8Array; filename: string; type?: string }];

/** As much of a browser as the pages need: cookies, forms, and redirects that the test follows itself. */
export class PageClient {
  readonly cookies = new Map<string, string>();
  constructor(readonly origin: string) {}

  get(path: string, headers: Record<string, string> = {}): Promise<PageAnswer> {
    return this.send(path, { headers });
  }

  /** The CSRF token that the pages give this browser. */
  async token(): Promise<string> {
    const { html } = await this.get('/admin/password');
    return valueIn(html, '_csrf');
  }

  post(path: string, fields: Fields, headers: Record<string, string> = {}): Promise<PageAnswer> {
    const body = new URLSearchParams();
    for (const [name, values] of Object.entries(fields)) {
      for (const value of [values].flat()) body.append(name, value);
    }
    return this.send(path, { method: 'POST', body, headers });
  }

  /** Sends parts in exactly this order. */
  postParts(path: string, parts: Part[], headers: Record<string, string> = {}): Promise<PageAnswer> {
    const body = new FormData();
    for (const [name, value] of parts) {
      if (typeof value === 'string') body.append(name, value);
      else
        body.append(
          name,
          new Blob([value.bytes as never], { type: value.type ?? 'image/png' }),
          value.filename,
        );
    }
    return this.send(path, { method: 'POST', body, headers });
  }

  async send(path: string, init: RequestInit): Promise<PageAnswer> {
    const headers = new Headers(init.headers);
    if (this.cookies.size > 0 && !headers.has('cookie')) {
      headers.set('cookie', [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; '));
    }
    const answer = await fetch(this.origin + path, { ...init, headers, redirect: 'manual' });
    for (const line of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === '') this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    const location = answer.headers.get('location') ?? undefined;
    return { status: answer.status, html: await answer.text(), headers: answer.headers, location };
  }
}

/** The value of the first field of that name on a page. */
export function valueIn(html: string, name: string): string {
  const tag = new RegExp(`<input[^>]*name="${name}"[^>]*>`).exec(html)?.[0] ?? '';
  const value = /value="([^"]*)"/.exec(tag)?.[1];
  if (value === undefined) throw new Error(`the page has no field ${name}`);
  return value;
}

/** What a page says, without its tags. */
export function textOf(html: string): string {
  return html
    .replace(/<[^>]*>/g, ' ')
    .replace(/&quot;/g, '"')
    .replace(/&#39;/g, "'")
    .replace(/&lt;/g, '<')
    .replace(/&gt;/g, '>')
    .replace(/&amp;/g, '&')
    .replace(/\s+/g, ' ');
}
