import { Router } from 'express';
import { v7 as uuidv7 } from 'uuid';
import type { AdminActor } from '../contract/actor';
import { Refusal } from '../contract/errors';
import type { TaskDetail } from '../contract/generated/types.gen';
import { createTask } from '../lifecycle/create-task';
import { deleteReferenceImage } from '../lifecycle/delete-reference-image';
import { putReferenceImage } from '../lifecycle/put-reference-image';
import { updateTask } from '../lifecycle/update-task';
import { keepImage } from '../media/keep-image';
import type { Work } from '../store/database';
import type { TaskRow } from '../store/facts';
import { lockTask } from '../store/tasks';
import { moneyForField } from './format';
import {
  emptyForm,
  type Fault,
  type FormFields,
  type FormView,
  parsePictureForm,
  pictureOf,
  readForm,
  viewForm,
} from './forms';
import { expectedVersion, readTask, taskIdOf } from './shown-task';
import { type FieldChange, showConflict } from './task-conflict';
import { type AdminVisit, admin, csrfOf, type Desk, seeOther, show, transact } from './visit';
import type { WordKey } from './words/words';

const MAX_CENTS = 100_000_000;

const wishRules = {
  title: { kind: 'text', label: 'field.title', required: true, max: 200 },
  product_url: { kind: 'url', label: 'field.product_url', max: 2_000 },
  shop_name: { kind: 'text', label: 'field.shop_name', max: 200 },
  keywords: { kind: 'text', label: 'field.keywords', max: 200 },
  spec: { kind: 'text', label: 'field.spec', max: 200 },
  quantity: { kind: 'count', label: 'field.quantity', required: true, min: 1, max: 999 },
  max_unit_price: { kind: 'yuan', label: 'field.max_unit_price', required: true, min: 1, max: MAX_CENTS },
  max_total: { kind: 'yuan', label: 'field.max_total', required: true, min: 1, max: MAX_CENTS },
  confirmation_required: { kind: 'tick', label: 'field.confirmation_required' },
  buyer_note: { kind: 'multiline', label: 'field.buyer_note', max: 500 },
  external_ref: { kind: 'text', label: 'field.external_ref', max: 64, pattern: /^[A-Za-z0-9._:/-]+$/ },
} as const;
const newRules = {
  ...wishRules,
  idempotency_key: { kind: 'hidden', pattern: /^[\x21-\x2b\x2d-\x7e]{1,128}$/, required: true },
} as const;
const editRules = {
  ...wishRules,
  expected_task_version: expectedVersion,
  remove_picture: { kind: 'tick', label: 'task_form.remove_picture' },
} as const;

type WishFields = FormFields<typeof wishRules>;

