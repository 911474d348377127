import { Router } from 'express';
import type { AdminActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import type { TaskAction, TaskDetail, TaskEvent } from '../contract/generated/types.gen';
import { taskEvent } from '../http/admin-views';
import { deleteReferenceImage } from '../lifecycle/delete-reference-image';
import { putReferenceImage } from '../lifecycle/put-reference-image';
import { startPurchase } from '../lifecycle/start-purchase';
import { keepImage } from '../media/keep-image';
import type { Work } from '../store/database';
import { listTaskEvents } from '../store/reports';
import { findTaskRow } from '../store/tasks';
import {
  checkFormToken,
  type Fault,
  type FormFields,
  type FormRules,
  parseActionForm,
  parsePictureForm,
  pictureOf,
  readForm,
  viewForm,
} from './forms';
import { actionsFor, expectedVersion, readTask, taskIdOf } from './shown-task';
import { showConflict } from './task-conflict';
import { tellEvent } from './task-events';
import { tellSituation } from './task-situation';
import {
  type AdminVisit,
  admin,
  csrfOf,
  type Desk,
  noteOf,
  pagerOf,
  queryText,
  seeOther,
  show,
  transact,
} from './visit';
import type { WordKey } from './words/words';

const EVENT_PAGE = 100;

const notes = {
  created: 'task.saved_created',
  updated: 'task.saved_updated',
  START_PURCHASE: 'action.START_PURCHASE_done',
  PUT_REFERENCE_IMAGE: 'action.PUT_REFERENCE_IMAGE_done',
  DELETE_REFERENCE_IMAGE: 'action.DELETE_REFERENCE_IMAGE_done',
} as const satisfies Record<string, WordKey>;

const startRules = {
  expected_task_version: expectedVersion,
  authorization_ttl_seconds: {
    kind: 'choice',
    label: 'field.authorization_ttl',
    options: ['3600', '28800', '86400', '259200'],
  },
} as const;
const bareRules = { expected_task_version: expectedVersion } as const;

/** A task's page and the buttons on it. */
export function taskDetailPages(desk: Desk): Router {
  const { timings } = desk.services;
  const router = Router();

  router.get(
    '/admin/tasks/:task_id',
    admin(desk, async (visit) => showTask(desk, visit, await readTask(desk, taskIdOf(visit)))),
  );

  const action = <R extends FormRules & typeof bareRules>(
    path: string,
    name: TaskAction & keyof typeof notes,
    rules: R,
    verb: (work: Work, actor: AdminActor, taskId: string, fields: FormFields<R>) => Promise<unknown>,
  ) => {
    router.post(
      `/admin/tasks/:task_id/${path}`,
      parseActionForm,
      admin(desk, async (visit) => {
        checkFormToken(visit.request, visit.csrf);
        const taskId = taskIdOf(visit);
        const form = readForm(rules, visit.request.body);
        if (!form.fields) return refuseAction(desk, visit, taskId, name, form);
        const { fields } = form;
        try {
          await transact(desk, visit, (work, actor) => verb(work, actor, taskId, fields));
        } catch (error) {
          if (!(error instanceof Refusal) || error.status !== 409) throw error;
          const { expected_task_version } = fields as FormFields<typeof bareRules>;
          return showConflict(desk, visit, error, taskId, expected_task_version);
        }
        seeOther(visit.response, `/admin/tasks/${taskId}?done=${name}`);
      }),
    );
  };

  action('start-purchase', 'START_PURCHASE', startRules, (work, actor, task_id, fields) => {
    const { expected_task_version, authorization_ttl_seconds: ttl } = fields;
    const request = {
      task_id,
      expected_task_version,
      ...(ttl && { authorization_ttl_seconds: Number(ttl) }),
    };
    return startPurchase(work, actor, request, timings);
  });
  action('reference-image/delete', 'DELETE_REFERENCE_IMAGE', bareRules, (work, actor, task_id, fields) =>
    deleteReferenceImage(work, actor, { task_id, ...fields }),
  );

  router.get(
    '/admin/tasks/:task_id/reference-image',
    admin(desk, async (visit) => {
      const task = await findTaskRow(desk.services.database.read, taskIdOf(visit));
      if (!task) throw new Refusal('TASK_NOT_FOUND');
      const sha256 = task.reference_image_sha256;
      const jpeg = sha256 === null ? undefined : await desk.services.images.read(sha256);
      if (!jpeg) throw new Refusal('NOT_FOUND');
      visit.response.set('Cache-Control', 'private, no-store').type('image/jpeg').send(jpeg);
    }),
  );

  router.post(
    '/admin/tasks/:task_id/reference-image',
    parsePictureForm(csrfOf),
    admin(desk, async (visit) => {
      const taskId = taskIdOf(visit);
      const form = readForm(bareRules, visit.request.body);
      if (!form.fields) throw new Refusal('INVALID_REQUEST');
      const { expected_task_version } = form.fields;
      const { bytes, fault } = pictureOf(visit.response);
      const refuse = (key: WordKey, status?: number) =>
        refuseAction(
          desk,
          visit,
          taskId,
          'PUT_REFERENCE_IMAGE',
          { values: {}, faults: [{ field: 'picture', key }] },
          status,
        );
      if (fault) return refuse(fault, fault === 'fault.picture_large' ? 413 : 400);
      if (!bytes) return refuse('fault.picture_missing');
      try {
        await keepImage(desk.services, bytes, (record) =>
          transact(desk, visit, async (work, actor) =>
            putReferenceImage(work, actor, {
              task_id: taskId,
              expected_task_version,
              sha256: await record(work),
            }),
          ),
        );
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        if (error.code === 'INVALID_IMAGE') return refuse('fault.picture_bad');
        if (error.status === 409) return showConflict(desk, visit, error, taskId, expected_task_version);
        throw error;
      }
      seeOther(visit.response, `/admin/tasks/${taskId}?done=PUT_REFERENCE_IMAGE`);
    }),
  );
  return router;
}

interface FailedAction {
  key: string;
  form: ReturnType<typeof viewForm>;
}

async function showTask(
  desk: Desk,
  visit: AdminVisit,
  task: TaskDetail,
  failed?: FailedAction,
  status = 200,
) {
  const { words, request } = visit;
  const path = `/admin/tasks/${task.id}`;
  const cursor = queryText(request, 'cursor', 2_000);
  const events = await listTaskEvents(desk.services.database.read, task.id, { limit: EVENT_PAGE, cursor });
  visit.context.here ||= path;
  show(
    visit,
    'task-detail',
    { title: task.title, section: 'tasks' },
    {
      task,
      failed,
      events: events.items.map(taskEvent),
      tellEvent: (event: TaskEvent) => tellEvent(event, words, visit.context.zone),
      moreEvents: pagerOf(visit, path, events).next,
      situation: tellSituation(task, words, visit.context.zone, visit.context.now),
      actions: actionsFor(desk, visit, task),
      note: noteOf(visit, notes),
    },
    status,
  );
}

/** The task's page again, with the faults at the form that has them. */
async function refuseAction(
  desk: Desk,
  visit: AdminVisit,
  taskId: string,
  key: string,
  { values, faults }: { values: Record<string, string>; faults: readonly Fault[] },
  status = 400,
): Promise<void> {
  const task = await readTask(desk, taskId);
  await showTask(desk, visit, task, { key, form: viewForm(values, faults, visit.words) }, status);
}
