import type { Instant } from '../clock';
import type { TaskStatus } from '../contract/moves';

/** What an admin wants bought, as a person writes it. */
export interface Wish {
  title: string;
  keywords?: string | null;
  product_url?: string | null;
  shop_name?: string | null;
  spec?: string | null;
  quantity: number;
  max_unit_price_cents: number;
  max_total_cents: number;
  buyer_note?: string | null;
  confirmation_required: boolean;
}

/** The columns of a wish, in the order in which people write it. */
export const WISH_COLUMNS = [
  'title',
  'keywords',
  'product_url',
  'shop_name',
  'spec',
  'quantity',
  'max_unit_price_cents',
  'max_total_cents',
  'buyer_note',
  'confirmation_required',
] as const satisfies readonly (keyof Wish)[];

export interface TaskRow extends Wish {
  id: string;
  external_ref: string | null;
  reference_image_sha256: string | null;
  status: TaskStatus;
  version: number;
  claim_generation: number;
  created_at: Instant;
  updated_at: Instant;
  ended_at: Instant | null;
  created_by: string;
  duplicated_from: string | null;
  /** Copies of the open authorization's and claim's expiry while the task waits in the queue, for its index. */
  authorization_expires_at: Instant | null;
  lease_expires_at: Instant | null;
}

export interface AuthorizationRow {
  id: string;
  task_id: string;
  task_version: number;
  status: 'ACTIVE' | 'FENCED' | 'EXPIRED' | 'ABANDONED';
  /** The frozen wish as JSON text. */
  wish: string;
  reference_image_sha256: string | null;
  created_at: Instant;
  created_by: string;
  expires_at: Instant;
  closed_at: Instant | null;
}

export interface ClaimRow {
  id: string;
  task_id: string;
  generation: number;
  authorization_id: string;
  user_id: string;
  device_id: string;
  token_hash: string;
  claimed_at: Instant;
  lease_expires_at: Instant;
  closed_at: Instant | null;
  /** How the task stood when this claim closed: all that its holder may still see of it. */
  closed_status: TaskStatus | null;
  closed_version: number | null;
}

export interface AttemptRow {
  id: string;
  task_id: string;
  claim_id: string;
  generation: number;
  authorization_id: string;
  user_id: string;
  device_id: string;
  status: 'CLAIMED' | 'ORDERING' | 'FENCED' | 'SUCCEEDED' | 'FAILED' | 'ABANDONED';
  execution_id: string | null;
  created_at: Instant;
  started_at: Instant | null;
  ended_at: Instant | null;
  step: string | null;
  last_seen_at: Instant | null;
  cancel_requested_at: Instant | null;
  cancel_requested_by: string | null;
  failure_code: string | null;
  failure_message: string | null;
  stop_reported_at: Instant | null;
  stop_reason: string | null;
}

export interface ConfirmationRow {
  id: string;
  task_id: string;
  attempt_id: string;
  ordinal: number;
  status: 'REQUESTED' | 'APPROVED' | 'REJECTED' | 'WITHDRAWN';
  title: string;
  shop_name: string;
  unit_price_cents: number;
  quantity: number;
  total_cents: number;
  evidence_ids: string;
  requested_at: Instant;
  decided_at: Instant | null;
  decided_by: string | null;
  note: string | null;
}

export interface SubmissionRow {
  id: string;
  task_id: string;
  attempt_id: string;
  authorization_id: string;
  confirmation_id: string | null;
  status: 'FENCED' | 'SUBMITTED' | 'RECONCILIATION_REQUIRED' | 'MANUAL_RESOLVED';
  unit_price_cents: number;
  quantity: number;
  total_cents: number;
  fenced_at: Instant;
  reported_at: Instant | null;
  order_no: string | null;
  amount_cents: number | null;
  resolution: 'ORDER_CREATED' | 'NO_ORDER' | null;
  resolved_at: Instant | null;
  resolved_by: string | null;
  note: string | null;
}

export interface ReportRow {
  id: string;
  task_id: string;
  attempt_id: string;
  submission_id: string | null;
  outcome: 'ORDER_CREATED' | 'UNKNOWN' | 'NOT_SUBMITTED';
  order_no: string | null;
  amount_cents: number | null;
  evidence_ids: string;
  late: boolean;
  contradicting: boolean;
  reported_at: Instant;
  acknowledged_at: Instant | null;
  acknowledged_by: string | null;
  acknowledgement_note: string | null;
}

/** A task with the newest of each fact about it: its latest authorization, claim, attempt and that attempt's confirmation. */
export interface TaskFacts {
  task: TaskRow;
  authorization?: AuthorizationRow;
  claim?: ClaimRow;
  attempt?: AttemptRow;
  confirmation?: ConfirmationRow;
  submission?: SubmissionRow;
}
