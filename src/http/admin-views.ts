import type { Instant } from '../clock';
import type {
  AllowedAction,
  Device,
  SubmissionReport,
  TaskConfirmation,
  TaskDetail,
  TaskEvent,
  TaskSubmission,
  TaskSummary,
  User,
  UserReference,
} from '../contract/generated/types.gen';
import {
  allowedActions,
  attentionReasons,
  isLeaseLive,
  isWithoutAccess,
  readinessReasons,
} from '../lifecycle/eligibility';
import type { Timings } from '../lifecycle/timings';
import type { DeviceView } from '../store/devices';
import type { ClaimRow, ConfirmationRow, ReportRow, SubmissionRow, TaskFacts, TaskRow } from '../store/facts';
import type { TaskDetailFacts, TaskEventRow, TaskListRow } from '../store/reports';
import type { UserView } from '../store/users';

/** Rows as an admin sees them: everything but secrets. Absent rather than null. */
export function taskDetail(facts: TaskDetailFacts, now: Instant): TaskDetail {
  const { task, image, submission, confirmations, reports } = facts;
  const { authorization, claim, attempt, confirmation, holder } = currentFacts(facts);
  return {
    ...wishView(task),
    ...present({
      ended_at: task.ended_at,
      cancel_requested_at: attempt?.cancel_requested_at,
      duplicated_from: task.duplicated_from,
    }),
    id: task.id,
    status: task.status,
    version: task.version,
    claim_generation: task.claim_generation,
    created_at: task.created_at,
    updated_at: task.updated_at,
    ...(image && {
      reference_image: {
        url: `/api/v1/admin/tasks/${task.id}/reference-image`,
        sha256: image.sha256,
        bytes: image.bytes,
        width: image.width,
        height: image.height,
      },
    }),
    ...(authorization && {
      authorization: {
        id: authorization.id,
        status: authorization.status,
        created_at: authorization.created_at,
        created_by: authorization.created_by,
        expires_at: authorization.expires_at,
        ...present({ closed_at: authorization.closed_at }),
      },
    }),
    ...(claim && {
      claim: {
        id: claim.id,
        generation: claim.generation,
        user_id: claim.user_id,
        username: holder?.user.username ?? '',
        device_id: claim.device_id,
        device_label: holder?.device.label ?? '',
        claimed_at: claim.claimed_at,
        lease_expires_at: claim.lease_expires_at,
        lease_live: isLeaseLive(claim, now),
        ...present({ closed_at: claim.closed_at }),
      },
    }),
    ...(attempt && {
      attempt: {
        id: attempt.id,
        status: attempt.status,
        created_at: attempt.created_at,
        ...present({
          execution_id: attempt.execution_id,
          started_at: attempt.started_at,
          ended_at: attempt.ended_at,
          step: attempt.step,
          last_seen_at: attempt.last_seen_at,
          cancel_requested_at: attempt.cancel_requested_at,
          failure_code: attempt.failure_code,
          failure_message: attempt.failure_message,
        }),
      } as TaskDetail['attempt'],
    }),
    ...(confirmation && { confirmation: confirmationView(confirmation) }),
    confirmations: confirmations.map(confirmationView),
    ...(submission && { submission: submissionView(submission) }),
    reports: reports.map(reportView),
    attention: attentionReasons(
      facts,
      {
        claimantWithoutAccess: isLost(facts.claim, facts.holder),
        contradictingReport: reports.some(
          (report) => report.contradicting && report.acknowledged_at === null,
        ),
      },
      now,
    ),
    allowed_actions: actionsView(facts),
    server_time: now,
  };
}

/** A draft stands on its own, and a new authorization without what an earlier one left behind: that is history. */
function currentFacts(facts: TaskDetailFacts): Partial<TaskDetailFacts> {
  const { task, authorization, claim } = facts;
  if (task.status === 'DRAFT') return {};
  return claim?.authorization_id === authorization?.id ? facts : { authorization };
}

/** Each action with the facts that it must bind, so that a form sends what the person saw. */
function actionsView(facts: TaskFacts): AllowedAction[] {
  return allowedActions(facts).map((action) => ({ action, expected_task_version: facts.task.version }));
}

function isLost(claim: ClaimRow | undefined, holder: TaskDetailFacts['holder']): boolean {
  return (
    claim !== undefined && claim.closed_at === null && holder !== undefined && isWithoutAccess(claim, holder)
  );
}

function wishView(task: TaskRow) {
  return {
    title: task.title,
    quantity: task.quantity,
    max_unit_price_cents: task.max_unit_price_cents,
    max_total_cents: task.max_total_cents,
    confirmation_required: task.confirmation_required,
    ...present({
      keywords: task.keywords ?? null,
      product_url: task.product_url ?? null,
      shop_name: task.shop_name ?? null,
      spec: task.spec ?? null,
      buyer_note: task.buyer_note ?? null,
      external_ref: task.external_ref,
    }),
  };
}

function confirmationView(row: ConfirmationRow): TaskConfirmation {
  return {
    id: row.id,
    status: row.status,
    title: row.title,
    shop_name: row.shop_name,
    unit_price_cents: row.unit_price_cents,
    quantity: row.quantity,
    total_cents: row.total_cents,
    evidence_ids: JSON.parse(row.evidence_ids) as string[],
    requested_at: row.requested_at,
    ...present({ decided_at: row.decided_at, decided_by: row.decided_by, note: row.note }),
  };
}