/** The forms that write a wish: a new task, and the editing of a draft. */
export function taskFormPages(desk: Desk): Router {
  const router = Router();

  router.get(
    '/admin/tasks/new',
    admin(desk, async (visit) => showNew(visit, emptyForm, uuidv7())),
  );

  router.post(
    '/admin/tasks',
    parsePictureForm(csrfOf),
    admin(desk, async (visit) => {
      const form = readForm(newRules, visit.request.body);
      const key = form.values.idempotency_key ?? uuidv7();
      const again = (faults: readonly Fault[], status = 400) =>
        showNew(visit, viewForm(form.values, faults, visit.words), key, status);
      const faults = allFaults(visit, form);
      if (!form.fields || faults.length > 0) return again(faults, statusOf(faults));
      const { idempotency_key, ...fields } = form.fields;
      const request = { idempotency_key, wish: wishOf(fields) };
      try {
        const create = (work: Work, actor: AdminActor, sha256?: string) =>
          createTask(work, actor, { ...request, ...(sha256 && { reference_image_sha256: sha256 }) });
        const { bytes } = pictureOf(visit.response);
        const { facts } = bytes
          ? await keepImage(desk.services, bytes, (record) =>
              transact(desk, visit, async (work, actor) => create(work, actor, await record(work))),
            )
          : await transact(desk, visit, (work, actor) => create(work, actor));
        seeOther(visit.response, `/admin/tasks/${facts.task.id}?done=created`);
      } catch (error) {
        const fault = faultOf(error);
        if (!fault) throw error;
        again([fault], (error as Refusal).status);
      }
    }),
  );

  router.get(
    '/admin/tasks/:task_id/edit',
    admin(desk, async (visit) => {
      const task = await readTask(desk, taskIdOf(visit));
      if (task.status !== 'DRAFT') {
        return showConflict(desk, visit, new Refusal('INVALID_TASK_STATE'), task.id, task.version);
      }
      showEdit(visit, task, { values: valuesOf(task), faults: [] });
    }),
  );

  router.post(
    '/admin/tasks/:task_id/edit',
    parsePictureForm(csrfOf),
    admin(desk, async (visit) => {
      const taskId = taskIdOf(visit);
      const form = readForm(editRules, visit.request.body);
      const again = async (faults: readonly Fault[], status = 400) =>
        showEdit(visit, await readTask(desk, taskId), viewForm(form.values, faults, visit.words), status);
      const faults = allFaults(visit, form);
      if (!form.fields || faults.length > 0) return again(faults, statusOf(faults));
      const { fields } = form;
      try {
        await saveEdit(desk, visit, taskId, fields, pictureOf(visit.response).bytes);
      } catch (error) {
        const fault = faultOf(error);
        if (fault) return again([fault], (error as Refusal).status);
        if (!(error instanceof Refusal) || error.status !== 409) throw error;
        return showConflict(desk, visit, error, taskId, fields.expected_task_version, (task) => ({
          changes: changesBetween(visit, form.values, task),
          freshForm:
            task.status === 'DRAFT' ? editForm(visit, task, { values: form.values, faults: [] }) : undefined,
        }));
      }
      seeOther(visit.response, `/admin/tasks/${taskId}?done=updated`);
    }),
  );
  return router;
}

/**
 * Saves an edited draft, its text and its picture in one transaction. What already is as the form asks writes nothing,
 * so that a form sent twice is saved once.
 */
function saveEdit(
  desk: Desk,
  visit: AdminVisit,
  taskId: string,
  fields: FormFields<typeof editRules>,
  picture: Buffer | undefined,
): Promise<void> {
  const { expected_task_version, remove_picture, ...typed } = fields;
  const wish = wishOf(typed);

  const save = async (work: Work, actor: AdminActor, sha256: string | undefined) => {
    const facts = await lockTask(work, taskId);
    if (!facts) throw new Refusal('TASK_NOT_FOUND');
    const { status, version, reference_image_sha256: present } = facts.task;
    const wanted = sha256 ?? (remove_picture ? null : present);
    const sameWish = isSameWish(facts.task, wish);
    if (status === 'DRAFT' && sameWish && wanted === present) return;

    let bound = { task_id: taskId, expected_task_version };
    if (!sameWish || version !== expected_task_version) {
      const { task } = await updateTask(work, actor, { ...bound, wish });
      bound = { ...bound, expected_task_version: task.version };
    }
    if (wanted === present) return;
    if (wanted === null) await deleteReferenceImage(work, actor, bound);
    else await putReferenceImage(work, actor, { ...bound, sha256: wanted });
  };

  if (!picture) return transact(desk, visit, (work, actor) => save(work, actor, undefined));
  return keepImage(desk.services, picture, (record) =>
    transact(desk, visit, async (work, actor) => save(work, actor, await record(work))),
  );
}

function wishOf({ max_unit_price, max_total, ...fields }: WishFields) {
  return { ...fields, max_unit_price_cents: max_unit_price, max_total_cents: max_total };
}

const textFields = [
  'title',
  'product_url',
  'shop_name',
  'keywords',
  'spec',
  'buyer_note',
  'external_ref',
] as const;

