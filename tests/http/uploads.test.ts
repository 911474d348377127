import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { basename } from 'node:path';
import sharp from 'sharp';
import { allFacts } from '../../src/testing/all-facts';
import { TINY_PNG } from '../../src/testing/contract-samples';
import { type Answer, type FormPart, multipart, useTestApp } from '../../src/testing/start-test-app';
import { expectStatus, makeDraft, newPicture, putPicture, startPurchase } from './scenario';

const app = useTestApp();

const LIMIT = 10 * 1024 * 1024;

/** Names of all files below the picture directory. */
function storedFiles(): string[] {
  return readdirSync(app().imagesDir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => basename(entry.name))
    .sort();
}

function put(task: { id: string; version: number }, type: string, body: Buffer): Promise<Answer> {
  return app().send(
    'PUT',
    `/api/v1/admin/tasks/${task.id}/reference-image?expected_task_version=${task.version}`,
    {
      headers: [...app().admin.headers, ['Content-Type', type]],
      body,
    },
  );
}

function putParts(task: { id: string; version: number }, parts: FormPart[]): Promise<Answer> {
  const { type, body } = multipart(parts);
  return put(task, type, body);
}

async function expectRefused(send: () => Promise<Answer>, ...codes: string[]): Promise<void> {
  const facts = await allFacts(app().database);
  const files = storedFiles();
  const answer = await send();
  expect(codes).toContain(answer.json?.code);
  expect(await allFacts(app().database)).toBe(facts);
  expect(storedFiles()).toEqual(files);
}

const picture = (changes: Partial<FormPart> = {}): FormPart => ({
  name: 'file',
  filename: 'picture.png',
  type: 'image/png',
  content: TINY_PNG,
  ...changes,
});

