import type { Refusal } from '../contract/errors';
import type { TaskDetail, TaskEvent } from '../contract/generated/types.gen';
import { taskEvent } from '../http/admin-views';
import type { Database } from '../store/database';
import { listTaskEvents } from '../store/reports';
import { actionsFor, readTask } from './shown-task';
import { tellEvent } from './task-events';
import { tellSituation } from './task-situation';
import { type AdminVisit, type Desk, show } from './visit';
import type { WordKey } from './words/words';

/** Pages of events read to find what is new; beyond them the newest are left to the task's own page. */
const EVENT_PAGES = 20;

export interface FieldChange {
  label: string;
  yours: string;
  theirs: string;
}

/**
 * The page for "somebody was faster": what happened since the version that the person saw, and a fresh form — the
 * actions as they are now, or (`freshForm`) the same form on the new version with everything typed kept.
 */
export async function showConflict(
  desk: Desk,
  visit: AdminVisit,
  refusal: Refusal,
  taskId: string,
  seenVersion: number,
  fresh?: (task: TaskDetail) => { changes: FieldChange[]; freshForm?: object },
): Promise<void> {
  const { words } = visit;
  const task = await readTask(desk, taskId);
  const events = await eventsSince(desk.services.database, taskId, seenVersion);
  const key = `problem.${refusal.code}`;
  visit.context.here ||= `/admin/tasks/${taskId}`;
  show(
    visit,
    'conflict',
    { title: words.say('problem.title.409'), section: 'tasks' },
    {
      width: 'page-form',
      task,
      events,
      tellEvent: (event: TaskEvent) => tellEvent(event, words, visit.context.zone),
      text: words.knows(key) ? words.say(key as WordKey) : '',
      seen: seenVersion === task.version ? undefined : seenVersion,
      situation: tellSituation(task, words, visit.context.zone, visit.context.now),
      actions: actionsFor(desk, visit, task),
      ...fresh?.(task),
    },
    refusal.status,
  );
}

async function eventsSince(database: Database, taskId: string, seenVersion: number): Promise<TaskEvent[]> {
  const found: TaskEvent[] = [];
  let cursor: string | undefined;
  for (let read = 0; read < EVENT_PAGES; read++) {
    const page = await listTaskEvents(database.read, taskId, { limit: 100, cursor });
    found.push(...page.items.filter(({ version }) => version > seenVersion).map(taskEvent));
    if (page.next_cursor === undefined) break;
    cursor = page.next_cursor;
  }
  return found.slice(-20);
}
