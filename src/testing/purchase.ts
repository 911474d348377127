import { v7 as uuidv7 } from 'uuid';
import { confirmActor } from '../access/confirm-actor';
import { type DeviceReport, sendDeviceHeartbeat } from '../access/send-device-heartbeat';
import type { Instant } from '../clock';
import type { AdminActor, DeviceActor } from '../contract/actor';
import type { TaskStatus } from '../contract/moves';
import { type ClaimOutcome, type ClaimRequest, claimNextTask } from '../lifecycle/claim-next-task';
import { type CreateTaskRequest, createTask } from '../lifecycle/create-task';
import { type FenceRequest, fenceSubmission } from '../lifecycle/fence-submission';
import type { HeldTask, LifecycleOutcome } from '../lifecycle/held-task';
import { type ResultRequest, reportSubmissionResult } from '../lifecycle/report-submission-result';
import { sendTaskHeartbeat, type TaskHeartbeat } from '../lifecycle/send-task-heartbeat';
import { startPurchase } from '../lifecycle/start-purchase';
import { type StartRequest, startTask } from '../lifecycle/start-task';
import type { Timings } from '../lifecycle/timings';
import { endAttempt } from '../store/attempts';
import { closeClaim } from '../store/claims';
import { hashSecret, newSecret } from '../store/credentials';
import type { Database, Work } from '../store/database';
import type { TaskFacts, Wish } from '../store/facts';
import { insertImage } from '../store/images';
import type { TaskEventRow } from '../store/reports';
import { findTaskFacts, lockTask, moveTask } from '../store/tasks';
import { openTestDatabase, type TestDatabase } from './open-test-database';
import { makeDevice, makeUser, signInAdmin, signInDevice } from './people-and-devices';
import type { SettableClock } from './settable-clock';

export const TIMINGS: Timings = {
  claim_lease_seconds: 600,
  run_lease_seconds: 90,
  device_heartbeat_ttl_seconds: 120,
  authorization_ttl_seconds: 86_400,
};

export const WISH: Wish = {
  title: '蓝牙耳机 bluetooth earphones',
  quantity: 2,
  max_unit_price_cents: 5_000,
  max_total_cents: 9_000,
  confirmation_required: false,
};

/** Exactly at both limits of the wish. */
export const OFFER = { unit_price_cents: 5_000, quantity: 2, total_cents: 9_000 };

const READY: DeviceReport = {
  app_version: '1.0.0',
  android_version: '14',
  accessibility_connected: true,
  pinduoduo_installed: true,
};

const YEAR_SECONDS = 365 * 86_400;

/** A claim as its phone remembers it: all that the next call needs. */
export interface Claimed {
  phone: DeviceActor;
  request: ClaimRequest;
  task_id: string;
  token_hash: string;
  claim_generation: number;
  claim_id: string;
  attempt_id: string;
  authorization_id: string;
  version: number;
  lease_expires_at: Instant;
}

export interface Running extends Claimed {
  start_request: StartRequest;
  execution_id: string;
}

export interface Submitting extends Running {
  fence_request: FenceRequest;
  submission_id: string;
}

export interface Ordered extends Submitting {
  result_request: ResultRequest;
}

/** A database with an admin, a buyer and a ready phone, and tasks brought to each state by the real verbs. */
export class Purchase {
  private phones = 1;

  constructor(
    readonly database: Database,
    readonly clock: SettableClock,
    readonly admin: AdminActor,
    readonly phone: DeviceActor,
    readonly timings: Timings,
    private readonly opened: TestDatabase,
  ) {}

  /** The same people and facts through a second pool, as another process has one. */
  throughAnotherPool(): Purchase {
    const { clock, admin, phone, timings, opened } = this;
    return new Purchase(opened.openAnother(), clock, admin, phone, timings, opened);
  }

  close(): Promise<void> {
    return this.opened.close();
  }

  /** One verb in one transaction, with its actor confirmed, as the doors do it. */
  act<T>(actor: AdminActor | DeviceActor, verb: (work: Work) => Promise<T>): Promise<T> {
    return this.database.write(async (work) => {
      await (actor.type === 'DEVICE' ? confirmActor(work, actor) : confirmActor(work, actor));
      return verb(work);
    });
  }

  // ------------------------------------------------------------------------------------------- people

