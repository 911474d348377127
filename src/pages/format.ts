import type { Language } from './words/words';

/** Cents as yuan, `¥1,234.50`; exact for every amount the contract allows. */
export function formatMoney(cents: number): string {
  const sign = cents < 0 ? '-' : '';
  const digits = String(Math.abs(cents)).padStart(3, '0');
  const yuan = digits.slice(0, -2).replace(/\B(?=(\d{3})+$)/g, ',');
  return `${sign}¥${yuan}.${digits.slice(-2)}`;
}

/** Cents as a form field holds them, `1234.50`. */
export function moneyForField(cents: number): string {
  const digits = String(cents).padStart(3, '0');
  return `${digits.slice(0, -2)}.${digits.slice(-2)}`;
}

export interface ZonedParts {
  year: number;
  month: number;
  day: number;
  hour: number;
  minute: number;
  second: number;
}

const zoneFormats = new Map<string, Intl.DateTimeFormat>();

function zonedParts(instant: Date, zone: string): ZonedParts {
  let format = zoneFormats.get(zone);
  if (!format) {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      hourCycle: 'h23',
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
    });
    zoneFormats.set(zone, format);
  }
  const parts: Record<string, number> = {};
  for (const part of format.formatToParts(instant)) parts[part.type] = Number(part.value);
  return parts as unknown as ZonedParts;
}

const two = (value: number) => String(value).padStart(2, '0');

function offsetMinutes(instant: Date, zone: string): number {
  const p = zonedParts(instant, zone);
  const asUtc = Date.UTC(p.year, p.month - 1, p.day, p.hour, p.minute, p.second);
  return Math.round((asUtc - Math.floor(instant.getTime() / 1000) * 1000) / 60000);
}

/** The zone's offset at that instant, `UTC+08:00`. */
export function formatOffset(instant: Date, zone: string): string {
  const minutes = offsetMinutes(instant, zone);
  const absolute = Math.abs(minutes);
  return `UTC${minutes < 0 ? '-' : '+'}${two(Math.floor(absolute / 60))}:${two(absolute % 60)}`;
}

/** `2026-11-30 18:26` in the zone; the year is left out when it is the current one. */
export function formatShort(instant: Date, zone: string, now: Date): string {
  const p = zonedParts(instant, zone);
  const year = p.year === zonedParts(now, zone).year ? '' : `${p.year}-`;
  return `${year}${two(p.month)}-${two(p.day)} ${two(p.hour)}:${two(p.minute)}`;
}

/** `2026-11-30 18:26:37 UTC+08:00`: whole, with its zone. */
export function formatWhole(instant: Date, zone: string): string {
  const p = zonedParts(instant, zone);
  const date = `${p.year}-${two(p.month)}-${two(p.day)}`;
  return `${date} ${two(p.hour)}:${two(p.minute)}:${two(p.second)} ${formatOffset(instant, zone)}`;
}

/** The instant at which a calendar day (`2026-11-30`, moved by whole days) begins in the zone. */
export function startOfDay(day: string, zone: string, plusDays = 0): Date | undefined {
  const match = /^(\d{4})-(\d{2})-(\d{2})$/.exec(day);
  if (!match) return undefined;
  const [year, month, date] = [Number(match[1]), Number(match[2]), Number(match[3])];
  const named = new Date(Date.UTC(year, month - 1, date));
  if (named.getUTCMonth() !== month - 1 || named.getUTCDate() !== date) return undefined;
  const utc = Date.UTC(year, month - 1, date + plusDays);
  const guess = utc - offsetMinutes(new Date(utc), zone) * 60000;
  return new Date(utc - offsetMinutes(new Date(guess), zone) * 60000);
}

const units: [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
];

const relativeFormats: Record<Language, Intl.RelativeTimeFormat> = {
  'zh-CN': new Intl.RelativeTimeFormat('zh-CN', { numeric: 'always' }),
  en: new Intl.RelativeTimeFormat('en', { numeric: 'always' }),
};

/** How far from now, `3 分钟前` or `in 2 hours`; rounded towards now, so that it never promises more time. */
export function formatRelative(instant: Date, now: Date, language: Language): string {
  const seconds = (instant.getTime() - now.getTime()) / 1000;
  const [unit, size] = units.find(([, length]) => Math.abs(seconds) >= length) ?? ['second', 1];
  const count = Math.trunc(seconds / size);
  if (count === 0) return language === 'zh-CN' ? '刚刚' : 'just now';
  return relativeFormats[language]
    .format(count, unit)
    .replace('秒钟', '秒')
    .replace(/(\d)(?=[\u4e00-\u9fff])/g, '$1 ');
}

/** A span of time in its two largest units, `8 分 20 秒`; never negative. */
export function formatSpan(milliseconds: number, language: Language): string {
  const total = Math.max(0, Math.floor(milliseconds / 1000));
  const values: [number, string, string][] = [
    [Math.floor(total / 86_400), '天', 'd'],
    [Math.floor((total % 86_400) / 3_600), '小时', 'h'],
    [Math.floor((total % 3_600) / 60), '分', 'min'],
    [total % 60, '秒', 's'],
  ];
  const first = values.findIndex(([count]) => count > 0);
  const shown = first < 0 ? values.slice(3) : values.slice(first, first + 2);
  const kept = shown.filter(([count], index) => count > 0 || index === 0);
  return kept.map(([count, zh, en]) => `${count} ${language === 'zh-CN' ? zh : en}`).join(' ');
}

/** An id shortened in the middle; ids up to 18 characters stay whole. */
export function shortId(id: string): string {
  const letters = [...id];
  return letters.length <= 18 ? id : `${letters.slice(0, 8).join('')}…${letters.slice(-6).join('')}`;
}

/** Bytes for people, `312 KB`. */
export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${Math.round(bytes / 1024)} KB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

/** The address itself when it is plain http(s), else nothing: no other scheme becomes a link. */
export function webAddress(address: string | undefined): string | undefined {
  if (!address) return undefined;
  try {
    const { protocol } = new URL(address);
    return protocol === 'http:' || protocol === 'https:' ? address : undefined;
  } catch {
    return undefined;
  }
}
