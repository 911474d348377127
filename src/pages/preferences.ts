import { type Request, type Response, Router } from 'express';
import { mustBeSecure } from '../http/session-cookie';
import { checkOrigin, parseActionForm, readForm } from './forms';
import type { Theme } from './render';
import { readReturnTo } from './return-to';
import { type Language, languages } from './words/words';

const LANGUAGE_COOKIE = 'cmbuyer_language';
const THEME_COOKIE = 'cmbuyer_theme';
const themes = ['auto', 'light', 'dark'] as const satisfies readonly Theme[];
const YEAR_SECONDS = 365 * 86_400;

const rules = {
  language: { kind: 'choice', label: 'nav.language', options: languages },
  theme: { kind: 'choice', label: 'nav.theme', options: themes },
  return_to: { kind: 'hidden', pattern: /^.{0,2000}$/ },
} as const;

/** The language that the visitor chose; Chinese when none was. */
export function readLanguage(request: Request): Language {
  const chosen = readCookie(request, LANGUAGE_COOKIE);
  return languages.find((language) => language === chosen) ?? 'zh-CN';
}

/** The theme that the visitor chose; the system's when none was. */
export function readTheme(request: Request): Theme {
  const chosen = readCookie(request, THEME_COOKIE);
  return themes.find((theme) => theme === chosen) ?? 'auto';
}

/** The language and theme switches. They change only how this browser sees the pages, and work before signing in. */
export function preferencePages(): Router {
  const router = Router();
  router.post('/admin/preferences', parseActionForm, (request, response) => {
    checkOrigin(request);
    const { fields } = readForm(rules, request.body);
    const back = readReturnTo(fields?.return_to);
    if (fields?.language) setCookie(request, response, LANGUAGE_COOKIE, fields.language);
    if (fields?.theme) setCookie(request, response, THEME_COOKIE, fields.theme);
    response.redirect(303, back);
  });
  return router;
}

function setCookie(request: Request, response: Response, name: string, value: string): void {
  const secure = mustBeSecure(request) ? '; Secure' : '';
  const lasting = `Path=/admin; HttpOnly; SameSite=Lax; Max-Age=${YEAR_SECONDS}`;
  response.append('Set-Cookie', `${name}=${value}; ${lasting}${secure}`);
}

function readCookie(request: Request, name: string): string | undefined {
  for (const part of (request.headers.cookie ?? '').split(';')) {
    const [key, value] = part.split('=', 2);
    if (key?.trim() === name) return value?.trim();
  }
  return undefined;
}
