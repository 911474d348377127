import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { Eta } from 'eta';
import { packageRoot } from '../config';
import {
  formatBytes,
  formatMoney,
  formatOffset,
  formatSpan,
  moneyForField,
  shortId,
  webAddress,
} from './format';
import { buildMarkup, escapeHtml } from './markup';
import { type Language, speaker } from './words/words';

export type Theme = 'auto' | 'light' | 'dark';

/** What every page needs to know about the request that it answers. */
export interface PageContext {
  language: Language;
  theme: Theme;
  /** IANA name of the zone in which all times of the page are shown. */
  zone: string;
  now: Date;
  /** Path with query: where the language and theme switches come back to. */
  here: string;
  /** Absent on pages for people who are not signed in. */
  account?: {
    user_id: string;
    username: string;
    display_name?: string;
    csrf: string;
    attention_count: number;
  };
}

export type Section = 'tasks' | 'attention' | 'devices' | 'users' | 'audit' | 'none';

export interface PageFrame {
  title: string;
  section: Section;
}

const folder = path.join(packageRoot, 'src', 'pages');
export const publicFolder = path.join(folder, 'public');
export const assetsPath = '/admin/assets';

const eta = new Eta({
  views: path.join(folder, 'views'),
  cache: true,
  autoEscape: true,
  escapeFunction: escapeHtml,
  functionHeader: 'const { say, name, h, f, page } = it;',
});

const versions = new Map<string, string>();

/** The address of a file in public/, with its digest, so that browsers may keep it for ever. */
export function assetUrl(file: string): string {
  let version = versions.get(file);
  if (!version) {
    version = createHash('sha256')
      .update(readFileSync(path.join(publicFolder, file)))
      .digest('hex')
      .slice(0, 12);
    versions.set(file, version);
  }
  return `${assetsPath}/${file}?v=${version}`;
}

/** Renders `views/pages/<view>.eta` inside the shell; `data` reaches the view as fields of `it`. */
export function renderPage(view: string, context: PageContext, frame: PageFrame, data: object): string {
  const words = speaker(context.language);
  const sprite = assetUrl('sprite.svg');
  return eta.render(`/pages/${view}`, {
    ...data,
    words,
    say: words.say,
    name: words.name,
    h: buildMarkup(words, context.zone, context.now, sprite),
    f: {
      money: formatMoney,
      moneyForField,
      bytes: formatBytes,
      shortId,
      webAddress,
      span: (milliseconds: number) => formatSpan(milliseconds, context.language),
    },
    page: {
      ...context,
      ...frame,
      offset: formatOffset(context.now, context.zone),
      css: assetUrl('app.css'),
      script: assetUrl('app.js'),
      favicon: assetUrl('icon.svg'),
    },
  });
}