describe('what is sent as a picture', () => {
  const svg = '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><rect width="9" height="9"/></svg>';

  it.each([
    ['HTML', '<!doctype html><script>alert(1)</script>'],
    ['SVG', svg],
    ['SVG behind a byte order mark', `\ufeff<?xml version="1.0"?>${svg}`],
    ['PDF', '%PDF-1.7\n1 0 obj << >> endobj\n%%EOF'],
    ['GIF', Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64')],
    ['nothing', ''],
    ['the beginning of a JPEG', Buffer.from([0xff, 0xd8, 0xff, 0xe0, 0, 16])],
    ['the beginning of a PNG', TINY_PNG.subarray(0, 30)],
    ['HTML behind the beginning of a PNG', Buffer.concat([TINY_PNG.subarray(0, 8), Buffer.from('<script>')])],
  ])('%s is refused, whatever type it claims', async (_name, content) => {
    const task = await makeDraft(app());
    for (const type of ['image/jpeg', 'image/png', 'text/html', undefined]) {
      await expectRefused(
        () => putParts(task, [picture({ type, content })]),
        'INVALID_IMAGE',
        'INVALID_REQUEST',
      );
    }
  });

  it.each([
    'text/plain',
    'text/html',
    'application/octet-stream',
    'image/svg+xml',
    'image/jpeg',
    'nonsense',
    '',
  ])('a real PNG called %s is a picture', async (type) => {
    const task = await makeDraft(app());
    const content = await newPicture();
    const answer = await putParts(task, [picture({ type, content })]);
    expectStatus(answer, 200);
    const served = await app().call('getTaskReferenceImage', { as: app().admin, path: { task_id: task.id } });
    expect(served.headers['content-type']).toBe('image/jpeg');
    expect(served.headers['cache-control']).toBe('private, no-store');
    expect(served.bytes.subarray(0, 3)).toEqual(Buffer.from([0xff, 0xd8, 0xff]));
    expect(served.bytes.length).toBe(answer.json.reference_image.bytes);
  });

  it.each([
    '../../x',
    '/etc/passwd',
    'C:\\x.jpg',
    '参考图.jpg',
    'a.jpg\0.html',
    '"><script>.jpg',
    "it's.jpg",
    `${'长'.repeat(100)}.jpg`,
    `${'n'.repeat(300)}.jpg`,
    '.',
    '..',
    ' ',
  ])('the name %s goes nowhere', async (filename) => {
    const task = await makeDraft(app());
    const content = await newPicture();
    const before = storedFiles();
    const escaped = filename.replace(/[\\"]/g, '\\$&');
    const answer = await putParts(task, [picture({ filename: escaped, content })]);
    expect([200, 400]).toContain(answer.status);
    if (answer.status === 400) expect(storedFiles()).toEqual(before);
    else {
      expect(answer.text).not.toContain('script>');
      expect(answer.json.reference_image).not.toHaveProperty('name');
    }
    expect(storedFiles().filter((name) => !/^[0-9a-f]{64}\.jpg$/.test(name))).toEqual([]);
  });

  it('keeps nothing that stands behind the picture', async () => {
    const task = await makeDraft(app());
    const content = Buffer.concat([await newPicture(), Buffer.from('<script>tail</script>PK\u0003\u0004')]);
    expectStatus(await putParts(task, [picture({ content })]), 200);
    const served = await app().call('getTaskReferenceImage', { as: app().admin, path: { task_id: task.id } });
    expect(served.bytes.includes('tail')).toBe(false);
  });
});

describe('a form that is not one file', () => {
  const good = picture();
  it.each<[string, FormPart[]]>([
    ['no part', []],
    ['two files', [good, good]],
    ['a file under another name', [picture({ name: 'picture' })]],
    ['a file under an empty name', [picture({ name: '' })]],
    ['a text in place of the file', [{ name: 'file', content: 'text' }]],
    ['a text of the same name beside the file', [{ name: 'file', content: 'text' }, good]],
    ['the same, behind it', [good, { name: 'file', content: 'text' }]],
    ['a field too many', [{ name: 'surprise', content: '1' }, good]],
    ['a field too many, behind it', [good, { name: 'surprise', content: '1' }]],
    ['a field named __proto__', [{ name: '__proto__', content: '1' }, good]],
    ['a field named __proto__[admin]', [{ name: '__proto__[admin]', content: '1' }, good]],
    ['a field named file[0]', [{ name: 'file[0]', content: '1' }, good]],
    [
      'many fields',
      [...Array.from({ length: 40 }, (_, index) => ({ name: `f${index}`, content: 'x' })), good],
    ],
    ['a long field', [{ name: 'x', content: 'x'.repeat(5000) }, good]],
    ['a long field name', [{ name: 'x'.repeat(500), content: 'x' }, good]],
    ['a file without a name', [picture({ filename: '' })]],
    ['the CSRF token as a field', [{ name: '_csrf', content: 'x' }, good]],
  ])('%s', async (_name, parts) => {
    const task = await makeDraft(app());
    await expectRefused(() => putParts(task, parts), 'INVALID_REQUEST');
  });

  it('no boundary, another boundary, an empty one, no end', async () => {
    const task = await makeDraft(app());
    const { type, body } = multipart([good]);
    const broken: [string, Buffer][] = [
      ['multipart/form-data; x=y', body],
      ['multipart/form-data; boundary=', body],
      ['multipart/form-data; boundary=another', body],
      ['multipart/form-data; boundary=""', body],
      [type, Buffer.alloc(0)],
      [type, Buffer.from('not a form')],
      [type, body.subarray(0, body.length - 20)],
      [type, body.subarray(0, 100)],
      [type, Buffer.from('--the-boundary-of-a-test\r\n\r\n\r\n--the-boundary-of-a-test--\r\n')],
      [type, Buffer.from(`--the-boundary-of-a-test\r\nContent-Disposition: ${'x'.repeat(20_000)}\r\n\r\n`)],
    ];
    for (const [givenType, bytes] of broken)
      await expectRefused(() => put(task, givenType, bytes), 'INVALID_REQUEST');
    await expectRefused(() => put(task, 'multipart/form-data', body), 'UNSUPPORTED_MEDIA_TYPE');
  });

  it('a client that hangs up in the middle', async () => {
    const { admin, port, database, log } = app();
    const task = await makeDraft(app());
    const facts = await allFacts(database);
    const files = storedFiles();
    const { type, body } = multipart([picture({ content: await newPicture() })]);
    const path = `/api/v1/admin/tasks/${task.id}/reference-image?expected_task_version=${task.version}`;
    const headers = [
      ...admin.headers,
      ['Content-Type', type],
      ['Content-Length', String(body.length)],
      ['Host', 'x'],
    ];
    const before = log.lines().length;
    await new Promise<void>((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.write(
          `PUT ${path} HTTP/1.1\r\n${headers.map((pair) => pair.join(': ')).join('\r\n')}\r\n\r\n`,
        );
        socket.write(body.subarray(0, body.length - 60), () => socket.destroy());
      });
      socket.on('close', () => resolve());
      socket.on('error', reject);
    });
    while (log.lines().length === before) await new Promise((next) => setTimeout(next, 5));
    expect(await allFacts(database)).toBe(facts);
    expect(storedFiles()).toEqual(files);
  });
});

describe('the size of a picture', () => {
  async function jpegOf(bytes: number): Promise<Buffer> {
    const small = await sharp(await newPicture())
      .jpeg()
      .toBuffer();
    return Buffer.concat([small, Buffer.alloc(bytes - small.length)]);
  }

  it('10 MB are taken', async () => {
    const task = await makeDraft(app());
    expectStatus(await putParts(task, [picture({ content: await jpegOf(LIMIT) })]), 200);
  });

  it('one byte more is too large', async () => {
    const task = await makeDraft(app());
    const content = await jpegOf(LIMIT + 1);
    await expectRefused(() => putParts(task, [picture({ content })]), 'PAYLOAD_TOO_LARGE');
  });

  it('much more is too large', async () => {
    const task = await makeDraft(app());
    await expectRefused(
      () => putParts(task, [picture({ content: Buffer.alloc(3 * LIMIT) })]),
      'PAYLOAD_TOO_LARGE',
    );
  });
});

describe('the file of a picture', () => {
  it('goes when its put is refused', async () => {
    const task = await makeDraft(app());
    const content = await newPicture();
    const at = (version: number) => putParts({ id: task.id, version }, [picture({ content })]);
    await expectRefused(() => at(99), 'VERSION_CONFLICT');
    const unknown = { id: '018f3a5c-7e10-7a00-8000-000000000001', version: 1 };
    await expectRefused(() => putParts(unknown, [picture({ content })]), 'TASK_NOT_FOUND');
    const pending = await startPurchase(app(), task);
    await expectRefused(() => at(pending.version), 'INVALID_TASK_STATE');
  });

  it('stays when the same picture is referred to elsewhere', async () => {
    const content = await newPicture();
    const owner = await putPicture(app(), await makeDraft(app()), content);
    const other = await makeDraft(app());
    await expectRefused(
      () => putParts({ ...other, version: 99 }, [picture({ content })]),
      'VERSION_CONFLICT',
    );
    const served = await app().call('getTaskReferenceImage', {
      as: app().admin,
      path: { task_id: owner.id },
    });
    expect([served.status, served.bytes.length]).toEqual([200, owner.reference_image.bytes]);
  });

  it('is there whenever a task refers to it, whatever comes at once', async () => {
    for (let round = 0; round < 5; round += 1) {
      const content = await newPicture();
      const drafts = await Promise.all(Array.from({ length: 4 }, () => makeDraft(app())));
      const answers = await Promise.all(
        drafts.flatMap((task) => [
          putParts({ ...task, version: 99 }, [picture({ content })]),
          putParts(task, [picture({ content })]),
          putParts({ ...task, version: 99 }, [picture({ content })]),
        ]),
      );
      expect(answers.map(({ status }) => status)).toEqual(drafts.flatMap(() => [409, 200, 409]));
      for (const { id } of drafts) {
        const path = { task_id: id };
        expectStatus(await app().call('getTaskReferenceImage', { as: app().admin, path }), 200);
      }
    }
  });

  it('of a repeated put is stored once, and the put changes nothing more', async () => {
    const task = await makeDraft(app());
    const content = await newPicture();
    const first = expectStatus(await putParts(task, [picture({ content })]), 200);
    const files = storedFiles();
    const again = expectStatus(await putParts(task, [picture({ content })]), 200);
    expect(again.version).toBe(first.version);
    expect(storedFiles()).toEqual(files);
  });
});
