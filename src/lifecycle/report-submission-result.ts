import type { DeviceActor } from '../contract/actor';
import { endAttempt } from '../store/attempts';
import { closeClaim } from '../store/claims';
import type { Work } from '../store/database';
import type { SubmissionRow } from '../store/facts';
import { insertReport, reportSubmission } from '../store/submissions';
import { lockTask, moveTask, noteEvent } from '../store/tasks';
import { isContradicting, isLeaseLive, type Result } from './eligibility';
import { mustBeExecution, mustBeGeneration } from './guards';
import {
  getOwnClaim,
  getRecordedClaim,
  type HeldCall,
  type HeldTask,
  type LifecycleOutcome,
} from './held-task';
import { type KeyedRequest, recall, remember } from './replay';

export interface ResultRequest extends KeyedRequest, HeldCall, Result {
  execution_id: string;
  claim_generation: number;
  submission_id?: string;
  amount_cents?: number;
  evidence_ids?: string[];
}

/**
 * The device says what came of its submission: SUBMITTING -> ORDERED or NEEDS_MANUAL.
 * Guards: TASK_NOT_FOUND, CLAIM_TOKEN_MISMATCH, GENERATION_MISMATCH, EXECUTION_MISMATCH. Neither an expired lease nor a
 * closed claim nor another submission's id refuses a result: what may have happened is worth knowing.
 * Effects: a report always; the first result of the fenced attempt moves the task, any other one only leaves an event.
 * Replay: the same fact, as it stands.
 */
export async function reportSubmissionResult(
  work: Work,
  actor: DeviceActor,
  request: ResultRequest,
): Promise<LifecycleOutcome> {
  const facts = await lockTask(work, request.task_id);

  const record = await recall(work, actor, 'reportSubmissionResult', request);
  if (record && facts) {
    return { held: await getRecordedClaim(work, facts, record.claim_id as string), replayed: true };
  }

  const held = await getOwnClaim(work, actor, request, facts);
  mustBeGeneration(held, request.claim_generation);
  mustBeExecution(held, request.execution_id);
  const own = ownSubmission(held, request);

  const decides = own?.status === 'FENCED' && held.facts.task.status === 'SUBMITTING';
  await keep(work, held, request, own, !decides || !isLeaseLive(held.claim, work.now));
  if (decides) await conclude(work, actor, held, own, request);
  else
    await noteEvent(
      work,
      actor,
      { ...held.facts, attempt: held.attempt },
      'submission.reported',
      detailOf(request),
    );

  await remember(work, actor, 'reportSubmissionResult', request, {
    outcome: 'TASK',
    task_id: request.task_id,
    claim_id: held.claim.id,
  });
  return { held, replayed: false };
}

/** The submission that this result is about, if it is the reporting attempt's own. */
function ownSubmission({ facts, attempt }: HeldTask, request: ResultRequest): SubmissionRow | undefined {
  const { submission } = facts;
  if (submission?.attempt_id !== attempt.id) return undefined;
  return request.submission_id === undefined || request.submission_id === submission.id
    ? submission
    : undefined;
}

function keep(
  work: Work,
  { facts, attempt }: HeldTask,
  request: ResultRequest,
  own: SubmissionRow | undefined,
  late: boolean,
): Promise<string> {
  return insertReport(work, {
    task_id: facts.task.id,
    attempt_id: attempt.id,
    submission_id: own?.id ?? null,
    outcome: request.outcome,
    order_no: request.order_no ?? null,
    amount_cents: request.amount_cents ?? null,
    evidence_ids: JSON.stringify(request.evidence_ids ?? []),
    late,
    contradicting: isContradicting(own, request),
  });
}

/** An order closes the claim; anything else leaves everything fenced for a person to look at. */
async function conclude(
  work: Work,
  actor: DeviceActor,
  held: HeldTask,
  own: SubmissionRow,
  request: ResultRequest,
): Promise<void> {
  const ordered = request.outcome === 'ORDER_CREATED';
  await reportSubmission(work, own, {
    status: ordered ? 'SUBMITTED' : 'RECONCILIATION_REQUIRED',
    order_no: request.order_no,
    amount_cents: request.amount_cents,
  });
  await endAttempt(work, held.attempt, ordered ? 'SUCCEEDED' : 'FENCED');
  const event = ordered ? 'task.order_created' : 'task.submission_uncertain';
  await moveTask(work, actor, held.facts, event, { detail: detailOf(request) });
  if (ordered) await closeClaim(work, held.claim, held.facts.task);
}

function detailOf(request: ResultRequest): Record<string, string | number> {
  return {
    outcome: request.outcome,
    ...(request.order_no !== undefined && { order_no: request.order_no }),
    ...(request.amount_cents !== undefined && { amount_cents: request.amount_cents }),
  };
}
