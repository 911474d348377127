import type { Instant } from '../clock';
import { Refusal } from '../contract/errors';
import type { ErrorCode } from '../contract/generated/types.gen';
import type { TaskStatus } from '../contract/moves';
import type { TaskFacts, TaskRow } from '../store/facts';
import { isLeaseLive } from './eligibility';
import type { HeldTask } from './held-task';

/** The guards that several verbs share, one refusal each; a verb lists them in the documented order. */

/** How the task stands, for the caller that may know it. */
export function currentOf(task: TaskRow): { task_id: string; status: TaskStatus; version: number } {
  return { task_id: task.id, status: task.status, version: task.version };
}

export function refusal(code: ErrorCode, task: TaskRow): Refusal {
  return new Refusal(code, { current: currentOf(task) });
}

export function mustBeOpen({ claim }: HeldTask): void {
  if (claim.closed_at !== null) throw new Refusal('CLAIM_NOT_CURRENT');
}

export function mustBeGeneration({ claim }: HeldTask, generation: number): void {
  if (claim.generation !== generation) throw new Refusal('GENERATION_MISMATCH');
}

export function mustBeExecution({ attempt }: HeldTask, executionId: string): void {
  if (attempt.execution_id !== executionId) throw new Refusal('EXECUTION_MISMATCH');
}

export function mustStandIn({ task }: Pick<TaskFacts, 'task'>, statuses: readonly TaskStatus[]): void {
  if (!statuses.includes(task.status)) throw refusal('INVALID_TASK_STATE', task);
}

export function mustHaveLiveLease({ facts, claim }: HeldTask, now: Instant): void {
  if (!isLeaseLive(claim, now)) throw refusal('LEASE_EXPIRED', facts.task);
}

export function mustNotBeAskedToStop({ facts, attempt }: HeldTask): void {
  if (attempt.cancel_requested_at !== null) throw refusal('CANCEL_REQUESTED', facts.task);
}

export function mustBeVersion({ task }: Pick<TaskFacts, 'task'>, expected: number): void {
  if (task.version !== expected) throw refusal('VERSION_CONFLICT', task);
}
