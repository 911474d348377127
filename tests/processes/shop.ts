import { v7 as uuidv7 } from 'uuid';
import { sendDeviceHeartbeat } from '../../src/access/send-device-heartbeat';
import { csrfTokenOf } from '../../src/access/sessions';
import type { AdminActor, DeviceActor } from '../../src/contract/actor';
import { claimNextTask } from '../../src/lifecycle/claim-next-task';
import { createTask } from '../../src/lifecycle/create-task';
import { fenceSubmission } from '../../src/lifecycle/fence-submission';
import type { LifecycleOutcome } from '../../src/lifecycle/held-task';
import { startPurchase } from '../../src/lifecycle/start-purchase';
import { startTask } from '../../src/lifecycle/start-task';
import type { Timings } from '../../src/lifecycle/timings';
import { checkDatabase, describeFinding } from '../../src/store/check-facts';
import { hashSecret, insertToken, newSecret } from '../../src/store/credentials';
import { type Database, openDatabase, type Work } from '../../src/store/database';
import { insertDevice } from '../../src/store/devices';
import { findNextClaimable, findTaskFacts } from '../../src/store/tasks';
import { openTestDatabase } from '../../src/testing/open-test-database';
import { makeUser, signInAdmin } from '../../src/testing/people-and-devices';
import { cleanUp, type Serving, serve } from '../process/program';
import { type Answer, type Sent, Wire } from './wire';

const YEAR_SECONDS = 365 * 86_400;

export const TIMINGS: Timings = {
  claim_lease_seconds: 600,
  run_lease_seconds: 900,
  device_heartbeat_ttl_seconds: 900,
  authorization_ttl_seconds: 86_400,
};

export const READY = {
  app_version: '1.0.0',
  android_version: '14',
  accessibility_connected: true,
  pinduoduo_installed: true,
};

export const WISH = {
  title: '蓝牙耳机',
  quantity: 2,
  max_unit_price_cents: 5_000,
  max_total_cents: 9_000,
  confirmation_required: false,
};
export const OFFER = { unit_price_cents: 5_000, quantity: 2, total_cents: 9_000 };

export interface Phone {
  device_id: string;
  actor: DeviceActor;
  headers: Record<string, string>;
}

/** What a phone stores before it asks for work. */
export interface Ask {
  key: string;
  token: string;
}

export interface Held extends Ask {
  phone: Phone;
  task_id: string;
  claim_generation: number;
  version: number;
  execution_id?: string;
}

/** The servers' settings that the seeded facts are made with. */
const SETTINGS = {
  CMBUYER_CHECK_RESPONSES: 'on',
  CMBUYER_CLAIM_LEASE_SECONDS: String(TIMINGS.claim_lease_seconds),
  CMBUYER_RUN_LEASE_SECONDS: String(TIMINGS.run_lease_seconds),
  CMBUYER_DEVICE_HEARTBEAT_TTL_SECONDS: String(TIMINGS.device_heartbeat_ttl_seconds),
};

/** One database, the server processes on it, and a hand in the database that neither of them knows of. */
export class Shop {
  readonly wires: Wire[] = [];
  readonly servers: Serving[] = [];
  private phones = 0;

  private constructor(
    readonly database: Database,
    readonly settings: Record<string, string>,
    readonly admin: { actor: AdminActor; headers: Record<string, string> },
    private readonly buyer: { id: string },
    private readonly discard: () => Promise<void>,
  ) {}

  /** On SQLite, or on PostgreSQL where TEST_DATABASE_URL names a server; real time on both. */
  static async open(): Promise<Shop> {
    const opened = await openTestDatabase();
    const { url, dataDir } = opened;
    const database = openDatabase({ url, dataDir });
    return Shop.fill(database, { dataDir, url }, async () => {
      await database.close();
      await opened.close();
    });
  }

  /** On a PostgreSQL database of the test's own, whatever else runs. */
  static async openOn(url: string, dataDir: string): Promise<Shop> {
    const database = openDatabase({ url, dataDir });
    await database.migrateUp();
    return Shop.fill(database, { dataDir, url }, () => database.close());
  }

  private static async fill(
    database: Database,
    { dataDir, url }: { dataDir: string; url?: string },
    discard: () => Promise<void>,
  ): Promise<Shop> {
    const boss = await makeUser(database, 'boss', 'ADMIN');
    const { actor, raw } = await signInAdmin(database, boss, YEAR_SECONDS);
    const headers = { cookie: `cmbuyer_session=${raw}`, 'x-csrf-token': csrfTokenOf(raw) };
    const buyer = await makeUser(database, 'buyer', 'BUYER');
    const settings = { ...SETTINGS, CMBUYER_DATA_DIR: dataDir, CMBUYER_DATABASE_URL: url ?? '' };
    return new Shop(database, settings, { actor, headers }, buyer, discard);
  }

