import { timingSafeEqual } from 'node:crypto';
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import express from 'express';
import multer from 'multer';
import { Refusal } from '../contract/errors';
import { parseWithin } from '../http/request-body';
import type { Speaker, WordKey, WordValues } from './words/words';

/** Bytes of a form that presses one button. */
const ACTION_FORM_BYTES = 8 * 1024;
/** Bytes of all text fields of the wish form together; its picture is bounded apart. */
const WISH_FORM_BYTES = 64 * 1024;
/** The contract's bound for pictures. */
const PICTURE_BYTES = 10 * 1024 * 1024;

interface Rule {
  label: WordKey;
  required?: boolean;
}

interface TextRule extends Rule {
  kind: 'text' | 'multiline' | 'url';
  max: number;
  pattern?: RegExp;
}

interface CountRule extends Rule {
  kind: 'count';
  min: number;
  max: number;
}

interface YuanRule extends Rule {
  kind: 'yuan';
  min: number;
  max: number;
}

interface ChoiceRule extends Rule {
  kind: 'choice';
  options: readonly string[];
}

interface TickRule extends Rule {
  kind: 'tick';
}

interface PasswordRule extends Rule {
  kind: 'password';
  min: number;
  max: number;
}

/** A field that the page itself filled in: a wrong one is not a person's mistake but INVALID_REQUEST. */
interface HiddenTextRule {
  kind: 'hidden';
  pattern: RegExp;
  required?: boolean;
}

interface HiddenNumberRule {
  kind: 'hidden-number';
  pattern: RegExp;
  required?: boolean;
}

type HiddenRule = HiddenTextRule | HiddenNumberRule;

export type FieldRule = TextRule | CountRule | YuanRule | ChoiceRule | TickRule | PasswordRule | HiddenRule;
export type FormRules = Readonly<Record<string, FieldRule>>;

type ValueOf<R extends FieldRule> = R extends { kind: 'count' | 'yuan' | 'hidden-number' }
  ? number
  : R extends { kind: 'tick' }
    ? boolean
    : R extends { kind: 'choice'; options: readonly (infer O)[] }
      ? O
      : string;

export type FormFields<R extends FormRules> = {
  [K in keyof R]: R[K] extends { required: true } | { kind: 'tick' }
    ? ValueOf<R[K]>
    : ValueOf<R[K]> | undefined;
};

/** What is wrong with a field; without a field, with the form as a whole. */
export interface Fault {
  field?: string;
  key: WordKey;
  values?: WordValues;
  label?: WordKey;
}

export type FormReading<R extends FormRules> =
  | { values: Record<string, string>; faults: []; fields: FormFields<R> }
  | { values: Record<string, string>; faults: Fault[]; fields?: undefined };

/** A form as the views draw it: what was typed, and what is wrong with it. */
export interface FormView {
  values: Record<string, string>;
  faults: { field?: string; text: string }[];
}

export const emptyForm: FormView = { values: {}, faults: [] };

/** Faults in the reader's language. */
export function viewForm(values: Record<string, string>, faults: readonly Fault[], words: Speaker): FormView {
  return {
    values,
    faults: faults.map(({ field, key, values: filled, label }) => ({
      field,
      text: words.say(key, label ? { ...filled, field: words.say(label) } : filled),
    })),
  };
}

/**
 * Reads a parsed body by its rules: every field declared, none twice.
 * @throws Refusal INVALID_REQUEST for an unknown or repeated field, or one the page itself had filled in
 */
export function readForm<R extends FormRules>(rules: R, body: unknown): FormReading<R> {
  const given = stringFields(body);
  for (const name of Object.keys(given)) {
    if (name !== '_csrf' && !Object.hasOwn(rules, name)) throw new Refusal('INVALID_REQUEST');
  }
  const values: Record<string, string> = {};
  const faults: Fault[] = [];
  const fields: Record<string, unknown> = {};
  for (const [name, rule] of Object.entries(rules)) {
    const typed = given[name] ?? '';
    if (rule.kind !== 'password') values[name] = typed;
    if (rule.kind === 'hidden' || rule.kind === 'hidden-number') {
      fields[name] = readHidden(rule, typed);
      continue;
    }
    const result = readField(rule, typed);
    if ('fault' in result) faults.push({ field: name, label: rule.label, ...result.fault });
    else fields[name] = result.value;
  }
  if (faults.length > 0) return { values, faults };
  return { values, faults: [], fields: fields as FormFields<R> };
}

function stringFields(body: unknown): Record<string, string> {
  const fields: Record<string, string> = Object.create(null);
  for (const [name, value] of Object.entries(body ?? {})) {
    if (typeof value !== 'string') throw new Refusal('INVALID_REQUEST');
    fields[name] = value;
  }
  return fields;
}

