import express, { type Request, type RequestHandler, type Response } from 'express';
import multer from 'multer';
import { Refusal } from '../contract/errors';

/** JSON bodies are small; pictures come apart. */
const JSON_LIMIT_BYTES = 64 * 1024;
/** Over this a picture is not even received whole. */
const UPLOAD_LIMIT_BYTES = 10 * 1024 * 1024;

const JSON_TYPE = /^application\/json\s*(;\s*charset="?utf-8"?\s*)?$/i;
const MULTIPART_TYPE = /^multipart\/form-data\s*;/i;

const readRaw = express.raw({ limit: JSON_LIMIT_BYTES, type: () => true });
const readMultipart = multer({
  storage: multer.memoryStorage(),
  limits: {
    files: 1,
    fields: 4,
    parts: 6,
    fileSize: UPLOAD_LIMIT_BYTES,
    fieldSize: 1024,
    fieldNameSize: 64,
    headerPairs: 20,
  },
}).single('file');

export interface ParsedBody {
  body: unknown;
  file?: Buffer;
}

/**
 * Reads the body of an operation that takes `mediaType`.
 * @throws Refusal UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, MALFORMED_JSON or INVALID_REQUEST
 */
export async function readBody(request: Request, response: Response, mediaType: string): Promise<ParsedBody> {
  mustStillBeThere(request);
  const given = request.headers['content-type'] ?? '';
  if (mediaType === 'multipart/form-data') {
    if (!MULTIPART_TYPE.test(given)) throw new Refusal('UNSUPPORTED_MEDIA_TYPE');
    return readUpload(request, response);
  }
  if (!JSON_TYPE.test(given)) throw new Refusal('UNSUPPORTED_MEDIA_TYPE');
  const encoding = request.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity') throw new Refusal('UNSUPPORTED_MEDIA_TYPE');
  return { body: mustBeObject(parseJson(await readBytes(request, response))) };
}

/**
 * Who hung up while its credential was looked up sends no further event, and a parser would wait for one for ever.
 * @throws Refusal INVALID_REQUEST, which nobody hears
 */
export function mustStillBeThere(request: Request): void {
  if (request.destroyed && !request.complete) throw new Refusal('INVALID_REQUEST');
}

async function readBytes(request: Request, response: Response): Promise<Buffer> {
  try {
    await parseWithin(JSON_LIMIT_BYTES, readRaw, request, response);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    const type = (error as { type?: string }).type;
    if (type === 'entity.too.large') throw new Refusal('PAYLOAD_TOO_LARGE');
    throw new Refusal('INVALID_REQUEST', { cause: error });
  }
  return Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
}

/** The parser's own message quotes the body, so it goes nowhere. */
function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw new Refusal('MALFORMED_JSON');
  }
}

/** The validator behind this would parse a JSON text once more, and quote it when it cannot. */
function mustBeObject(value: unknown): unknown {
  if (value !== null && typeof value === 'object' && !Array.isArray(value)) return value;
  throw new Refusal('INVALID_REQUEST', { errors: [{ path: '/body', message: 'must be object' }] });
}

async function readUpload(request: Request, response: Response): Promise<ParsedBody> {
  try {
    await parseWithin(UPLOAD_LIMIT_BYTES, readMultipart, request, response);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    if (error instanceof multer.MulterError && error.code === 'LIMIT_FILE_SIZE')
      throw new Refusal('PAYLOAD_TOO_LARGE');
    throw new Refusal('INVALID_REQUEST', { cause: error });
  }
  if (!request.file) {
    throw new Refusal('INVALID_REQUEST', { errors: [{ path: '/body/file', message: 'must be a file' }] });
  }
  if ('file' in request.body) {
    throw new Refusal('INVALID_REQUEST', { errors: [{ path: '/body/file', message: 'must be sent once' }] });
  }
  return { body: { ...request.body, file: '' }, file: request.file.buffer };
}

/** Who sends a little too much is heard out, so that the answer reaches it; who sends without end is not. */
const GRACE_BYTES = 1024 * 1024;

/**
 * Runs a body parser; the parsers themselves answer only once a body that is too long has arrived whole.
 * @throws Refusal PAYLOAD_TOO_LARGE, or what the parser throws
 */
export function parseWithin(
  limit: number,
  handler: RequestHandler,
  request: Request,
  response: Response,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const most = limit + GRACE_BYTES;
    const refuse = () => reject(new Refusal('PAYLOAD_TOO_LARGE'));
    if (Number(request.headers['content-length'] ?? 0) > most) return refuse();
    let taken = 0;
    request.on('data', (chunk: Buffer) => {
      taken += chunk.length;
      if (taken > most) refuse();
    });
    handler(request, response, (error?: unknown) => (error ? reject(error) : resolve()));
  });
}

interface FieldFault {
  path: string;
  message: string;
}

/** As much of a path as an answer shows. */
const PATH_LIMIT = 200;

/** Text that no database keeps alike: NUL and lone surrogates, anywhere in the value, however deep. */
export function findBrokenText(value: unknown, path: string): FieldFault | undefined {
  const waiting = [{ value, path }];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { value, path } = next;
    if (typeof value === 'string') {
      if (isBroken(value)) return brokenAt(path);
    } else if (value !== null && typeof value === 'object') {
      for (const [key, member] of Object.entries(value)) {
        if (isBroken(key)) return brokenAt(path);
        waiting.push({ value: member, path: `${path}/${key}` });
      }
    }
  }
  return undefined;
}

function isBroken(text: string): boolean {
  return text.includes('\0') || !(text as string & { isWellFormed(): boolean }).isWellFormed();
}

function brokenAt(path: string): FieldFault {
  return { path: path.slice(0, PATH_LIMIT), message: 'must not contain NUL or lone surrogates' };
}
