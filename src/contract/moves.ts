export const TASK_STATUSES = [
  'DRAFT',
  'PENDING',
  'CLAIMED',
  'RUNNING',
  'WAITING_CONFIRMATION',
  'SUBMITTING',
  'NEEDS_MANUAL',
  'ORDERED',
  'FAILED',
  'CANCELED',
] as const;
export type TaskStatus = (typeof TASK_STATUSES)[number];

export const TERMINAL_STATUSES: readonly TaskStatus[] = ['ORDERED', 'FAILED', 'CANCELED'];

interface Move {
  by: 'ADMIN' | 'DEVICE';
  from: readonly TaskStatus[];
  to: TaskStatus;
}

const DRAFT = { by: 'ADMIN', from: ['DRAFT'], to: 'DRAFT' } as const;

/**
 * Every legal move of a task, by the event that it leaves behind. Each raises the version by exactly 1; nothing else
 * changes a status or a version. The same table stands in docs/state-machine.md; a test holds the two together.
 */
export const MOVES = {
  'task.created': { by: 'ADMIN', from: [], to: 'DRAFT' },
  'task.edited': DRAFT,
  'task.reference_image_put': DRAFT,
  'task.reference_image_removed': DRAFT,
  'task.purchase_started': { by: 'ADMIN', from: ['DRAFT'], to: 'PENDING' },
  'task.claimed': { by: 'DEVICE', from: ['PENDING'], to: 'CLAIMED' },
  'task.taken_over': { by: 'DEVICE', from: ['CLAIMED'], to: 'CLAIMED' },
  'task.lapsed': { by: 'DEVICE', from: ['CLAIMED'], to: 'PENDING' },
  'task.released': { by: 'DEVICE', from: ['CLAIMED'], to: 'PENDING' },
  'task.started': { by: 'DEVICE', from: ['CLAIMED'], to: 'RUNNING' },
  'task.confirmation_requested': { by: 'DEVICE', from: ['RUNNING'], to: 'WAITING_CONFIRMATION' },
  'task.confirmation_decided': { by: 'ADMIN', from: ['WAITING_CONFIRMATION'], to: 'RUNNING' },
  'task.attempt_failed': { by: 'DEVICE', from: ['RUNNING', 'WAITING_CONFIRMATION'], to: 'NEEDS_MANUAL' },
  'task.cancel_acknowledged': { by: 'DEVICE', from: ['RUNNING', 'WAITING_CONFIRMATION'], to: 'CANCELED' },
  'task.canceled': {
    by: 'ADMIN',
    from: ['DRAFT', 'PENDING', 'CLAIMED', 'RUNNING', 'WAITING_CONFIRMATION', 'NEEDS_MANUAL'],
    to: 'CANCELED',
  },
  'task.reset_to_draft': {
    by: 'ADMIN',
    from: ['PENDING', 'CLAIMED', 'RUNNING', 'WAITING_CONFIRMATION', 'NEEDS_MANUAL'],
    to: 'DRAFT',
  },
  'task.submission_fenced': { by: 'DEVICE', from: ['RUNNING'], to: 'SUBMITTING' },
  'task.order_created': { by: 'DEVICE', from: ['SUBMITTING'], to: 'ORDERED' },
  'task.submission_uncertain': { by: 'DEVICE', from: ['SUBMITTING'], to: 'NEEDS_MANUAL' },
  'task.reconciliation_required': { by: 'ADMIN', from: ['SUBMITTING'], to: 'NEEDS_MANUAL' },
  'task.order_confirmed': { by: 'ADMIN', from: ['NEEDS_MANUAL'], to: 'ORDERED' },
  'task.no_order_confirmed': { by: 'ADMIN', from: ['NEEDS_MANUAL'], to: 'FAILED' },
} as const satisfies Record<string, Move>;

export type MoveEvent = keyof typeof MOVES;

/** Events that change neither status nor version. */
export const NOTES = [
  'task.cancel_requested',
  'task.stop_reported',
  'submission.reported',
  'report.acknowledged',
] as const;
export type NoteEvent = (typeof NOTES)[number];

export function isTerminal(status: TaskStatus): boolean {
  return TERMINAL_STATUSES.includes(status);
}