  /** Another server process on this database. */
  async serve(settings: Record<string, string> = {}): Promise<Wire> {
    const server = await serve({ ...this.settings, ...settings });
    const wire = new Wire(server.address);
    this.servers.push(server);
    this.wires.push(wire);
    return wire;
  }

  async serveTwo(settings: Record<string, string> = {}): Promise<[Wire, Wire]> {
    return [await this.serve(settings), await this.serve(settings)];
  }

  async close(): Promise<void> {
    for (const wire of this.wires) wire.close();
    await cleanUp();
    await this.discard();
  }

  /** What the checker finds: facts that contradict each other. */
  async findings(): Promise<string[]> {
    return (await checkDatabase(this.database)).findings.map(describeFinding);
  }

  // ------------------------------------------------------------------------------------------- seeding

  /** Ready phones of one buyer, with access tokens. */
  async seedPhones(count: number): Promise<Phone[]> {
    return inLots(count, (size) =>
      this.database.write(async (work) => {
        const made: Phone[] = [];
        while (made.length < size) made.push(await this.seedPhone(work));
        return made;
      }),
    );
  }

  private async seedPhone(work: Work): Promise<Phone> {
    this.phones += 1;
    const device_id = `phone-${String(this.phones).padStart(6, '0')}`;
    const user_id = this.buyer.id;
    await insertDevice(work, { device_id, label: 'Phone', user_id });
    const rawToken = newSecret();
    const expires_at = new Date(Date.parse(work.now) + YEAR_SECONDS * 1000).toISOString();
    const token_id = await insertToken(work, { rawToken, user_id, device_id, expires_at });
    const actor: DeviceActor = { type: 'DEVICE', user_id, device_id, token_id };
    await sendDeviceHeartbeat(work, actor, READY, TIMINGS);
    return { device_id, actor, headers: { authorization: `Bearer ${rawToken}` } };
  }

  /** Drafts, by id. */
  seedDrafts(count: number): Promise<string[]> {
    return inLots(count, (size) =>
      this.database.write(async (work) => {
        const made: string[] = [];
        while (made.length < size) made.push(await this.seedDraft(work));
        return made;
      }),
    );
  }

  /** Tasks that wait for a phone, by id, in the order in which they are served. */
  seedPending(count: number): Promise<string[]> {
    return inLots(count, (size) =>
      this.database.write(async (work) => {
        const made: string[] = [];
        while (made.length < size) made.push(await this.seedOnePending(work));
        return made;
      }),
    );
  }

  private async seedDraft(work: Work): Promise<string> {
    const request = { idempotency_key: uuidv7(), wish: WISH };
    return (await createTask(work, this.admin.actor, request)).facts.task.id;
  }

  private async seedOnePending(work: Work): Promise<string> {
    const task_id = await this.seedDraft(work);
    await startPurchase(work, this.admin.actor, { task_id, expected_task_version: 1 }, TIMINGS);
    return task_id;
  }

  /** An admin presses "start purchase", by hand. */
  async press(task_id: string): Promise<void> {
    const request = { task_id, expected_task_version: 1 };
    await this.database.write((work) => startPurchase(work, this.admin.actor, request, TIMINGS));
  }

  /** Each phone with a task of its own, brought as far as asked by the real verbs; nothing else may be claimable. */
  seedHeld(phones: Phone[], until: 'CLAIMED' | 'RUNNING' | 'SUBMITTING'): Promise<Held[]> {
    return inLots(phones.length, (size, from) =>
      this.database.write(async (work) => {
        const made: Held[] = [];
        for (const phone of phones.slice(from, from + size)) {
          await this.seedOnePending(work);
          made.push(await holdNext(work, phone, until));
        }
        return made;
      }),
    );
  }

  /** Lets fresh phones take whatever is left to claim. */
  async drain(): Promise<void> {
    for (;;) {
      const [phone] = (await this.seedPhones(1)) as [Phone];
      if (!(await this.database.write((work) => findNextClaimable(work, work.now)))) return;
      await this.database.write((work) => holdNext(work, phone, 'CLAIMED'));
    }
  }

  /** Ends a lease by hand at an instant that many milliseconds from now. */
  async endLease(task_id: string, inMs: number): Promise<void> {
    const lease_expires_at = new Date(Date.parse(await this.database.now()) + inMs).toISOString();
    await this.database.write(async ({ trx }) => {
      await trx('tasks').where({ id: task_id }).whereNotNull('lease_expires_at').update({ lease_expires_at });
      await trx('claims').where({ task_id, closed_at: null }).update({ lease_expires_at });
    });
  }

  // ------------------------------------------------------------------------------------------- looking

  async standing(task_id: string): Promise<[status: string, version: number, generation: number]> {
    const facts = await findTaskFacts(this.database.read, task_id);
    if (!facts) throw new Error(`there is no task ${task_id}`);
    return [facts.task.status, facts.task.version, facts.task.claim_generation];
  }