  /** Another buyer with another phone, ready to claim. */
  async addPhone(): Promise<DeviceActor> {
    this.phones += 1;
    const buyer = await makeUser(this.database, `buyer-${this.phones}`, 'BUYER');
    const device_id = `phone-${String(this.phones).padStart(4, '0')}`;
    await makeDevice(this.database, this.admin, buyer, device_id);
    const { actor } = await signInDevice(this.database, buyer, device_id, YEAR_SECONDS);
    await this.beat(actor);
    return actor;
  }

  async addPhones(count: number): Promise<DeviceActor[]> {
    const added: DeviceActor[] = [];
    while (added.length < count) added.push(await this.addPhone());
    return added;
  }

  /** A device heartbeat: keeps the phone ready, or says why it is not. */
  beat(phone: DeviceActor, report: Partial<DeviceReport> = {}): Promise<unknown> {
    return this.database.write((work) =>
      sendDeviceHeartbeat(work, phone, { ...READY, ...report }, this.timings),
    );
  }

  // -------------------------------------------------------------------------------------------- admin

  async draft(
    wish: Partial<CreateTaskRequest['wish']> = {},
    reference_image_sha256?: string,
  ): Promise<TaskFacts> {
    const request = { idempotency_key: uuidv7(), wish: { ...WISH, ...wish }, reference_image_sha256 };
    return (await this.act(this.admin, (work) => createTask(work, this.admin, request))).facts;
  }

  async pending(
    wish: Partial<CreateTaskRequest['wish']> = {},
    options: { authorization_ttl_seconds?: number; reference_image_sha256?: string } = {},
  ): Promise<TaskFacts> {
    const { task } = await this.draft(wish, options.reference_image_sha256);
    return this.press(task.id, 1, options.authorization_ttl_seconds);
  }

  /** An admin presses "start purchase". */
  press(task_id: string, expected_task_version: number, authorization_ttl_seconds?: number) {
    const request = { task_id, expected_task_version, authorization_ttl_seconds };
    return this.act(this.admin, (work) => startPurchase(work, this.admin, request, this.timings));
  }

  /** The digest of a picture that is stored. */
  async picture(seed = 'a'): Promise<string> {
    const sha256 = hashSecret(`picture ${seed}`);
    await this.database.write((work) => insertImage(work, { sha256, bytes: 9, width: 3, height: 3 }));
    return sha256;
  }

  // ------------------------------------------------------------------------------------------- device

  claimRequest(phone: DeviceActor, over: Partial<ClaimRequest> = {}): ClaimRequest {
    return {
      idempotency_key: uuidv7(),
      device_id: phone.device_id,
      token_hash: hashSecret(newSecret()),
      ...over,
    };
  }

  /** One call of claim-next, as it comes. */
  poll(
    phone: DeviceActor,
    request: ClaimRequest = this.claimRequest(phone),
    look?: 'LAST' | 'MORE_TO_COME',
  ): Promise<ClaimOutcome> {
    return this.act(phone, (work) => claimNextTask(work, phone, request, this.timings, look));
  }

  /** A heartbeat and a claim that must hand out a task. */
  async claim(phone: DeviceActor = this.phone, over: Partial<ClaimRequest> = {}): Promise<Claimed> {
    await this.beat(phone);
    const request = this.claimRequest(phone, over);
    return claimedOf(phone, request, heldOf(await this.poll(phone, request)));
  }

  startRequest(claimed: Claimed, over: Partial<StartRequest> = {}): StartRequest {
    const { task_id, token_hash, claim_generation, version } = claimed;
    return {
      idempotency_key: uuidv7(),
      task_id,
      token_hash,
      claim_generation,
      expected_version: version,
      ...over,
    };
  }

  callStart(phone: DeviceActor, request: StartRequest): Promise<LifecycleOutcome> {
    return this.act(phone, (work) => startTask(work, phone, request, this.timings));
  }

  async start(claimed: Claimed, over: Partial<StartRequest> = {}): Promise<Running> {
    const start_request = this.startRequest(claimed, over);
    const { held } = await this.callStart(claimed.phone, start_request);
    return {
      ...claimed,
      start_request,
      execution_id: held.attempt.execution_id!,
      version: held.facts.task.version,
      lease_expires_at: held.claim.lease_expires_at,
    };
  }

  heartbeatOf(running: Running, over: Partial<TaskHeartbeat> = {}): TaskHeartbeat {
    const { task_id, token_hash, claim_generation, execution_id } = running;
    return { task_id, token_hash, claim_generation, execution_id, step: 'SEARCHING', ...over };
  }

  callHeartbeat(phone: DeviceActor, heartbeat: TaskHeartbeat): Promise<HeldTask> {
    return this.act(phone, (work) => sendTaskHeartbeat(work, phone, heartbeat, this.timings));
  }

