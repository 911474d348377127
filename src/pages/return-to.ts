import { Refusal } from '../contract/errors';

/** Where people go when nothing else is asked for. */
export const home = '/admin/tasks';

/** The page that a visit was to, as a place to come back to; `home` where `readReturnTo` would refuse it. */
export function returnToOf(originalUrl: string): string {
  try {
    return readReturnTo(originalUrl);
  } catch {
    return home;
  }
}

const base = 'http://here.invalid';

/**
 * A path of these pages to go to after signing in or switching the language; `home` when none was given.
 * Only a plain path under /admin/ on this server passes: no other scheme or host, no `//`, no backslash, no encoded
 * slash, backslash, dot or control character, no user info.
 * @throws Refusal INVALID_RETURN_TO
 */
export function readReturnTo(value: string | undefined): string {
  if (value === undefined || value === '') return home;
  if (value.length > 2_000 || !value.startsWith('/admin/')) throw new Refusal('INVALID_RETURN_TO');
  if (!/^[\x21-\x7e]+$/.test(value) || /[\\@]|\/\//.test(value)) throw new Refusal('INVALID_RETURN_TO');

  const path = value.split(/[?#]/, 1)[0] ?? '';
  if (/%(2e|2f|5c|25|[01][0-9a-f]|7f)/i.test(path)) throw new Refusal('INVALID_RETURN_TO');
  if (path.split('/').some((part) => part === '.' || part === '..')) throw new Refusal('INVALID_RETURN_TO');

  const resolved = URL.canParse(value, base) ? new URL(value, base) : undefined;
  if (resolved?.origin !== base || !resolved.pathname.startsWith('/admin/')) {
    throw new Refusal('INVALID_RETURN_TO');
  }
  return value;
}
