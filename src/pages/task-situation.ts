import type { TaskDetail } from '../contract/generated/types.gen';
import { formatRelative, formatSpan, formatWhole } from './format';
import type { Tone } from './markup';
import type { Speaker, WordKey } from './words/words';

/** Where a task stands in plain sentences: what holds for sure, and what nobody can know from here. */
export interface Situation {
  tone: Tone;
  lead: string;
  known: string[];
  unknown: string[];
}

/** Tells how a task stands. Silence of a phone is told as not knowing, never as the phone having stopped. */
export function tellSituation(task: TaskDetail, words: Speaker, zone: string, now: Date): Situation {
  const { claim, attempt, authorization, submission } = task;
  const label = claim?.device_label ?? '—';
  const live = claim !== undefined && claim.closed_at === undefined && new Date(claim.lease_expires_at) > now;
  const relative = (instant: string) => formatRelative(new Date(instant), now, words.language);
  const known: string[] = [];
  const unknown: string[] = [];
  const tell = (tone: Tone, key: WordKey, values = {}): Situation => ({
    tone,
    lead: words.say(key, { label, ...values }),
    known,
    unknown,
  });

  if (task.attention.includes('CLAIMANT_WITHOUT_ACCESS')) unknown.push(words.say('unknown.no_access'));
  const heldStates = ['RUNNING', 'WAITING_CONFIRMATION', 'SUBMITTING'];
  if (heldStates.includes(task.status)) {
    if (attempt?.last_seen_at)
      known.push(words.say('known.last_seen', { relative: relative(attempt.last_seen_at) }));
    if (live) {
      const left = new Date(claim.lease_expires_at).getTime() - now.getTime();
      known.push(words.say('known.lease_left', { span: formatSpan(left, words.language) }));
    }
    if (!live && task.status !== 'SUBMITTING') unknown.push(words.say('unknown.still_acting'));
    if (task.cancel_requested_at) {
      known.push(words.say('known.stop_wanted', { relative: relative(task.cancel_requested_at) }));
    }
  }
  if (submission) {
    known.push(words.say('known.fenced', { time: formatWhole(new Date(submission.fenced_at), zone) }));
    if (submission.order_no) known.push(words.say('known.order', { order: submission.order_no }));
  } else if (['RUNNING', 'WAITING_CONFIRMATION', 'NEEDS_MANUAL'].includes(task.status)) {
    known.push(words.say('known.not_fenced'));
  }

  switch (task.status) {
    case 'DRAFT':
      return tell('neutral', 'situation.DRAFT');
    case 'PENDING': {
      if (authorization && new Date(authorization.expires_at) <= now)
        return tell('warning', 'situation.PENDING_expired');
      if (authorization) {
        known.push(words.say('known.authorization_until', { relative: relative(authorization.expires_at) }));
      }
      unknown.push(words.say('unknown.who_next'));
      return tell('info', 'situation.PENDING');
    }
    case 'CLAIMED': {
      if (live) return tell('info', 'situation.CLAIMED');
      known.push(words.say('known.never_started'));
      return tell('warning', 'situation.CLAIMED_lapsed');
    }
    case 'RUNNING': {
      if (!live) return tell('danger', 'situation.RUNNING_lapsed');
      return task.cancel_requested_at
        ? tell('warning', 'situation.RUNNING_stopping')
        : tell('info', 'situation.RUNNING');
    }
    case 'WAITING_CONFIRMATION':
      return live
        ? tell('warning', 'situation.WAITING_CONFIRMATION')
        : tell('danger', 'situation.WAITING_CONFIRMATION_lapsed');
    case 'SUBMITTING': {
      unknown.push(words.say('unknown.order_exists'));
      return live ? tell('info', 'situation.SUBMITTING') : tell('danger', 'situation.SUBMITTING_lapsed');
    }
    case 'NEEDS_MANUAL': {
      if (submission) {
        unknown.push(words.say('unknown.order_exists'));
        return tell('danger', 'situation.NEEDS_MANUAL_reconcile');
      }
      const reason = words.name('failure.', attempt?.failure_code ?? 'OTHER');
      return tell('danger', 'situation.NEEDS_MANUAL', { reason });
    }
    case 'ORDERED':
      return tell('good', 'situation.ORDERED');
    case 'FAILED':
      return tell('neutral', 'situation.FAILED');
    case 'CANCELED':
      return tell('neutral', 'situation.CANCELED');
    default:
      return tell('neutral', 'situation.other', { status: task.status });
  }
}