function submissionView(row: SubmissionRow): TaskSubmission {
  return {
    id: row.id,
    status: row.status,
    attempt_id: row.attempt_id,
    unit_price_cents: row.unit_price_cents,
    quantity: row.quantity,
    total_cents: row.total_cents,
    fenced_at: row.fenced_at,
    ...present({
      confirmation_id: row.confirmation_id,
      order_no: row.order_no,
      amount_cents: row.amount_cents,
      reported_at: row.reported_at,
      resolution: row.resolution,
      resolved_at: row.resolved_at,
      resolved_by: row.resolved_by,
      note: row.note,
    }),
  };
}

function reportView(row: ReportRow): SubmissionReport {
  return {
    id: row.id,
    attempt_id: row.attempt_id,
    outcome: row.outcome,
    late: row.late,
    contradicting: row.contradicting,
    reported_at: row.reported_at,
    ...present({
      order_no: row.order_no,
      amount_cents: row.amount_cents,
      acknowledged_at: row.acknowledged_at,
      acknowledged_by: row.acknowledged_by,
      acknowledgement_note: row.acknowledgement_note,
    }),
  };
}

export function taskSummary(row: TaskListRow, now: Instant): TaskSummary {
  const { task, claim, holder, submission } = row;
  const surroundings = {
    claimantWithoutAccess:
      claim !== undefined && holder !== undefined && isWithoutAccess(claim as ClaimRow, holder),
    contradictingReport: row.contradicting,
  };
  const facts = { task, claim, submission, authorization: row.authorization } as TaskFacts;
  return {
    id: task.id,
    title: task.title,
    status: task.status,
    version: task.version,
    quantity: task.quantity,
    max_unit_price_cents: task.max_unit_price_cents,
    max_total_cents: task.max_total_cents,
    confirmation_required: task.confirmation_required,
    has_reference_image: task.reference_image_sha256 !== null,
    created_at: task.created_at,
    updated_at: task.updated_at,
    attention: attentionReasons(facts, surroundings, now),
    ...(holder && {
      claimant: {
        user_id: holder.user.id,
        username: holder.user.username,
        device_id: holder.device.device_id,
        device_label: holder.device.label,
      },
    }),
    ...present({
      external_ref: task.external_ref,
      ended_at: task.ended_at,
      cancel_requested_at: row.cancel_requested_at,
      lease_expires_at: claim?.lease_expires_at,
      authorization_expires_at: task.authorization_expires_at,
      order_no: submission?.order_no,
    }),
  };
}

export function taskEvent(row: TaskEventRow): TaskEvent {
  return {
    id: row.id,
    type: row.type,
    occurred_at: row.occurred_at,
    version: row.version,
    actor: {
      type: row.actor_type,
      ...present({
        user_id: row.actor_user_id,
        username: row.username,
        device_id: row.actor_device_id,
        device_label: row.device_label,
      }),
    },
    ...present({
      from_status: row.from_status,
      to_status: row.to_status,
      attempt_id: row.attempt_id,
      claim_generation: row.claim_generation,
    }),
    ...(row.detail !== null && { detail: JSON.parse(row.detail) as TaskEvent['detail'] }),
  };
}

export function userReference(user: {
  id: string;
  username: string;
  display_name: string | null;
}): UserReference {
  return { id: user.id, username: user.username, ...present({ display_name: user.display_name }) };
}

export function userView(user: UserView): User {
  const { role, status, created_at, updated_at, last_login_at, last_disabled_at } = user;
  return {
    ...userReference(user),
    role,
    status,
    created_at,
    updated_at,
    ...present({ last_login_at, disabled_at: status === 'DISABLED' ? last_disabled_at : null }),
  };
}

export function deviceView(device: DeviceView, now: Instant, timings: Timings): Device {
  const reasons = readinessReasons(device, now, timings);
  return {
    device_id: device.device_id,
    label: device.label,
    status: device.status,
    user: userReference(device.user),
    created_at: device.created_at,
    updated_at: device.updated_at,
    authorized_at: device.authorized_at,
    ready: device.status === 'AUTHORIZED' && reasons.length === 0,
    readiness_reasons: reasons,
    ...present({
      revoked_at: device.status === 'REVOKED' ? device.last_revoked_at : null,
      revoke_reason: device.status === 'REVOKED' ? device.revoke_reason : null,
      last_heartbeat_at: device.last_heartbeat_at,
      app_version: device.app_version,
      android_version: device.android_version,
      pinduoduo_version: device.pinduoduo_version,
      accessibility_connected: device.accessibility_connected,
      pinduoduo_installed: device.pinduoduo_installed,
      active_task_id: device.active_task_id,
    }),
  };
}

type Present<T> = { [K in keyof T]?: NonNullable<T[K]> };

/** Leaves out what is null or undefined: absent rather than null on the wire. */
export function present<T extends object>(fields: T): Present<T> {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== null && value !== undefined),
  ) as Present<T>;
}