function readHidden(rule: HiddenRule, typed: string): string | number | undefined {
  if (typed === '' && !rule.required) return undefined;
  if (!rule.pattern.test(typed)) throw new Refusal('INVALID_REQUEST');
  if (rule.kind === 'hidden') return typed;
  const value = Number(typed);
  if (!Number.isSafeInteger(value)) throw new Refusal('INVALID_REQUEST');
  return value;
}

type Read = { value: unknown } | { fault: { key: WordKey; values?: WordValues } };

function readField(rule: Exclude<FieldRule, HiddenRule>, typed: string): Read {
  switch (rule.kind) {
    case 'tick':
      if (typed !== '' && typed !== 'yes') return { fault: { key: 'fault.option' } };
      return typed === '' && rule.required ? { fault: { key: 'fault.tick' } } : { value: typed === 'yes' };
    case 'choice':
      if (typed === '') return rule.required ? { fault: { key: 'fault.choose' } } : { value: undefined };
      return rule.options.includes(typed) ? { value: typed } : { fault: { key: 'fault.option' } };
    case 'password':
      return readPassword(rule, typed);
    case 'count':
    case 'yuan':
      return readAmount(rule, typed.trim());
    default:
      return readText(rule, typed);
  }
}

function readPassword(rule: PasswordRule, typed: string): Read {
  if (typed === '') return rule.required ? { fault: { key: 'fault.required' } } : { value: undefined };
  const count = [...typed.normalize('NFC')].length;
  if (count < rule.min) return { fault: { key: 'fault.too_short', values: { min: rule.min } } };
  if (count > rule.max) return { fault: { key: 'fault.too_long', values: { max: rule.max, count } } };
  return { value: typed };
}

function readAmount(rule: CountRule | YuanRule, typed: string): Read {
  if (typed === '') return rule.required ? { fault: { key: 'fault.required' } } : { value: undefined };
  const value = rule.kind === 'count' ? readCount(typed) : readYuan(typed);
  if (value === undefined) return { fault: { key: rule.kind === 'count' ? 'fault.number' : 'fault.money' } };
  if (value >= rule.min && value <= rule.max) return { value };
  const shown = (bound: number) => (rule.kind === 'count' ? String(bound) : yuanText(bound));
  return { fault: { key: 'fault.range', values: { min: shown(rule.min), max: shown(rule.max) } } };
}

function readCount(typed: string): number | undefined {
  return /^\d{1,15}$/.test(typed) ? Number(typed) : undefined;
}

/** Yuan as typed (`12`, `12.3`, `¥1,234.56`) in cents, digit by digit: no fraction is ever computed. */
export function readYuan(typed: string): number | undefined {
  const match = /^[¥￥]?\s*(\d{1,12}|\d{1,3}(?:,\d{3}){1,3})(?:\.(\d{1,2}))?$/.exec(typed.trim());
  if (!match?.[1]) return undefined;
  return Number(match[1].replaceAll(',', '') + (match[2] ?? '').padEnd(2, '0'));
}

function yuanText(cents: number): string {
  const digits = String(cents).padStart(3, '0');
  return `${digits.slice(0, -2)}.${digits.slice(-2)}`;
}

function readText(rule: TextRule, typed: string): Read {
  const text = rule.kind === 'multiline' ? typed.replace(/\r\n?/g, '\n').trim() : typed.trim();
  if (text === '') return rule.required ? { fault: { key: 'fault.required' } } : { value: undefined };
  const allowed = rule.kind === 'multiline' ? text.replace(/[\n\t]/g, '') : text;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  if (/[\u0000-\u001f\u007f-\u009f]/.test(allowed)) return { fault: { key: 'fault.control' } };
  const count = [...text].length;
  if (count > rule.max) return { fault: { key: 'fault.too_long', values: { max: rule.max, count } } };
  if (rule.kind === 'url' && !isWebAddress(text)) return { fault: { key: 'fault.url' } };
  if (rule.pattern && !rule.pattern.test(text)) return { fault: { key: 'fault.pattern' } };
  return { value: text };
}

function isWebAddress(text: string): boolean {
  return /^https?:\/\/[^\s]+$/i.test(text) && URL.canParse(text);
}

/** True when both are the same; takes the same time wherever they differ. */
function sameToken(given: unknown, expected: string): boolean {
  if (typeof given !== 'string') return false;
  const [one, other] = [Buffer.from(given), Buffer.from(expected)];
  return one.length === other.length && timingSafeEqual(one, other);
}

