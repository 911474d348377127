import { randomBytes } from 'node:crypto';
import sharp from 'sharp';
import { v7 as uuidv7 } from 'uuid';
import type { Answer, TestApp, TestPhone } from '../../src/testing/start-test-app';

export const newKey = () => uuidv7();
export const newClaimToken = () => randomBytes(32).toString('base64url');

export const WISH = { title: '牛奶', quantity: 2, max_unit_price_cents: 5000, max_total_cents: 10_000 };

/** The JSON of an answer that must have this status. */
export function expectStatus(answer: Answer, status: number) {
  if (answer.status !== status) throw new Error(`expected ${status}, got ${answer.status} ${answer.text}`);
  return answer.json;
}

export async function makeDraft(app: TestApp, wish: object = {}) {
  const answer = await app.call('createTask', { as: app.admin, key: newKey(), body: { ...WISH, ...wish } });
  return expectStatus(answer, 201);
}

/** A task that waits for a phone. */
export async function makePending(app: TestApp, wish: object = {}, start: object = {}) {
  const draft = await makeDraft(app, wish);
  return startPurchase(app, draft, start);
}

export async function startPurchase(
  app: TestApp,
  draft: { id: string; version: number },
  start: object = {},
) {
  const answer = await app.call('startPurchase', {
    as: app.admin,
    path: { task_id: draft.id },
    body: { expected_task_version: draft.version, ...start },
  });
  return expectStatus(answer, 200);
}

export async function putPicture(app: TestApp, task: { id: string; version: number }, picture?: Buffer) {
  const answer = await app.call('putReferenceImage', {
    as: app.admin,
    path: { task_id: task.id },
    query: { expected_task_version: task.version },
    file: picture ?? (await newPicture()),
  });
  return expectStatus(answer, 200);
}

let pictures = 0;

/** A PNG unlike all before it. */
export function newPicture(): Promise<Buffer> {
  pictures += 1;
  const background = { r: (pictures * 37) % 256, g: (pictures * 91) % 256, b: (pictures * 151) % 256 };
  return sharp({ create: { width: 48, height: 32, channels: 3, background } })
    .png()
    .toBuffer();
}

export function sendHeartbeat(app: TestApp, phone: TestPhone, changes: object = {}) {
  return app.call('sendDeviceHeartbeat', {
    as: phone,
    body: {
      device_id: phone.device_id,
      app_version: '1.0',
      android_version: '14',
      accessibility_connected: true,
      pinduoduo_installed: true,
      ...changes,
    },
  });
}

export interface Held {
  phone: TestPhone;
  task_id: string;
  claimToken: string;
  key: string;
  version: number;
  claim_generation: number;
  execution_id: string;
  // biome-ignore lint/suspicious/noExplicitAny: as answered
  answer: any;
}

export async function claim(app: TestApp, phone: TestPhone): Promise<Held> {
  expectStatus(await sendHeartbeat(app, phone), 200);
  const key = newKey();
  const claimToken = newClaimToken();
  const answer = expectStatus(
    await app.call('claimNextTask', { as: phone, key, claimToken, body: { device_id: phone.device_id } }),
    200,
  );
  const { task_id, version, claim_generation } = answer;
  return { phone, task_id, claimToken, key, version, claim_generation, execution_id: '', answer };
}

/** The parts of a request that every call on a held task has in common. */
export function on(held: Held) {
  return { as: held.phone, path: { task_id: held.task_id }, claimToken: held.claimToken };
}

export async function start(app: TestApp, held: Held): Promise<Held> {
  const answer = expectStatus(
    await app.call('startTask', {
      ...on(held),
      key: newKey(),
      body: { claim_generation: held.claim_generation, expected_version: held.version },
    }),
    200,
  );
  return { ...held, version: answer.version, execution_id: answer.execution_id, answer };
}

export function offerOf(held: Held) {
  return {
    execution_id: held.execution_id,
    claim_generation: held.claim_generation,
    expected_version: held.version,
    unit_price_cents: 4000,
    quantity: 2,
    total_cents: 8000,
  };
}

export async function fence(app: TestApp, held: Held): Promise<Held> {
  const answer = expectStatus(
    await app.call('fenceSubmission', { ...on(held), key: newKey(), body: offerOf(held) }),
    200,
  );
  return { ...held, version: answer.version, answer };
}

export function report(app: TestApp, held: Held, result: object, key = newKey()) {
  const { execution_id, claim_generation } = held;
  return app.call('reportSubmissionResult', {
    ...on(held),
    key,
    body: { execution_id, claim_generation, ...result },
  });
}

/** A phone of its own with a task claimed, started or fenced by it. */
export async function claimedTask(
  app: TestApp,
  phone: TestPhone,
  wish: object = {},
  startWith: object = {},
): Promise<Held> {
  await makePending(app, wish, startWith);
  return claim(app, phone);
}
export async function runningTask(
  app: TestApp,
  phone: TestPhone,
  wish: object = {},
  startWith: object = {},
): Promise<Held> {
  return start(app, await claimedTask(app, phone, wish, startWith));
}
export async function fencedTask(app: TestApp, phone: TestPhone): Promise<Held> {
  return fence(app, await runningTask(app, phone));
}
