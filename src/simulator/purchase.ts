import { createHash } from 'node:crypto';
import {
  type CallKeys,
  type ClaimedTaskAnswer,
  CmbuyerProblem,
  type FenceSubmissionRequest,
  keyHeaders,
  newCallKeys,
  type SubmissionResultRequest,
} from '@cmbuyer/sdk';
import { type Connection, LeaseOver, type PhoneTime, reasonOf, SignInRefused } from './connection';
import type { Tell } from './events';
import { Lease } from './lease';
import { findOffer } from './offer';
import type { Pace } from './pace';
import { between, digits, type Random } from './random';

const STEPS = ['OPENING_APP', 'SEARCHING', 'COMPARING', 'PRODUCT_PAGE', 'CHOOSING_SPEC', 'FILLING_ORDER'];

/** What the phone keeps over a restart. Each call's keys are stored before it is sent. */
export interface PhoneMemory {
  claim?: CallKeys;
  start?: CallKeys;
  fence?: { keys: CallKeys; body: FenceSubmissionRequest };
  /** Stored before the press, so that a phone which died on it says `UNKNOWN` and never presses twice. */
  pressing?: { taskId: string; body: SubmissionResultRequest };
  result?: { taskId: string; keys: CallKeys; body: SubmissionResultRequest };
}

export interface Work {
  connection: Connection;
  memory: PhoneMemory;
  pace: Pace;
  time: PhoneTime;
  random: Random;
  signal: AbortSignal;
  tell: Tell;
}

/** The phone must do nothing more for this task. */
class Stop extends Error {}

function isStop(error: unknown): boolean {
  return [Stop, LeaseOver, SignInRefused, CmbuyerProblem].some((kind) => error instanceof kind);
}

/** Works on a claimed task until a result is in memory, or until it must stop. */
export async function purchase(work: Work, claimed: ClaimedTaskAnswer, sentAt: number): Promise<void> {
  const { connection, memory, tell } = work;
  const attempt = new Attempt(work, claimed, sentAt);
  try {
    await attempt.run();
  } catch (error) {
    if (!isStop(error)) throw error;
    const reason = error instanceof Stop ? error.message : reasonOf(error);
    tell({ type: 'stopped-safely', taskId: claimed.task_id, reason });
    await attempt.settleUnpressed();
    if (!memory.result && !memory.pressing) forget(memory);
  }
  await report(connection, memory, work.signal, tell);
}

/** Sends a stored result until the server has it: also late, also after the lease. */
export async function report(
  connection: Connection,
  memory: PhoneMemory,
  signal: AbortSignal,
  tell: Tell,
): Promise<void> {
  if (memory.pressing && !memory.result) {
    const { taskId, body } = memory.pressing;
    memory.result = { taskId, keys: newCallKeys(memory.claim?.claimToken), body };
  }
  if (!memory.result) return;
  const { taskId, keys, body } = memory.result;
  try {
    const { answer } = await connection.insist('report', undefined, () =>
      connection.device.reportSubmissionResult({
        signal,
        headers: keyHeaders(keys),
        path: { task_id: taskId },
        body,
      }),
    );
    const { outcome, order_no: orderNo } = body;
    tell({ type: 'reported', taskId, outcome, orderNo, status: answer.status });
  } catch (error) {
    if (!(error instanceof CmbuyerProblem)) throw error;
    tell({ type: 'trouble', doing: 'report', reason: error.code });
  }
  forget(memory);
}

export function forget(memory: PhoneMemory): void {
  for (const key of Object.keys(memory) as (keyof PhoneMemory)[]) delete memory[key];
}

class Attempt {
  readonly #work: Work;
  readonly #claimed: ClaimedTaskAnswer;
  readonly #lease: Lease;
  readonly #claimToken: string;
  #version: number;
  #executionId: string;
  #beatDueAt = 0;

  constructor(work: Work, claimed: ClaimedTaskAnswer, sentAt: number) {
    this.#work = work;
    this.#claimed = claimed;
    this.#lease = new Lease(sentAt, claimed.lease_expires_in_ms);
    this.#claimToken = work.memory.claim!.claimToken;
    this.#version = claimed.version;
    this.#executionId = claimed.execution_id ?? '';
  }

