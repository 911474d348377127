import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { confirmActor } from '../access/confirm-actor';
import { loginDevice } from '../access/login-device';
import { logoutDevice } from '../access/logout-device';
import { sendDeviceHeartbeat } from '../access/send-device-heartbeat';
import type { Instant } from '../clock';
import type { DeviceActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import type { LifecycleAnswer } from '../contract/generated/types.gen';
import { type ClaimOutcome, claimNextTask } from '../lifecycle/claim-next-task';
import { isLeaseLive, readinessReasons, STARTED_STATUSES } from '../lifecycle/eligibility';
import { fenceSubmission } from '../lifecycle/fence-submission';
import { getHeldTask } from '../lifecycle/get-held-task';
import { getReferenceImage } from '../lifecycle/get-reference-image';
import { type HeldTask, type LifecycleOutcome, viewOfLatest } from '../lifecycle/held-task';
import { reportSubmissionResult } from '../lifecycle/report-submission-result';
import { sendTaskHeartbeat } from '../lifecycle/send-task-heartbeat';
import { startTask } from '../lifecycle/start-task';
import { nextDeviceHeartbeatInMs, nextTaskHeartbeatInMs } from '../lifecycle/timings';
import type { Source, Work } from '../store/database';
import { findDevice, findLiveAttempt } from '../store/devices';
import { findImage, type ImageRow } from '../store/images';
import { findNextClaimable, findTaskFacts } from '../store/tasks';
import { userReference } from './admin-views';
import { claimedTaskAnswer, lifecycleAnswer } from './device-views';
import type { Call, DeviceCaller, Handlers } from './router';
import type { Services } from './services';

export type DeviceOperation =
  | 'loginDevice'
  | 'logoutDevice'
  | 'getDeviceContext'
  | 'sendDeviceHeartbeat'
  | 'claimNextTask'
  | 'getHeldTask'
  | 'getReferenceImage'
  | 'startTask'
  | 'sendTaskHeartbeat'
  | 'fenceSubmission'
  | 'reportSubmissionResult';

/** How often a waiting claim looks again. */
const WAIT_TICK_MS = 250;

/** The device door: shapes a request for its verb, runs it in one transaction, shapes the answer. */
export function deviceOperations(services: Services): Pick<Handlers, DeviceOperation> {
  const { database, timings } = services;

  /** One verb in one transaction, after its caller was read again in it. */
  function transact<T>(
    call: { callers: Call<DeviceOperation>['callers'] },
    verb: (work: Work, actor: DeviceActor) => Promise<T>,
  ): Promise<{ result: T; now: Instant }> {
    const { actor } = callerOf(call);
    return database.write(async (work) => {
      await confirmActor(work, actor);
      return { result: await verb(work, actor), now: work.now };
    });
  }

  async function answerLifecycle(
    call: { callers: Call<DeviceOperation>['callers'] },
    verb: (work: Work, actor: DeviceActor) => Promise<LifecycleOutcome>,
  ) {
    const { result, now } = await transact(call, verb);
    return json200(lifecycleAnswer(result.held, now), result.replayed);
  }

  return {
    async loginDevice({ body, address }) {
      const { user, device, ...token } = await loginDevice(database, { ...body, address }, services);
      return json200({ ...token, user: userReference(user), device: deviceReference(device) });
    },

    async logoutDevice(call) {
      await database.write((work) => logoutDevice(work, callerOf(call).actor));
      return { status: 204 };
    },

    async getDeviceContext(call) {
      const { user, device: known } = callerOf(call);
      return database.snapshot(async (reader) => {
        const now = await database.now();
        const device = await findDevice(reader, known.device_id);
        if (!device) throw new Refusal('TOKEN_REVOKED');
        const reasons = readinessReasons(device, now, timings);
        const active = await findActiveTask(reader, known.device_id, now);
        return json200({
          user: userReference(user),
          device: deviceReference(device),
          ready: reasons.length === 0,
          readiness_reasons: reasons,
          timings: {
            claim_lease_seconds: timings.claim_lease_seconds,
            run_lease_seconds: timings.run_lease_seconds,
            device_heartbeat_ttl_seconds: timings.device_heartbeat_ttl_seconds,
            next_heartbeat_in_ms: nextDeviceHeartbeatInMs(timings),
          },
          ...(active && { active_task: active }),
          server_time: now,
        });
      });
    },

    async sendDeviceHeartbeat(call) {
      mustBeOwnDevice(call, call.body.device_id);
      const { actor } = callerOf(call);
      const { readiness_reasons, active, now } = await database.write(async (work) => {
        const { readiness_reasons } = await sendDeviceHeartbeat(work, actor, call.body, timings);
        const active = await findActiveTask(work, actor.device_id, work.now);
        return { readiness_reasons, active, now: work.now };
      });
      return json200({
        ready: readiness_reasons.length === 0,
        readiness_reasons,
        ...(active && { active_task: active }),
        consistent: active?.task_id === call.body.active_task_id,
        next_heartbeat_in_ms: nextDeviceHeartbeatInMs(timings),
        server_time: now,
      });
    },

    async claimNextTask(call) {
      mustBeOwnDevice(call, call.body.device_id);
      const request = { ...call.body, ...keyOf(call), token_hash: tokenHashOf(call) };
      const deadline = performance.now() + (call.body.wait_seconds ?? 0) * 1000;
      for (;;) {
        const isOver = services.closing.aborted || performance.now() >= deadline;
        const look = isOver ? 'LAST' : 'MORE_TO_COME';
        const { result, now } = await transact(call, async (work, actor) => {
          const outcome = await claimNextTask(work, actor, request, timings, look);
          return { outcome, image: await imageOf(work, outcome) };
        });
        const { outcome, image } = result;
        if (outcome && 'held' in outcome)
          return json200(claimedTaskAnswer(outcome.held, image, now), outcome.replayed);
        if (outcome) return { status: 204, headers: replayedHeader(outcome.replayed) };
        await untilClaimable(deadline, call.gone);
        // Whoever hung up gets nothing: it can ask again under the same key.
        if (call.gone.aborted) return { status: 204 };
      }
    },

    async getHeldTask(call) {
      const { actor } = callerOf(call);
      const request = { task_id: call.path.task_id, token_hash: tokenHashOf(call) };
      return database.snapshot(async (reader) => {
        const held = await getHeldTask(reader, actor, request);
        return json200(claimedTaskAnswer(held, await frozenImage(reader, held), await database.now()));
      });
    },

    async getReferenceImage(call) {
      const { actor } = callerOf(call);
      const { claim_generation } = call.query;
      const request = { task_id: call.path.task_id, token_hash: tokenHashOf(call), claim_generation };
      const now = await database.now();
      const sha256 = await database.snapshot((reader) => getReferenceImage(reader, actor, request, now));
      const body = await services.images.read(sha256);
      if (!body) throw new Error(`the stored picture ${sha256} is gone`);
      return { status: 200, type: 'image/jpeg', body, headers: { 'Cache-Control': 'private, no-store' } };
    },

    startTask: (call) =>
      answerLifecycle(call, (work, actor) =>
        startTask(work, actor, { ...call.body, ...keyOf(call), ...heldCall(call) }, timings),
      ),

    async sendTaskHeartbeat(call) {
      const { execution_id, claim_generation, step } = call.body;
      const heartbeat = { execution_id, claim_generation, step, ...heldCall(call) };
      const { result, now } = await transact(call, (work, actor) =>
        sendTaskHeartbeat(work, actor, heartbeat, timings),
      );
      return json200({
        ...lifecycleAnswer(result, now),
        next_heartbeat_in_ms: nextTaskHeartbeatInMs(timings),
      });
    },

    fenceSubmission: (call) =>
      answerLifecycle(call, (work, actor) =>
        fenceSubmission(work, actor, { ...call.body, ...keyOf(call), ...heldCall(call) }, timings),
      ),

    async reportSubmissionResult(call) {
      if (call.body.outcome === 'ORDER_CREATED' && call.body.order_no === undefined) {
        const errors = [{ path: '/body/order_no', message: 'is required with ORDER_CREATED' }];
        throw new Refusal('INVALID_REQUEST', { errors });
      }
      return answerLifecycle(call, (work, actor) =>
        reportSubmissionResult(work, actor, { ...call.body, ...keyOf(call), ...heldCall(call) }),
      );
    },
  };

  /** Sleeps until a task can be claimed, the deadline or the client's end. */
  async function untilClaimable(deadline: number, gone: AbortSignal): Promise<void> {
    const ended = AbortSignal.any([gone, services.closing]);
    for (;;) {
      const left = deadline - performance.now();
      if (left <= 0) return;
      await sleep(Math.min(WAIT_TICK_MS, left), undefined, { signal: ended }).catch(() => undefined);
      if (ended.aborted) return;
      if ((await findNextClaimable(database.read, await database.now())) !== undefined) return;
    }
  }
}

function callerOf(call: { callers: { device?: DeviceCaller } }): DeviceCaller {
  if (!call.callers.device) throw new Refusal('UNAUTHENTICATED');
  return call.callers.device;
}

/** The token says who calls; a body that says otherwise is refused, never believed. */
function mustBeOwnDevice(call: { callers: { device?: DeviceCaller } }, deviceId: string): void {
  if (callerOf(call).actor.device_id !== deviceId) throw new Refusal('DEVICE_MISMATCH');
}

function keyOf(call: { headers: { 'idempotency-key': string } }): { idempotency_key: string } {
  return { idempotency_key: call.headers['idempotency-key'] };
}

/** Only the digest of a claim token goes any further than this. */
function tokenHashOf(call: { headers: { 'x-claim-token': string } }): string {
  return createHash('sha256').update(call.headers['x-claim-token']).digest('hex');
}

function heldCall(call: { path: { task_id: string }; headers: { 'x-claim-token': string } }) {
  return { task_id: call.path.task_id, token_hash: tokenHashOf(call) };
}

function json200<T>(body: T, replayed = false) {
  return { status: 200 as const, type: 'application/json' as const, body, headers: replayedHeader(replayed) };
}

function replayedHeader(replayed: boolean): Record<string, string> {
  return replayed ? { 'Idempotent-Replayed': 'true' } : {};
}

function deviceReference({ device_id, label }: { device_id: string; label: string }) {
  return { device_id, label };
}

/** The task that keeps the device busy: an unexpired claim or anything started. */
async function findActiveTask(
  source: Source,
  deviceId: string,
  now: Instant,
): Promise<LifecycleAnswer | undefined> {
  const live = await findLiveAttempt(source, deviceId);
  const facts = live && (await findTaskFacts(source, live.task_id));
  if (!facts?.claim) return undefined;
  const isBusy = STARTED_STATUSES.includes(facts.task.status) || isLeaseLive(facts.claim, now);
  return isBusy ? lifecycleAnswer(viewOfLatest(facts), now) : undefined;
}

function imageOf(source: Source, outcome: ClaimOutcome): Promise<ImageRow | undefined> {
  return outcome && 'held' in outcome ? frozenImage(source, outcome.held) : Promise.resolve(undefined);
}

async function frozenImage(source: Source, { authorization }: HeldTask): Promise<ImageRow | undefined> {
  const sha256 = authorization.reference_image_sha256;
  return sha256 === null ? undefined : findImage(source, sha256);
}