  fenceRequest(running: Running, over: Partial<FenceRequest> = {}): FenceRequest {
    const { task_id, token_hash, claim_generation, execution_id, version } = running;
    return {
      idempotency_key: uuidv7(),
      task_id,
      token_hash,
      claim_generation,
      execution_id,
      expected_version: version,
      ...OFFER,
      ...over,
    };
  }

  callFence(phone: DeviceActor, request: FenceRequest): Promise<LifecycleOutcome> {
    return this.act(phone, (work) => fenceSubmission(work, phone, request, this.timings));
  }

  async fence(running: Running, over: Partial<FenceRequest> = {}): Promise<Submitting> {
    const fence_request = this.fenceRequest(running, over);
    const { held } = await this.callFence(running.phone, fence_request);
    return {
      ...running,
      fence_request,
      submission_id: held.facts.submission!.id,
      version: held.facts.task.version,
      lease_expires_at: held.claim.lease_expires_at,
    };
  }

  resultRequest(running: Running, over: Partial<ResultRequest> = {}): ResultRequest {
    const { task_id, token_hash, claim_generation, execution_id } = running;
    return {
      idempotency_key: uuidv7(),
      task_id,
      token_hash,
      claim_generation,
      execution_id,
      outcome: 'ORDER_CREATED',
      ...(over.outcome === undefined || over.outcome === 'ORDER_CREATED' ? { order_no: 'P-1' } : {}),
      ...over,
    };
  }

  callResult(phone: DeviceActor, request: ResultRequest): Promise<LifecycleOutcome> {
    return this.act(phone, (work) => reportSubmissionResult(work, phone, request));
  }

  async report(submitting: Submitting, over: Partial<ResultRequest> = {}): Promise<Ordered> {
    const result_request = this.resultRequest(submitting, over);
    const { held } = await this.callResult(submitting.phone, result_request);
    return { ...submitting, result_request, version: held.facts.task.version };
  }

  // -------------------------------------------------------------------------- a task of its own in a state

  async claimed(phone?: DeviceActor, wish: Partial<Wish> = {}): Promise<Claimed> {
    await this.pending(wish);
    return this.claim(phone);
  }

  async running(phone?: DeviceActor, wish: Partial<Wish> = {}): Promise<Running> {
    return this.start(await this.claimed(phone, wish));
  }

  async submitting(phone?: DeviceActor): Promise<Submitting> {
    return this.fence(await this.running(phone));
  }

  async ordered(phone?: DeviceActor): Promise<Ordered> {
    return this.report(await this.submitting(phone));
  }

  /** Lets the claim lease run out and another phone take the task over. */
  async takenOver(claimed: Claimed, by: DeviceActor): Promise<Claimed> {
    this.clock.set(claimed.lease_expires_at);
    return this.claim(by);
  }

  // ------------------------------------------- facts that other verbs leave behind, written as they write them

  /** A phone asked, and a person answered (or not yet): the task stands in RUNNING or WAITING_CONFIRMATION. */
  async confirmation(
    running: Running,
    status: 'REQUESTED' | 'APPROVED' | 'REJECTED',
    offer: Partial<typeof OFFER> = {},
  ): Promise<{ confirmation_id: string; running: Running }> {
    const confirmation_id = uuidv7();
    return this.database.write(async (work) => {
      const facts = (await lockTask(work, running.task_id))!;
      const ordinal = Number(facts.confirmation?.ordinal ?? 0) + 1;
      const decided = status === 'REQUESTED' ? {} : { decided_at: work.now, decided_by: this.admin.user_id };
      await work.trx('confirmations').insert({
        id: confirmation_id,
        task_id: running.task_id,
        attempt_id: running.attempt_id,
        ordinal,
        status,
        title: '耳机',
        shop_name: '旗舰店',
        ...OFFER,
        ...offer,
        evidence_ids: '[]',
        requested_at: work.now,
        ...decided,
      });
      await moveTask(work, running.phone, facts, 'task.confirmation_requested');
      if (status !== 'REQUESTED') await moveTask(work, this.admin, facts, 'task.confirmation_decided');
      return { confirmation_id, running: { ...running, version: facts.task.version } };
    });
  }

  /** An admin wants the phone to stop. */
  async cancelRequested(claimed: Claimed): Promise<void> {
    await this.database.write((work) =>
      work
        .trx('attempts')
        .where('id', claimed.attempt_id)
        .update({ cancel_requested_at: work.now, cancel_requested_by: this.admin.user_id }),
    );
  }

