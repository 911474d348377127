import { Router } from 'express';
import type { TaskSort } from '../contract/generated/types.gen';
import { TASK_STATUSES, type TaskStatus } from '../contract/moves';
import { taskSummary } from '../http/admin-views';
import { type AttentionFilter, listTasks } from '../store/reports';
import { startOfDay } from './format';
import { type Fault, viewForm } from './forms';
import { type AdminVisit, admin, type Desk, noteOf, pagerOf, queryText, show } from './visit';

const PAGE_SIZE = 30;
const path = '/admin/tasks';

const attentions = [
  'ANY',
  'WAITING_CONFIRMATION',
  'NEEDS_MANUAL',
  'RECONCILIATION_REQUIRED',
  'RUN_LEASE_EXPIRED',
  'SUBMITTING_SILENT',
  'AUTHORIZATION_EXPIRED',
  'CLAIMANT_WITHOUT_ACCESS',
  'CONTRADICTING_REPORT',
] as const satisfies readonly AttentionFilter[];
const sorts = [
  '-created_at',
  'created_at',
  '-updated_at',
  'updated_at',
] as const satisfies readonly TaskSort[];

/** The list of tasks: filter by state, reason, day and words; sort; page by cursor. */
export function taskListPages(desk: Desk): Router {
  const { database } = desk.services;
  const router = Router();

  router.get(
    path,
    admin(desk, async (visit) => {
      const { values, faults, filter } = readFilter(visit);
      const request = { ...filter, limit: PAGE_SIZE, cursor: queryText(visit.request, 'cursor', 2_000) };
      const page = await listTasks(database.read, request, visit.now);
      const onlyAttention = values.attention === 'ANY';
      const { say } = visit.words;
      show(
        visit,
        'task-list',
        {
          title: say(onlyAttention ? 'task_list.attention_title' : 'task_list.title'),
          section: onlyAttention ? 'attention' : 'tasks',
        },
        {
          tasks: page.items.map((row) => taskSummary(row, visit.now)),
          pager: pagerOf(visit, path, page),
          form: viewForm(values, faults, visit.words),
          filter: {
            values,
            onlyAttention,
            active: Object.keys(values).length > 0,
            selects: selectsFor(visit),
          },
          empty: emptyText(visit, values),
          note: noteOf(visit, {}),
        },
        faults.length > 0 ? 400 : 200,
      );
    }),
  );
  return router;
}

function readFilter(visit: AdminVisit) {
  const values: Record<string, string> = {};
  for (const name of ['q', 'status', 'attention', 'sort', 'created_from', 'created_to']) {
    const value = queryText(visit.request, name);
    if (value !== undefined) values[name] = value;
  }
  const faults: Fault[] = [];
  const { zone } = visit.context;
  const day = (name: string, label: 'task_list.from' | 'task_list.to', plusDays: number) => {
    if (values[name] === undefined) return undefined;
    const start = startOfDay(values[name], zone, plusDays);
    if (!start) faults.push({ field: name, label, key: 'fault.date' });
    return start?.toISOString();
  };
  const choice = <T extends string>(
    name: string,
    label: 'task_list.status' | 'task_list.attention' | 'task_list.sort',
    options: readonly T[],
  ) => {
    if (values[name] === undefined) return undefined;
    const found = options.find((option) => option === values[name]);
    if (!found) faults.push({ field: name, label, key: 'fault.option' });
    return found;
  };
  const status = choice<TaskStatus>('status', 'task_list.status', TASK_STATUSES);
  const filter = {
    q: values.q,
    status: status && [status],
    attention: choice<AttentionFilter>('attention', 'task_list.attention', attentions),
    sort: choice('sort', 'task_list.sort', sorts),
    created_from: day('created_from', 'task_list.from', 0),
    created_to: day('created_to', 'task_list.to', 1),
  };
  return { values, faults, filter };
}

function selectsFor({ words: { say, name } }: AdminVisit) {
  return [
    {
      name: 'status',
      label: say('task_list.status'),
      options: [
        { value: '', text: say('task_list.any_status') },
        ...TASK_STATUSES.map((value) => ({ value, text: say(value) })),
      ],
    },
    {
      name: 'attention',
      label: say('task_list.attention'),
      options: [
        { value: '', text: say('task_list.any_attention') },
        ...attentions.map((value) => ({ value, text: name('attention.', value) })),
      ],
    },
    {
      name: 'sort',
      label: say('task_list.sort'),
      options: sorts.map((value, index) => ({ value: index === 0 ? '' : value, text: name('sort.', value) })),
    },
  ];
}

function emptyText({ words: { say } }: AdminVisit, values: Record<string, string>) {
  const names = Object.keys(values);
  if (names.length === 1 && values.attention === 'ANY') {
    return { title: say('task_list.nothing_waiting'), hint: say('task_list.nothing_waiting_hint') };
  }
  return names.length > 0
    ? { title: say('task_list.nothing_found'), hint: say('task_list.nothing_found_hint') }
    : { title: say('task_list.empty'), hint: say('task_list.empty_hint') };
}
