import { randomBytes, randomUUID } from 'node:crypto';
import { Agent, request as httpRequest } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SeededPhone } from './seed';

/** What a phone calls to buy one thing, in order. */
export const STEPS = ['claim', 'start', 'heartbeat', 'fence', 'result'] as const;
export type Step = (typeof STEPS)[number];

/** As long as a refused phone waits, here: a real one waits longer. */
const RESEND_MS = 200;

/** As much of the server's answers as the next call needs. */
interface Answer {
  task_id: string;
  status: string;
  version: number;
  claim_generation: number;
  execution_id: string;
}

/** Called around every call: for timing, and for recording what the server did meanwhile. */
export interface Watch {
  before?(step: Step): void;
  after?(step: Step, milliseconds: number): void;
  /** When the server was too busy (503), which changes nothing: with this the phone asks again, without it the run ends. */
  refused?(step: Step): void;
}

/** Keep-alive connections to the processes of one server on this machine, one for each phone. */
export class Line {
  private readonly agent: Agent;

  constructor(
    private readonly ports: readonly number[],
    phones: number,
  ) {
    this.agent = new Agent({ keepAlive: true, maxSockets: phones });
  }

  close(): void {
    this.agent.destroy();
  }

  /**
   * Runs `cycles` whole cycles, every phone one at a time and always at the same process, each process with as many phones
   * as the others. Resolves with the milliseconds that they took.
   */
  async run(phones: SeededPhone[], cycles: number, watch: Watch = {}): Promise<number> {
    let left = cycles;
    const started = performance.now();
    await Promise.all(
      phones.map(async (phone, index) => {
        const port = this.ports[index % this.ports.length] as number;
        while (left > 0) {
          left -= 1;
          await this.cycle(port, phone, watch);
        }
      }),
    );
    return performance.now() - started;
  }

  private async cycle(port: number, phone: SeededPhone, watch: Watch): Promise<void> {
    const token = randomBytes(32).toString('base64url');
    const call = (step: Step, path: string, body: object) =>
      this.call(port, phone, token, step, path, body, watch);

    const claim = await call('claim', 'claim-next', { device_id: phone.device_id });
    const task = `tasks/${claim.task_id}`;
    const { claim_generation } = claim;
    const start = await call('start', `${task}/start`, { claim_generation, expected_version: claim.version });
    const { execution_id } = start;
    await call('heartbeat', `${task}/heartbeat`, { execution_id, claim_generation, step: 'SEARCHING' });
    await call('fence', `${task}/submission-fence`, {
      execution_id,
      claim_generation,
      expected_version: start.version,
      unit_price_cents: 2_400,
      quantity: 2,
      total_cents: 4_800,
    });
    const result = await call('result', `${task}/submission-result`, {
      execution_id,
      claim_generation,
      outcome: 'ORDER_CREATED',
      order_no: '260302-123456789012345',
      amount_cents: 4_800,
    });
    if (result.status !== 'ORDERED') throw new Error(`task ${result.task_id} ended ${result.status}`);
  }

  private async call(
    port: number,
    phone: SeededPhone,
    claimToken: string,
    step: Step,
    path: string,
    body: object,
    watch: Watch,
  ): Promise<Answer> {
    const bytes = Buffer.from(JSON.stringify(body));
    const headers = {
      Authorization: `Bearer ${phone.token}`,
      'X-Claim-Token': claimToken,
      'Content-Type': 'application/json',
      'Content-Length': bytes.length,
      ...(step !== 'heartbeat' && { 'Idempotency-Key': randomUUID() }),
    };
    watch.before?.(step);
    const started = performance.now();
    let answer = await this.send(port, `/api/v1/device/${path}`, headers, bytes);
    while (answer.status === 503 && watch.refused) {
      watch.refused(step);
      await sleep(RESEND_MS);
      answer = await this.send(port, `/api/v1/device/${path}`, headers, bytes);
    }
    const { status, text } = answer;
    watch.after?.(step, performance.now() - started);
    if (status !== 200) throw new Error(`${step} was answered with ${status}: ${text}`);
    return JSON.parse(text);
  }

  private send(
    port: number,
    path: string,
    headers: Record<string, string | number>,
    body: Buffer,
  ): Promise<{ status: number; text: string }> {
    return new Promise((resolve, reject) => {
      const options = {
        host: '127.0.0.1',
        port,
        method: 'POST',
        path,
        headers,
        agent: this.agent,
      };
      const request = httpRequest(options, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString('utf8') }),
        );
      });
      request.on('error', reject);
      request.end(body);
    });
  }
}

export function eachStep<T>(make: (step: Step) => T): Record<Step, T> {
  return {
    claim: make('claim'),
    start: make('start'),
    heartbeat: make('heartbeat'),
    fence: make('fence'),
    result: make('result'),
  };
}
