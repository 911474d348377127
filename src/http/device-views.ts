import { type Instant, millisecondsUntil } from '../clock';
import type { ClaimedTaskAnswer, DeviceTask, LifecycleAnswer } from '../contract/generated/types.gen';
import { isLeaseLive } from '../lifecycle/eligibility';
import type { HeldTask } from '../lifecycle/held-task';
import { frozenWish } from '../store/authorizations';
import type { ImageRow } from '../store/images';

/** Rows as a phone sees them. A closed claim shows how the task stood when it closed, and nothing newer. */
export function lifecycleAnswer(held: HeldTask, now: Instant): LifecycleAnswer {
  const { facts, claim, attempt } = held;
  const isOpen = claim.closed_at === null;
  return {
    task_id: facts.task.id,
    status: claim.closed_status ?? facts.task.status,
    version: claim.closed_version ?? facts.task.version,
    claim_generation: claim.generation,
    attempt_id: attempt.id,
    ...(attempt.execution_id !== null && { execution_id: attempt.execution_id }),
    cancel_requested: attempt.cancel_requested_at !== null,
    server_time: now,
    ...(isOpen && openFacts(held, now)),
  };
}

function openFacts({ facts, claim, attempt }: HeldTask, now: Instant): Partial<LifecycleAnswer> {
  const { submission, confirmation } = facts;
  const isOwn = submission?.attempt_id === attempt.id;
  return {
    lease_expires_at: claim.lease_expires_at,
    lease_expires_in_ms: isLeaseLive(claim, now) ? millisecondsUntil(claim.lease_expires_at, now) : 0,
    ...(submission &&
      isOwn && {
        submission: { id: submission.id, status: submission.status, fenced_at: submission.fenced_at },
      }),
    ...(confirmation && { confirmation: { id: confirmation.id, status: confirmation.status } }),
  };
}

export function claimedTaskAnswer(
  held: HeldTask,
  image: ImageRow | undefined,
  now: Instant,
): ClaimedTaskAnswer {
  const { authorization } = held;
  return {
    ...lifecycleAnswer(held, now),
    task: deviceTask(held, image),
    authorization: {
      id: authorization.id,
      expires_at: authorization.expires_at,
      expires_in_ms: millisecondsUntil(authorization.expires_at, now),
    },
  };
}

/** The frozen wish, never the draft: what the admin permitted is what the phone reads. */
function deviceTask({ facts, claim, authorization }: HeldTask, image: ImageRow | undefined): DeviceTask {
  const wish = frozenWish(authorization);
  return {
    title: wish.title,
    ...(wish.keywords && { keywords: wish.keywords }),
    ...(wish.product_url && { product_url: wish.product_url }),
    ...(wish.shop_name && { shop_name: wish.shop_name }),
    ...(wish.spec && { spec: wish.spec }),
    quantity: wish.quantity,
    max_unit_price_cents: wish.max_unit_price_cents,
    max_total_cents: wish.max_total_cents,
    ...(wish.buyer_note && { buyer_note: wish.buyer_note }),
    confirmation_required: wish.confirmation_required,
    ...(image && {
      reference_image: {
        url: `/api/v1/device/tasks/${facts.task.id}/reference-image?claim_generation=${claim.generation}`,
        sha256: image.sha256,
        bytes: image.bytes,
        width: image.width,
        height: image.height,
      },
    }),
  };
}
