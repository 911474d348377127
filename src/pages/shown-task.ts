import { v7 as uuidv7 } from 'uuid';
import { Refusal } from '../contract/errors';
import type { TaskAction, TaskDetail } from '../contract/generated/types.gen';
import { taskDetail } from '../http/admin-views';
import { findTaskDetail } from '../store/reports';
import { type ActionView, presentActions } from './task-actions';
import type { AdminVisit, Desk } from './visit';

const TASK_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** The version that a form was drawn for. */
export const expectedVersion = { kind: 'hidden-number', pattern: /^[1-9]\d{0,15}$/, required: true } as const;

/** The actions that have a handler here; no form is shown for another. */
const wired: ReadonlySet<TaskAction> = new Set<TaskAction>([
  'UPDATE',
  'PUT_REFERENCE_IMAGE',
  'DELETE_REFERENCE_IMAGE',
  'START_PURCHASE',
]);

/** @throws Refusal TASK_NOT_FOUND when the address holds no task id */
export function taskIdOf({ request }: AdminVisit): string {
  const { task_id } = request.params;
  if (typeof task_id !== 'string' || !TASK_ID.test(task_id)) throw new Refusal('TASK_NOT_FOUND');
  return task_id;
}

/** @throws Refusal TASK_NOT_FOUND */
export function readTask({ services: { database } }: Desk, taskId: string): Promise<TaskDetail> {
  return database.snapshot(async (reader) => {
    const facts = await findTaskDetail(reader, taskId);
    if (!facts) throw new Refusal('TASK_NOT_FOUND');
    return withPagePicture(taskDetail(facts, await database.now()));
  });
}

/** Pages show the picture from their own door, so that a reader of pages needs nothing of the API. */
function withPagePicture({ reference_image, ...task }: TaskDetail): TaskDetail {
  if (!reference_image) return task;
  // The digest keeps a browser from showing the picture before the last one.
  const url = `/admin/tasks/${task.id}/reference-image?v=${reference_image.sha256.slice(0, 12)}`;
  return { ...task, reference_image: { ...reference_image, url } };
}

/** The forms for what the server would accept now. */
export function actionsFor({ services }: Desk, { words }: AdminVisit, task: TaskDetail): ActionView[] {
  const defaultTtlSeconds = services.timings.authorization_ttl_seconds;
  return presentActions(task, words, { wired, defaultTtlSeconds, newKey: uuidv7 });
}
