import { authorizeDevice } from '../access/authorize-device';
import { changeOwnPassword } from '../access/change-own-password';
import { confirmActor } from '../access/confirm-actor';
import { createUser } from '../access/create-user';
import { loginAdmin } from '../access/login-admin';
import { logoutAdmin } from '../access/logout-admin';
import { hashPassword } from '../access/passwords';
import { resetUserPassword } from '../access/reset-user-password';
import { revokeDevice } from '../access/revoke-device';
import { csrfTokenOf, readSessionToken } from '../access/sessions';
import { updateDevice } from '../access/update-device';
import { updateUser } from '../access/update-user';
import type { AdminActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import type { TaskDetail } from '../contract/generated/types.gen';
import { createTask } from '../lifecycle/create-task';
import { deleteReferenceImage } from '../lifecycle/delete-reference-image';
import { putReferenceImage } from '../lifecycle/put-reference-image';
import { startPurchase } from '../lifecycle/start-purchase';
import { updateTask } from '../lifecycle/update-task';
import { keepImage } from '../media/keep-image';
import type { Source, Work } from '../store/database';
import { findDeviceView, pageDevices } from '../store/devices';
import type { TaskFacts } from '../store/facts';
import { findTaskDetail, listTaskEvents, listTasks } from '../store/reports';
import { findTaskRow } from '../store/tasks';
import { pageUsers } from '../store/users';
import { deviceView, taskDetail, taskEvent, taskSummary, userReference, userView } from './admin-views';
import type { DeviceOperation } from './device-operations';
import type { MetaOperation } from './meta-operations';
import type { AdminCaller, Call, Handlers } from './router';
import type { Services } from './services';
import { sessionCookie } from './session-cookie';

type AdminOperation = Exclude<keyof Handlers, DeviceOperation | MetaOperation>;

const DEFAULT_PAGE = 50;

/** The admin door: shapes a request for its verb, runs it in one transaction, shapes the answer. */
export function adminOperations(services: Services): Pick<Handlers, AdminOperation> {
  const { database, timings, images } = services;

  /** One verb in one transaction, after its caller was read again in it. */
  function transact<T>(
    call: { callers: Call<AdminOperation>['callers'] },
    verb: (work: Work, actor: AdminActor) => Promise<T>,
  ): Promise<T> {
    const { actor } = callerOf(call);
    return database.write(async (work) => {
      await confirmActor(work, actor);
      return verb(work, actor);
    });
  }

  /** The task's detail as the verb left it, read in the verb's own transaction. */
  function changeTask(
    call: { callers: Call<AdminOperation>['callers'] },
    verb: (work: Work, actor: AdminActor) => Promise<TaskFacts>,
  ) {
    return transact(call, async (work, actor) => {
      const { task } = await verb(work, actor);
      return json200(await detailOf(work, task.id, work.now));
    });
  }

  return {
    async loginAdmin({ body, address, request }) {
      const previousSessionToken = readSessionToken(request.headers.cookie);
      const login = await loginAdmin(database, { ...body, address, previousSessionToken }, services);
      const { session_token, csrf_token, expires_at, user } = login;
      const cookie = sessionCookie(request, session_token, services.session_ttl_seconds);
      return {
        ...json200({ csrf_token, expires_at, user: userReference(user) }),
        headers: { 'Set-Cookie': cookie },
      };
    },

    async logoutAdmin(call) {
      await database.write((work) => logoutAdmin(work, callerOf(call).actor));
      return { status: 204, headers: { 'Set-Cookie': sessionCookie(call.request, '', 0) } };
    },

    async getAdminContext(call) {
      const { user, sessionToken } = callerOf(call);
      return json200({
        user: userReference(user),
        csrf_token: csrfTokenOf(sessionToken),
        server_time: await database.now(),
      });
    },

    async changeOwnPassword(call) {
      const { actor } = callerOf(call);
      await changeOwnPassword(database, actor, { ...call.body, address: call.address });
      return { status: 204 };
    },

    async listTasks({ query }) {
      const now = await database.now();
      const page = await listTasks(database.read, { ...query, limit: query.limit ?? DEFAULT_PAGE }, now);
      return json200({ ...page, items: page.items.map((row) => taskSummary(row, now)) });
    },

    createTask: (call) =>
      transact(call, async (work, actor) => {
        const { confirmation_required = false, ...wish } = call.body;
        const request = {
          idempotency_key: call.headers['idempotency-key'],
          wish: { ...wish, confirmation_required },
        };
        const { facts, replayed } = await createTask(work, actor, request);
        return json201(await detailOf(work, facts.task.id, work.now), replayed);
      }),

    getTask: ({ path }) =>
      database.snapshot(async (reader) =>
        json200(await detailOf(reader, path.task_id, await database.now())),
      ),

    updateTask: (call) =>
      changeTask(call, (work, actor) => {
        const { expected_task_version, confirmation_required = false, ...wish } = call.body;
        const { task_id } = call.path;
        return updateTask(work, actor, {
          task_id,
          expected_task_version,
          wish: { ...wish, confirmation_required },
        });
      }),

    putReferenceImage: (call) =>
      keepImage(services, call.file, (record) =>
        changeTask(call, async (work, actor) => {
          const sha256 = await record(work);
          const { expected_task_version } = call.query;
          return putReferenceImage(work, actor, {
            task_id: call.path.task_id,
            expected_task_version,
            sha256,
          });
        }),
      ),

    deleteReferenceImage: (call) =>
      changeTask(call, (work, actor) =>
        deleteReferenceImage(work, actor, {
          task_id: call.path.task_id,
          expected_task_version: call.query.expected_task_version,
        }),
      ),

    async getTaskReferenceImage({ path }) {
      const task = await findTaskRow(database.read, path.task_id);
      if (!task) throw new Refusal('TASK_NOT_FOUND');
      if (task.reference_image_sha256 === null) throw new Refusal('NOT_FOUND');
      const body = await images.read(task.reference_image_sha256);
      if (!body) throw new Error(`the stored picture ${task.reference_image_sha256} is gone`);
      return { status: 200, type: 'image/jpeg', body, headers: { 'Cache-Control': 'private, no-store' } };
    },

    startPurchase: (call) =>
      changeTask(call, (work, actor) =>
        startPurchase(work, actor, { task_id: call.path.task_id, ...call.body }, timings),
      ),

    async listTaskEvents({ path, query }) {
      if (!(await findTaskRow(database.read, path.task_id))) throw new Refusal('TASK_NOT_FOUND');
      const page = await listTaskEvents(database.read, path.task_id, {
        ...query,
        limit: query.limit ?? DEFAULT_PAGE,
      });
      return json200({ ...page, items: page.items.map(taskEvent) });
    },

    async listDevices({ query }) {
      const now = await database.now();
      const page = await pageDevices(database.read, { ...query, limit: query.limit ?? DEFAULT_PAGE });
      return json200({ ...page, items: page.items.map((device) => deviceView(device, now, timings)) });
    },

    authorizeDevice: (call) =>
      database.write(async (work) => {
        const request = { ...call.body, idempotency_key: call.headers['idempotency-key'] };
        const { device, replayed } = await authorizeDevice(work, callerOf(call).actor, request);
        return json201(deviceView(device, work.now, timings), replayed);
      }),

    async getDevice({ path }) {
      const device = await findDeviceView(database.read, path.device_id);
      if (!device) throw new Refusal('NOT_FOUND');
      return json200(deviceView(device, await database.now(), timings));
    },

    updateDevice: (call) =>
      database.write(async (work) => {
        const device = await updateDevice(work, callerOf(call).actor, { ...call.body, ...call.path });
        return json200(deviceView(device, work.now, timings));
      }),

    revokeDevice: (call) =>
      database.write(async (work) => {
        const device = await revokeDevice(work, callerOf(call).actor, { ...call.body, ...call.path });
        return json200(deviceView(device, work.now, timings));
      }),

    async listUsers({ query }) {
      const page = await pageUsers(database.read, { ...query, limit: query.limit ?? DEFAULT_PAGE });
      return json200({ ...page, items: page.items.map(userView) });
    },

    async createUser(call) {
      const { actor } = callerOf(call);
      const { password, ...about } = call.body;
      const password_hash = await hashPassword(password, '/body/password');
      const request = { ...about, password_hash, idempotency_key: call.headers['idempotency-key'] };
      const { user, replayed } = await database.write((work) => createUser(work, actor, request));
      return json201(userView(user), replayed);
    },

    updateUser: (call) =>
      database.write(async (work) =>
        json200(userView(await updateUser(work, callerOf(call).actor, { ...call.body, ...call.path }))),
      ),

    async resetUserPassword(call) {
      const { actor } = callerOf(call);
      const password_hash = await hashPassword(call.body.new_password, '/body/new_password');
      await database.write((work) => resetUserPassword(work, actor, { password_hash, ...call.path }));
      return { status: 204 };
    },
  };
}

function callerOf(call: { callers: { admin?: AdminCaller } }): AdminCaller {
  if (!call.callers.admin) throw new Refusal('UNAUTHENTICATED');
  return call.callers.admin;
}

async function detailOf(source: Source, taskId: string, now: string): Promise<TaskDetail> {
  const facts = await findTaskDetail(source, taskId);
  if (!facts) throw new Refusal('TASK_NOT_FOUND');
  return taskDetail(facts, now);
}

function json200<T>(body: T) {
  return { status: 200 as const, type: 'application/json' as const, body };
}

function json201<T>(body: T, replayed: boolean) {
  const headers: Record<string, string> = replayed ? { 'Idempotent-Replayed': 'true' } : {};
  return { status: 201 as const, type: 'application/json' as const, body, headers };
}
