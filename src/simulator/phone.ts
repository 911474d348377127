import { setTimeout as wait } from 'node:timers/promises';
import { CmbuyerProblem, keyHeaders, newCallKeys } from '@cmbuyer/sdk';
import { Connection, type PhoneTime } from './connection';
import { describe, type PhoneEvent, type Tell } from './events';
import type { Pace } from './pace';
import { forget, type PhoneMemory, purchase, report } from './purchase';
import { between, type Random, seededRandom } from './random';

export interface PhoneOptions {
  baseUrl: string;
  username: string;
  password: string;
  deviceId: string;
  /** Name in events. */
  label: string;
  pace: Pace;
  /** The same seed makes the same offers, order numbers and outcomes. */
  seed: string | number;
  onEvent?: (event: PhoneEvent) => void;
  /** What another phone object remembered before it was stopped: a restart. */
  memory?: PhoneMemory;
  time?: PhoneTime;
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

const systemTime: PhoneTime = {
  now: () => performance.now(),
  sleep: (ms, signal) => wait(ms, undefined, { signal }),
};

/** Refusals after which the claim's keys are of no further use. */
const SPENT_KEYS = ['CLAIM_REPLAY_EXPIRED', 'CLAIM_TOKEN_REUSED', 'IDEMPOTENCY_KEY_REUSED'];

/** A phone that speaks nothing but the contract. It pays nothing and orders nothing: it only says so. */
export class Phone {
  readonly memory: PhoneMemory;
  readonly #options: PhoneOptions;
  readonly #time: PhoneTime;
  readonly #stopping = new AbortController();
  readonly #random: Random;
  readonly #jitter: Random;
  readonly #tell: Tell;
  readonly #connection: Connection;
  readonly #firstHeartbeat: Promise<void>;
  #heartbeatDone: () => void = () => {};
  #running?: Promise<void>;
  #activeTaskId?: string;

  constructor(options: PhoneOptions) {
    this.#options = options;
    this.memory = options.memory ?? {};
    this.#time = options.time ?? systemTime;
    // Two streams: how often something had to be repeated must not change what is bought.
    this.#random = seededRandom(`${options.seed} work`);
    this.#jitter = seededRandom(`${options.seed} jitter`);
    this.#firstHeartbeat = new Promise((resolve) => {
      this.#heartbeatDone = resolve;
    });
    this.#tell = (happening) =>
      options.onEvent?.({ ...happening, label: options.label, text: describe(happening) });
    this.#connection = new Connection({
      ...options,
      time: this.#time,
      jitter: this.#jitter,
      signal: this.#stopping.signal,
      tell: this.#tell,
    });
  }

  /** Works until `stop`. */
  run(): Promise<void> {
    this.#running ??= this.#live();
    return this.#running;
  }

  /** Ends everything at once, wherever the phone is; its memory says where that was. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#heartbeatDone();
    await this.#running;
  }

  async #live(): Promise<void> {
    // The server gives work only to phones that it has heard of.
    const work = this.#firstHeartbeat.then(() => this.#keepWorking());
    await Promise.all([this.#keepAlive(), work]);
    this.#tell({ type: 'stopped' });
  }

  #keepAlive(): Promise<void> {
    return this.#forever('device heartbeat', async () => {
      const { deviceId } = this.#options;
      const { signal } = this.#stopping;
      const { answer } = await this.#connection.ask(() =>
        this.#connection.device.sendDeviceHeartbeat({
          signal,
          body: {
            device_id: deviceId,
            app_version: '1.0.0-simulated',
            android_version: '14',
            pinduoduo_version: '7.20.0',
            accessibility_connected: true,
            pinduoduo_installed: true,
            active_task_id: this.#activeTaskId,
          },
        }),
      );
      this.#heartbeatDone();
      if (!answer.ready) this.#tell({ type: 'not-ready', reasons: answer.readiness_reasons });
      return answer.next_heartbeat_in_ms;
    });
  }

  #keepWorking(): Promise<void> {
    return this.#forever('work', async () => {
      const { pace } = this.#options;
      await report(this.#connection, this.memory, this.#stopping.signal, this.#tell);
      const claim = await this.#claim();
      if (!claim) {
        this.#tell({ type: 'no-task' });
        return between(this.#jitter, pace.idleMs);
      }
      const { answer, sentAt } = claim;
      this.#activeTaskId = answer.task_id;
      try {
        await purchase(
          {
            connection: this.#connection,
            memory: this.memory,
            pace,
            time: this.#time,
            random: this.#random,
            signal: this.#stopping.signal,
            tell: this.#tell,
          },
          answer,
          sentAt,
        );
      } finally {
        this.#activeTaskId = undefined;
      }
      return between(this.#jitter, pace.idleMs);
    });
  }

  async #claim() {
    const { deviceId, pace } = this.#options;
    // Kept until it is answered: a lost answer is asked for again under the same pair.
    this.memory.claim ??= newCallKeys();
    const headers = keyHeaders(this.memory.claim);
    const body = { device_id: deviceId, wait_seconds: pace.waitSeconds };
    try {
      const { answer, sentAt } = await this.#connection.ask(() =>
        this.#connection.device.claimNextTask({ signal: this.#stopping.signal, headers, body }),
      );
      if (!answer) {
        forget(this.memory);
        return undefined;
      }
      const { task_id: taskId, claim_generation: generation, status } = answer;
      this.#tell({ type: 'claimed', taskId, title: answer.task.title, generation, status });
      return { answer, sentAt };
    } catch (error) {
      if (error instanceof CmbuyerProblem && SPENT_KEYS.includes(error.code)) forget(this.memory);
      throw error;
    }
  }

  /** Repeats a turn, which says how long to pause; backs off from failures; ends with `stop`. */
  async #forever(doing: string, turn: () => Promise<number>): Promise<void> {
    const { signal } = this.#stopping;
    let failures = 0;
    while (!signal.aborted) {
      try {
        const pauseMs = await turn();
        failures = 0;
        await this.#connection.pause(pauseMs);
      } catch (error) {
        if (signal.aborted) return;
        await this.#connection.backOff(doing, error, failures).catch(() => {});
        failures += 1;
      }
    }
  }
}