function isSameWish(task: TaskRow, wish: ReturnType<typeof wishOf>): boolean {
  const numbers = ['quantity', 'max_unit_price_cents', 'max_total_cents', 'confirmation_required'] as const;
  return [...textFields, ...numbers].every((field) => (task[field] ?? undefined) === wish[field]);
}

/** A draft as the form's fields hold it. */
function valuesOf(task: TaskDetail): Record<string, string> {
  const values: Record<string, string> = {
    quantity: String(task.quantity),
    max_unit_price: moneyForField(task.max_unit_price_cents),
    max_total: moneyForField(task.max_total_cents),
    confirmation_required: task.confirmation_required ? 'yes' : '',
  };
  for (const field of textFields) values[field] = task[field] ?? '';
  return values;
}

function changesBetween(
  { words }: AdminVisit,
  typed: Record<string, string>,
  task: TaskDetail,
): FieldChange[] {
  const present = valuesOf(task);
  return (Object.keys(wishRules) as (keyof typeof wishRules)[]).flatMap((field) => {
    const [yours = '', theirs = ''] = [typed[field], present[field]];
    if (yours.trim().replace(/\r\n/g, '\n') === theirs) return [];
    const tick = (value: string) => words.say(value === 'yes' ? 'task.required' : 'task.not_required');
    const shown = field === 'confirmation_required' ? tick : (value: string) => value;
    return [{ label: words.say(wishRules[field].label), yours: shown(yours), theirs: shown(theirs) }];
  });
}

function allFaults(
  visit: AdminVisit,
  form: { faults: readonly Fault[]; fields?: Pick<WishFields, 'max_unit_price' | 'max_total'> },
): Fault[] {
  const faults = [...form.faults];
  if (form.fields && form.fields.max_total < form.fields.max_unit_price) {
    faults.push({ field: 'max_total', key: 'fault.total_below_unit' });
  }
  const { fault } = pictureOf(visit.response);
  if (fault) faults.push({ field: 'picture', key: fault });
  return faults;
}

function statusOf(faults: readonly Fault[]): number {
  return faults.some(({ key }) => key === 'fault.picture_large') ? 413 : 400;
}

function faultOf(error: unknown): Fault | undefined {
  if (!(error instanceof Refusal)) return undefined;
  if (error.code === 'DUPLICATE_EXTERNAL_REF') return { field: 'external_ref', key: 'fault.duplicate_ref' };
  if (error.code === 'INVALID_IMAGE') return { field: 'picture', key: 'fault.picture_bad' };
  return undefined;
}

function showNew(visit: AdminVisit, form: FormView, key: string, status = 200): void {
  const { say } = visit.words;
  visit.context.here ||= '/admin/tasks/new';
  show(
    visit,
    'task-form',
    { title: say('task_form.new_title'), section: 'tasks' },
    {
      width: 'page-form',
      back: { href: '/admin/tasks', text: say('page.back_to_tasks') },
      intro: say('task_form.new_intro'),
      action: '/admin/tasks',
      hidden: [['idempotency_key', key]],
      form,
      submit: say('task_form.create'),
    },
    status,
  );
}

function editForm({ words: { say } }: AdminVisit, task: TaskDetail, form: FormView) {
  return {
    width: 'page-form',
    back: { href: `/admin/tasks/${task.id}`, text: say('problem.back') },
    intro: say('task_form.edit_intro'),
    action: `/admin/tasks/${task.id}/edit`,
    hidden: [['expected_task_version', String(task.version)]],
    form,
    picture: task.reference_image,
    pictureTitle: task.title,
    submit: say('task_form.save' satisfies WordKey),
  };
}

function showEdit(visit: AdminVisit, task: TaskDetail, form: FormView, status = 200): void {
  visit.context.here ||= `/admin/tasks/${task.id}/edit`;
  const frame = { title: visit.words.say('task_form.edit_title'), section: 'tasks' } as const;
  show(visit, 'task-form', frame, editForm(visit, task, form), status);
}