  // biome-ignore lint/suspicious/noExplicitAny: rows of any table
  rows(table: string, where: object = {}): Promise<any[]> {
    return this.database.read.knex(table).where(where);
  }
}

const LOT = 20;

/** Seeds in a few transactions, one after another, so that tasks keep the order in which they were made. */
async function inLots<T>(count: number, make: (size: number, from: number) => Promise<T[]>): Promise<T[]> {
  const made: T[] = [];
  while (made.length < count) made.push(...(await make(Math.min(LOT, count - made.length), made.length)));
  return made;
}

async function holdNext(
  work: Work,
  phone: Phone,
  until: 'CLAIMED' | 'RUNNING' | 'SUBMITTING',
): Promise<Held> {
  const { key, token } = newAsk();
  const token_hash = hashSecret(token);
  const { actor, device_id } = phone;
  const claim = { idempotency_key: key, device_id, token_hash };
  const claimed = (await claimNextTask(work, actor, claim, TIMINGS)) as LifecycleOutcome;
  const { task } = claimed.held.facts;
  const call = {
    idempotency_key: key,
    task_id: task.id,
    token_hash,
    claim_generation: task.claim_generation,
    expected_version: task.version,
  };
  const held = { phone, key, token, task_id: task.id, claim_generation: task.claim_generation };
  if (until === 'CLAIMED') return { ...held, version: task.version };
  const started = (await startTask(work, actor, call, TIMINGS)).held;
  const execution_id = started.attempt.execution_id as string;
  const { version } = started.facts.task;
  if (until === 'RUNNING') return { ...held, execution_id, version };
  const fence = { ...call, ...OFFER, execution_id, expected_version: version };
  const fenced = (await fenceSubmission(work, actor, fence, TIMINGS)).held;
  return { ...held, execution_id, version: fenced.facts.task.version };
}

// --------------------------------------------------------------------------------------- calls of a phone

export function newAsk(): Ask {
  return { key: uuidv7(), token: newSecret() };
}

function keyed({ headers }: Phone, key: string, token: string): Record<string, string> {
  return { ...headers, 'idempotency-key': key, 'x-claim-token': token };
}

/**
 * Sends until the answer is another one than "not now": a 503 changed nothing, names a time to wait, and is to be sent
 * again as it was.
 */
export async function insist(send: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    const answer = await send();
    if (answer.status !== 503) return answer;
    if (!(Number(answer.headers['retry-after']) > 0)) throw new Error('a 503 says when to come again');
    if (answer.json?.code !== 'SERVICE_UNAVAILABLE') throw new Error('a 503 says what it is');
  }
}

export function claim(
  wire: Wire,
  phone: Phone,
  ask: Ask,
  sent: { wait_seconds?: number; signal?: AbortSignal } = {},
) {
  const { wait_seconds, signal } = sent;
  return wire.send('/api/v1/device/claim-next', {
    headers: keyed(phone, ask.key, ask.token),
    body: { device_id: phone.device_id, ...(wait_seconds !== undefined && { wait_seconds }) },
    signal,
  });
}

export function start(wire: Wire, held: Held, key = uuidv7()): Promise<Answer> {
  const { claim_generation, version: expected_version } = held;
  return onTask(wire, held, 'start', { claim_generation, expected_version }, key);
}

export function beatTask(wire: Wire, held: Held, step = 'SEARCHING'): Promise<Answer> {
  const { claim_generation, execution_id } = held;
  return onTask(wire, held, 'heartbeat', { claim_generation, execution_id, step });
}

export function fence(wire: Wire, held: Held, key = uuidv7()): Promise<Answer> {
  const { claim_generation, execution_id, version: expected_version } = held;
  return onTask(
    wire,
    held,
    'submission-fence',
    { claim_generation, execution_id, expected_version, ...OFFER },
    key,
  );
}

export function report(wire: Wire, held: Held, result: object, key = uuidv7()): Promise<Answer> {
  const { claim_generation, execution_id } = held;
  return onTask(wire, held, 'submission-result', { claim_generation, execution_id, ...result }, key);
}

function onTask(wire: Wire, held: Held, call: string, body: object, key?: string): Promise<Answer> {
  const { 'idempotency-key': given, ...headers } = keyed(held.phone, key ?? '', held.token);
  const sent: Sent = { headers: { ...headers, ...(given && { 'idempotency-key': given }) }, body };
  return wire.send(`/api/v1/device/tasks/${held.task_id}/${call}`, sent);
}

export function beat(wire: Wire, phone: Phone, over: object = {}): Promise<Answer> {
  const body = { device_id: phone.device_id, ...READY, ...over };
  return wire.send('/api/v1/device/heartbeat', { headers: phone.headers, body });
}
