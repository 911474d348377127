import { existsSync } from 'node:fs';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';

const CHROMIUM = '/usr/bin/chromium';

// On a busy machine a page may take a while; how long is nothing that these tests judge.
const WAIT_MS = 30_000;

export interface Viewing {
  width?: number;
  height?: number;
  /** A touch screen with a phone's viewport rules. */
  phone?: boolean;
  dark?: boolean;
  withoutScript?: boolean;
}

/**
 * Debian's chromium with a profile of its own that is thrown away. Watches every page that it opens: `check` fails on
 * any message in the console, error, refused script or style, answer 5xx, or request to another host.
 */
export class TestBrowser {
  readonly #faults: string[] = [];
  readonly #contexts: BrowserContext[] = [];
  readonly #expected = new Set<number>();

  private constructor(private readonly browser: Browser) {}

  static async launch(): Promise<TestBrowser> {
    if (!existsSync(CHROMIUM)) {
      throw new Error(`the browser tests need ${CHROMIUM}; install it with: apt-get install chromium`);
    }
    const browser = await chromium.launch({
      executablePath: CHROMIUM,
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    });
    return new TestBrowser(browser);
  }

  /** A window without cookies, on the pages of `origin`. */
  async open(origin: string, viewing: Viewing = {}): Promise<Page> {
    const { width = 1440, height = 900, phone = false, dark = false, withoutScript = false } = viewing;
    const context = await this.browser.newContext({
      baseURL: origin,
      viewport: { width, height },
      isMobile: phone,
      hasTouch: phone,
      colorScheme: dark ? 'dark' : 'light',
      javaScriptEnabled: !withoutScript,
      reducedMotion: 'reduce',
      locale: 'zh-CN',
      timezoneId: 'America/New_York',
    });
    context.setDefaultTimeout(WAIT_MS);
    this.#contexts.push(context);
    this.#watch(context, origin);
    return context.newPage();
  }

  /** Lets one status of 5xx pass until the next `check`: for a test that breaks the server on purpose. */
  expectStatus(status: number): void {
    this.#expected.add(status);
  }

  /** Closes all windows, for the next test to begin with none, and checks what happened in them. */
  async endTest(): Promise<void> {
    for (const context of this.#contexts.splice(0)) await context.close();
    this.check();
  }

  /** @throws when anything went wrong in a window since the last check */
  check(): void {
    this.#expected.clear();
    const faults = this.#faults.splice(0);
    if (faults.length > 0) throw new Error(`the browser saw faults:\n${faults.join('\n')}`);
  }

  close(): Promise<void> {
    return this.browser.close();
  }

  #watch(context: BrowserContext, origin: string): void {
    const documents = new Set<string>();
    const fault = (text: string) => this.#faults.push(text);
    context.on('weberror', (error) => fault(`error on the page: ${error.error().message}`));
    context.on('request', (request) => {
      if (new URL(request.url()).origin !== origin) fault(`request to another host: ${request.url()}`);
    });
    context.on('requestfailed', (request) => {
      // A page that is left before its pictures are there gives them up.
      if (request.failure()?.errorText !== 'net::ERR_ABORTED') {
        fault(`failed: ${request.url()} ${request.failure()?.errorText}`);
      }
    });
    context.on('response', (response) => {
      const isDocument = response.request().isNavigationRequest();
      if (isDocument) documents.add(response.url());
      const status = response.status();
      if (status >= 500 ? !this.#expected.has(status) : status >= 400 && !isDocument) {
        fault(`${status}: ${response.url()}`);
      }
    });
    context.on('console', (message) => {
      if (message.type() !== 'error') return;
      // The browser's own remark about a page that says no; its status was looked at above.
      const isRefusal = /^Failed to load resource: the server responded with a status of/.test(
        message.text(),
      );
      if (isRefusal && documents.has(message.location().url)) return;
      fault(`console: ${message.text()}`);
    });
    context.on('dialog', (dialog) => {
      fault(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
  }
}