  async run(): Promise<void> {
    const { memory } = this.#work;
    if (this.#claimed.status === 'CLAIMED') {
      await this.#lookAtPicture();
      await this.#start();
    } else if (this.#claimed.status !== 'RUNNING' && this.#claimed.status !== 'SUBMITTING') {
      throw new Stop(this.#claimed.status);
    }
    if (this.#claimed.cancel_requested) throw new Stop('CANCEL_REQUESTED');
    // A stored fence may have been granted: only the same call tells, never another one.
    if (!memory.fence) {
      if (this.#claimed.status === 'SUBMITTING') throw new Stop('SUBMITTING');
      for (const step of STEPS) await this.#take(step);
    }
    await this.#pass();
    await this.#press();
  }

  /** Says `NOT_SUBMITTED` where a fence stands that this phone never went through. */
  async settleUnpressed(): Promise<void> {
    const { connection, memory, signal } = this.#work;
    if (memory.pressing || memory.result || (!memory.fence && this.#claimed.status !== 'SUBMITTING')) return;
    try {
      const { answer } = await connection.insist('look', undefined, () =>
        connection.device.getHeldTask({ signal, path: this.#path, headers: this.#proof }),
      );
      if (answer.status !== 'SUBMITTING') return;
      this.#executionId = answer.execution_id ?? this.#executionId;
      // Without the memory of a fence nobody can tell what came after it.
      const outcome = memory.fence ? 'NOT_SUBMITTED' : 'UNKNOWN';
      this.#keepResult({ outcome, submission_id: answer.submission?.id });
    } catch (error) {
      if (!(error instanceof CmbuyerProblem) && !(error instanceof SignInRefused)) throw error;
    }
  }

  async #lookAtPicture(): Promise<void> {
    const { connection, signal, tell } = this.#work;
    const picture = this.#claimed.task.reference_image;
    if (!picture) return;
    const { answer } = await connection.insist('picture', this.#lease, () =>
      connection.device.getReferenceImage({
        signal,
        path: this.#path,
        query: { claim_generation: this.#claimed.claim_generation },
        headers: this.#proof,
      }),
    );
    const bytes = Buffer.from(await answer.arrayBuffer());
    const intact = createHash('sha256').update(bytes).digest('hex') === picture.sha256;
    tell({ type: 'picture', taskId: this.#claimed.task_id, bytes: bytes.length, intact });
    if (!intact) throw new Stop('PICTURE_DIFFERS');
  }

  async #start(): Promise<void> {
    const { connection, memory, signal, tell } = this.#work;
    memory.start ??= newCallKeys(this.#claimToken);
    const headers = keyHeaders(memory.start);
    const body = {
      claim_generation: this.#claimed.claim_generation,
      expected_version: this.#claimed.version,
    };
    const { answer, sentAt } = await connection.insist('start', this.#lease, () =>
      connection.device.startTask({ signal, headers, path: this.#path, body }),
    );
    this.#lease.renew(sentAt, answer.lease_expires_in_ms);
    this.#version = answer.version;
    this.#executionId = answer.execution_id ?? '';
    tell({ type: 'started', taskId: this.#claimed.task_id });
  }

  async #take(step: string): Promise<void> {
    const { time, pace, random, connection, tell } = this.#work;
    tell({ type: 'step', taskId: this.#claimed.task_id, step });
    const endsAt = time.now() + between(random, pace.stepMs);
    await this.#beat(step);
    for (let now = time.now(); now < endsAt; now = time.now()) {
      await connection.pause(Math.min(endsAt, Math.max(this.#beatDueAt, now + 1)) - now);
      if (time.now() >= this.#beatDueAt) await this.#beat(step);
    }
  }

  async #beat(step: string): Promise<void> {
    const { connection, signal } = this.#work;
    const body = { ...this.#held, step };
    const { answer, sentAt } = await connection.insist('heartbeat', this.#lease, () =>
      connection.device.sendTaskHeartbeat({ signal, path: this.#path, headers: this.#proof, body }),
    );
    this.#lease.renew(sentAt, answer.lease_expires_in_ms);
    this.#version = answer.version;
    this.#beatDueAt = sentAt + answer.next_heartbeat_in_ms;
    if (answer.cancel_requested) throw new Stop('CANCEL_REQUESTED');
  }

  /** Passes the fence. Any refusal stops the phone: nothing was pressed, and nothing will be. */
  async #pass(): Promise<void> {
    const { connection, memory, random, signal, tell } = this.#work;
    if (!memory.fence) {
      const offer = findOffer(this.#claimed.task, random);
      if (!offer) throw new Stop('NO_OFFER_WITHIN_LIMITS');
      const body = { ...this.#held, ...offer, expected_version: this.#version };
      memory.fence = { keys: newCallKeys(this.#claimToken), body };
    }
    const { keys, body } = memory.fence;
    const { answer, sentAt } = await connection.insist('fence', this.#lease, () =>
      connection.device.fenceSubmission({ signal, headers: keyHeaders(keys), path: this.#path, body }),
    );
    this.#lease.renew(sentAt, answer.lease_expires_in_ms);
    tell({ type: 'fenced', taskId: this.#claimed.task_id, totalCents: body.total_cents });
    const { submission } = answer;
    if (!submission || !this.#lease.isLive(this.#work.time.now())) throw new Stop('LEASE_OVER');
    memory.pressing = {
      taskId: this.#claimed.task_id,
      body: { ...this.#held, outcome: 'UNKNOWN', submission_id: submission.id },
    };
  }

  async #press(): Promise<void> {
    const { memory, pace, random, tell } = this.#work;
    const { body } = memory.pressing!;
    tell({ type: 'pressed', taskId: this.#claimed.task_id });
    const isUnknown = random() < pace.unknownShare;
    const orderNo = `${digits(random, 6)}-${digits(random, 15)}`;
    await this.#take('READING_ORDER').catch((error: unknown) => {
      // The order stands or not, whatever the server says about the lease: it must be reported.
      if (!isStop(error)) throw error;
    });
    const amount_cents = memory.fence?.body.total_cents;
    this.#keepResult(
      isUnknown ? body : { ...body, outcome: 'ORDER_CREATED', order_no: orderNo, amount_cents },
    );
  }

  #keepResult(result: Omit<SubmissionResultRequest, 'execution_id' | 'claim_generation'>): void {
    this.#work.memory.result = {
      taskId: this.#claimed.task_id,
      keys: newCallKeys(this.#claimToken),
      body: { ...result, ...this.#held },
    };
  }

  get #path(): { task_id: string } {
    return { task_id: this.#claimed.task_id };
  }

  get #proof(): { 'X-Claim-Token': string } {
    return keyHeaders({ claimToken: this.#claimToken });
  }

  get #held(): { execution_id: string; claim_generation: number } {
    return { execution_id: this.#executionId, claim_generation: this.#claimed.claim_generation };
  }
}
