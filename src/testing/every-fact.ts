import { v7 as uuidv7 } from 'uuid';
import { closeClaim } from '../store/claims';
import { hashSecret } from '../store/credentials';
import { lockTask, moveTask, noteEvent } from '../store/tasks';
import type { Claimed, Purchase, Running, Submitting } from './purchase';

/** A task in each state, with what leads there. */
export interface EveryFact {
  draft: string;
  pending: string;
  claimed: Claimed;
  running: Running;
  waiting: Running;
  submitting: Submitting;
  uncertain: Submitting;
  failedAttempt: Running;
  ordered: Submitting;
  confirmed: Submitting;
  noOrder: Submitting;
  canceled: Claimed;
  takenOver: Claimed;
}

/** Fills every table: by the real verbs, and by hand where a fact has no verb yet, written as its verb would. */
export async function makeEveryFact(purchase: Purchase): Promise<EveryFact> {
  const [silent, ...phones] = await purchase.addPhones(8);
  const next = () => phones.pop()!;
  const sha256 = await purchase.picture();

  const left = await purchase.claimed(silent);
  const takenOver = await purchase.takenOver(left, next());
  const running = await purchase.running(next());
  const asking = await purchase.running(next(), { confirmation_required: true });
  const { running: waiting } = await purchase.confirmation(asking, 'REQUESTED');
  const submitting = await purchase.submitting(next());
  const claimed = await purchase.claimed(next());

  // The last phone ends what it begins, one after another.
  const { phone } = purchase;
  const ordered = await purchase.ordered(phone);
  const asked = await purchase.running(phone, { confirmation_required: true });
  const { confirmation_id, running: approved } = await purchase.confirmation(asked, 'APPROVED');
  const confirmed = await purchase.report(await purchase.fence(approved, { confirmation_id }));
  const uncertain = await purchase.report(await purchase.submitting(phone), { outcome: 'UNKNOWN' });
  const noOrder = await purchase.report(await purchase.submitting(phone), { outcome: 'UNKNOWN' });
  await purchase.resolved(noOrder.task_id, 'NO_ORDER');
  const found = await purchase.report(await purchase.submitting(phone), { outcome: 'NOT_SUBMITTED' });
  await purchase.resolved(found.task_id, 'ORDER_CREATED', 'P-9');
  await purchase.callResult(phone, purchase.resultRequest(found, { order_no: 'P-10' }));
  const canceled = await purchase.claimed(phone);
  await purchase.canceled(canceled);
  const failedAttempt = await purchase.running(phone);
  await fail(purchase, failedAttempt);
  const reset = await purchase.running(phone);
  await fail(purchase, reset);
  await resetToDraft(purchase, reset);
  await purchase.beat(phone);
  const pending = await purchase.pending({ external_ref: 'REQ-1' }, { reference_image_sha256: sha256 });
  await purchase.draft({ title: '"quoted" \\ 你好\n🛒', buyer_note: '' });
  const { task: copy } = await purchase.draft();

  await purchase.database.write(async (work) => {
    await work.trx('tasks').where('id', copy.id).update({ duplicated_from: pending.task.id });
    const shared = {
      task_id: ordered.task_id,
      attempt_id: ordered.attempt_id,
      late: false,
      created_at: work.now,
    };
    await work.trx('evidence').insert({
      ...shared,
      id: uuidv7(),
      client_evidence_id: 'e-1',
      kind: 'ORDER_PAGE',
      image_sha256: sha256,
      received_sha256: sha256,
    });
    await work.trx('progress_events').insert({
      ...shared,
      id: uuidv7(),
      client_event_id: 'p-1',
      step: 'SEARCHING',
      content_sha256: sha256,
    });
    await work.trx('idempotency_records').insert({
      user_id: phone.user_id,
      device_id: phone.device_id,
      operation: 'claimNextTask',
      idempotency_key: 'no-task',
      request_hash: hashSecret('request'),
      outcome: 'NO_TASK',
      token_hash: hashSecret('token'),
      created_at: work.now,
    });
    await work.trx('login_buckets').insert({ bucket: 'b', window_started_at: work.now, attempts: 1 });
    await work
      .trx('login_origins')
      .insert({ username_key: 'boss', address: '::1', last_success_at: work.now });
  });
  return {
    draft: copy.id,
    pending: pending.task.id,
    claimed,
    running,
    waiting,
    submitting,
    uncertain,
    failedAttempt,
    ordered,
    confirmed,
    noOrder,
    canceled,
    takenOver,
  };
}

/** The phone cannot go on: RUNNING -> NEEDS_MANUAL; claim and authorization stay. */
function fail(purchase: Purchase, running: Running): Promise<void> {
  return purchase.database.write(async (work) => {
    const facts = (await lockTask(work, running.task_id))!;
    await work
      .trx('attempts')
      .where('id', running.attempt_id)
      .update({ status: 'FAILED', failure_code: 'OUT_OF_STOCK', ended_at: work.now });
    await moveTask(work, running.phone, facts, 'task.attempt_failed');
  });
}

/** A person takes the task back: NEEDS_MANUAL -> DRAFT. */
function resetToDraft(purchase: Purchase, running: Running): Promise<void> {
  return purchase.database.write(async (work) => {
    const facts = (await lockTask(work, running.task_id))!;
    await work
      .trx('authorizations')
      .where('id', running.authorization_id)
      .update({ status: 'ABANDONED', closed_at: work.now });
    await noteEvent(work, running.phone, facts, 'task.stop_reported');
    await moveTask(work, purchase.admin, facts, 'task.reset_to_draft');
    await closeClaim(work, facts.claim!, facts.task);
  });
}