  /** The claim is closed and the task canceled: from CLAIMED at once, from RUNNING by the phone's acknowledgement. */
  async canceled(claimed: Claimed): Promise<void> {
    await this.database.write(async (work) => {
      const facts = (await lockTask(work, claimed.task_id))!;
      await endAttempt(work, facts.attempt!, 'ABANDONED');
      await work
        .trx('authorizations')
        .where('id', facts.authorization!.id)
        .update({ status: 'ABANDONED', closed_at: work.now });
      await moveTask(work, this.admin, facts, 'task.canceled');
      await closeClaim(work, facts.claim!, facts.task);
    });
  }

  /** A person decided what came of a submission that nobody was sure of. */
  async resolved(task_id: string, resolution: 'ORDER_CREATED' | 'NO_ORDER', order_no = 'P-1'): Promise<void> {
    await this.database.write(async (work) => {
      const facts = (await lockTask(work, task_id))!;
      const ordered = resolution === 'ORDER_CREATED';
      await work
        .trx('order_submissions')
        .where('task_id', task_id)
        .update({
          status: 'MANUAL_RESOLVED',
          resolution,
          resolved_at: work.now,
          resolved_by: this.admin.user_id,
          ...(ordered ? { order_no } : { note: 'looked, found none' }),
        });
      if (ordered) await work.trx('attempts').where('id', facts.attempt!.id).update({ status: 'SUCCEEDED' });
      await moveTask(work, this.admin, facts, ordered ? 'task.order_confirmed' : 'task.no_order_confirmed');
      await closeClaim(work, facts.claim!, facts.task);
    });
  }

  // ------------------------------------------------------------------------------------------- looking

  async facts(task_id: string): Promise<TaskFacts> {
    const facts = await findTaskFacts(this.database.read, task_id);
    if (!facts) throw new Error(`there is no task ${task_id}`);
    return facts;
  }

  async standing(task_id: string): Promise<[TaskStatus, number]> {
    const { task } = await this.facts(task_id);
    return [task.status, task.version];
  }

  events(task_id: string): Promise<TaskEventRow[]> {
    return this.database.read.knex('task_events').where({ task_id }).orderBy('seq');
  }

  async lastEvent(task_id: string) {
    const {
      type,
      from_status,
      to_status,
      version,
      actor_type,
      actor_user_id,
      actor_device_id,
      attempt_id,
      detail,
    } = (await this.events(task_id)).at(-1)!;
    return {
      type,
      from_status,
      to_status,
      version,
      actor: [actor_type, actor_user_id, actor_device_id],
      attempt_id,
      detail: detail === null ? null : JSON.parse(detail),
    };
  }

  // biome-ignore lint/suspicious/noExplicitAny: rows of any table
  rows(table: string, where: object = {}): Promise<any[]> {
    return this.database.read.knex(table).where(where);
  }
}

export function heldOf(outcome: ClaimOutcome): HeldTask {
  if (!outcome || !('held' in outcome)) throw new Error(`no task was handed out: ${JSON.stringify(outcome)}`);
  return outcome.held;
}

export function claimedOf(phone: DeviceActor, request: ClaimRequest, held: HeldTask): Claimed {
  return {
    phone,
    request,
    task_id: held.facts.task.id,
    token_hash: request.token_hash,
    claim_generation: held.claim.generation,
    claim_id: held.claim.id,
    attempt_id: held.attempt.id,
    authorization_id: held.authorization.id,
    version: held.facts.task.version,
    lease_expires_at: held.claim.lease_expires_at,
  };
}

export async function openPurchase(timings: Partial<Timings> = {}): Promise<Purchase> {
  const opened = await openTestDatabase();
  const { database, clock } = opened;
  const boss = await makeUser(database, 'boss', 'ADMIN');
  const admin = (await signInAdmin(database, boss, YEAR_SECONDS)).actor;
  const buyer = await makeUser(database, 'buyer-1', 'BUYER');
  await makeDevice(database, admin, buyer, 'phone-0001');
  const phone = (await signInDevice(database, buyer, 'phone-0001', YEAR_SECONDS)).actor;
  const purchase = new Purchase(database, clock, admin, phone, { ...TIMINGS, ...timings }, opened);
  await purchase.beat(phone);
  return purchase;
}

/** Moves an instant by some milliseconds. */
export function shifted(instant: Instant, milliseconds: number): Instant {
  return new Date(Date.parse(instant) + milliseconds).toISOString();
}