/**
 * Refuses a form that did not come from a page of this session: another origin, or not the session's token in the
 * *body*. A body of another type holds no readable token and is refused alike.
 */
export function checkFormToken(req: Request, csrf: string): void {
  checkOrigin(req);
  if (!sameToken((req.body as Record<string, unknown> | undefined)?._csrf, csrf))
    throw new Refusal('CSRF_FAILED');
}

/** Refuses an unsafe request that a browser says came from elsewhere. */
export function checkOrigin(req: Request): void {
  const site = req.get('sec-fetch-site');
  if (site !== undefined && site !== 'same-origin' && site !== 'none') throw new Refusal('CSRF_FAILED');
  const origin = req.get('origin');
  if (origin === undefined) return;
  if (!URL.canParse(origin) || new URL(origin).host !== req.host) throw new Refusal('CSRF_FAILED');
}

const readAsText = express.text({ type: 'application/x-www-form-urlencoded', limit: ACTION_FORM_BYTES });

/** Parses a form of one button, at most 8 KiB. A field given twice becomes a list, which no rule takes. */
export function parseActionForm(req: Request, res: Response, next: NextFunction): void {
  parseWithin(ACTION_FORM_BYTES, readAsText, req, res).then(takeFields, (error) => next(bodyError(error)));

  function takeFields(): void {
    const fields: Record<string, unknown> = Object.create(null);
    if (typeof req.body === 'string') {
      for (const [name, value] of new URLSearchParams(req.body)) {
        fields[name] = Object.hasOwn(fields, name) ? [fields[name], value] : value;
      }
    }
    req.body = fields;
    next();
  }
}

function bodyError(error: unknown): unknown {
  if (error instanceof Refusal) return error;
  const status = (error as { status?: number }).status;
  if (status === 413) return new Refusal('PAYLOAD_TOO_LARGE');
  if (status === 415) return new Refusal('UNSUPPORTED_MEDIA_TYPE');
  if (status !== undefined && status < 500) return new Refusal('INVALID_REQUEST');
  return error;
}

/** What came of the picture part: nothing chosen, the bytes, or why it was not taken. */
export type Picture = { bytes?: Buffer; fault?: WordKey };

/** The token of the session that a request was let through with. */
type TokenOf = (request: Request, response: Response) => string;

/**
 * Parses a form with a picture. The token is compared before the file part is taken: with the token missing, wrong,
 * in the query only, or behind the file, not a byte of the picture is kept.
 */
export function parsePictureForm(tokenOf: TokenOf): RequestHandler {
  return (req, res, next) => {
    const csrf = tokenOf(req, res);
    const upload = multer({
      storage: multer.memoryStorage(),
      limits: {
        files: 1,
        fileSize: PICTURE_BYTES,
        fields: 40,
        fieldSize: WISH_FORM_BYTES,
        fieldNameSize: 100,
        parts: 41,
      },
      fileFilter: (request, _file, done) => {
        if (sameToken(request.body?._csrf, csrf)) done(null, true);
        else done(new Refusal('CSRF_FAILED'));
      },
    }).single('picture');

    checkOrigin(req);
    upload(req, res, (error?: unknown) => {
      try {
        checkFormToken(req, csrf);
        const picture = readPicture(req, error);
        boundText(req.body);
        res.locals.picture = picture;
        next();
      } catch (refusal) {
        next(refusal);
      }
    });
  };
}

/** The picture that `parsePictureForm` took from the request. */
export function pictureOf(response: Response): Picture {
  return (response.locals.picture as Picture | undefined) ?? {};
}

function readPicture(req: Request, error: unknown): Picture {
  if (!error) return { bytes: req.file?.buffer };
  if (error instanceof multer.MulterError) {
    if (error.code === 'LIMIT_FILE_SIZE') return { fault: 'fault.picture_large' };
    if (error.code === 'LIMIT_FILE_COUNT' || error.code === 'LIMIT_UNEXPECTED_FILE')
      return { fault: 'fault.picture_bad' };
    if (error.code.startsWith('LIMIT_')) throw new Refusal('PAYLOAD_TOO_LARGE');
    throw new Refusal('INVALID_REQUEST');
  }
  if (error instanceof Refusal) throw error;
  // What is left is the parser's word on a broken or cut body.
  return { fault: 'fault.picture_bad' };
}

function boundText(body: unknown): void {
  let total = 0;
  for (const [name, value] of Object.entries(body ?? {})) {
    total += Buffer.byteLength(name) + (typeof value === 'string' ? Buffer.byteLength(value) : 0);
  }
  if (total > WISH_FORM_BYTES) throw new Refusal('PAYLOAD_TOO_LARGE');
}
