import type { AttentionReason, TaskStatus } from '../contract/generated/types.gen';
import { formatRelative, formatShort, formatSpan, formatWhole, shortId } from './format';
import type { Speaker } from './words/words';

/** Text made safe for element content and for attributes in double or single quotes; nothing for null. */
export function escapeHtml(value: unknown): string {
  if (value === null || value === undefined) return '';
  return String(value)
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;')
    .replace(/"/g, '&quot;')
    .replace(/'/g, '&#39;');
}

export type Tone = 'neutral' | 'info' | 'good' | 'warning' | 'danger';

interface Look {
  tone: Tone;
  icon: string;
}

const statusLooks: Record<TaskStatus, Look> = {
  DRAFT: { tone: 'neutral', icon: 'pencil' },
  PENDING: { tone: 'info', icon: 'clock' },
  CLAIMED: { tone: 'info', icon: 'phone' },
  RUNNING: { tone: 'info', icon: 'play' },
  WAITING_CONFIRMATION: { tone: 'warning', icon: 'question' },
  SUBMITTING: { tone: 'info', icon: 'lock' },
  NEEDS_MANUAL: { tone: 'danger', icon: 'alert' },
  ORDERED: { tone: 'good', icon: 'check-circle' },
  FAILED: { tone: 'neutral', icon: 'cross-circle' },
  CANCELED: { tone: 'neutral', icon: 'ban' },
};

const attentionLooks: Record<AttentionReason, Look> = {
  RUN_LEASE_EXPIRED: { tone: 'danger', icon: 'alert' },
  NEEDS_MANUAL: { tone: 'danger', icon: 'alert' },
  WAITING_CONFIRMATION: { tone: 'warning', icon: 'question' },
  SUBMITTING_SILENT: { tone: 'danger', icon: 'alert' },
  RECONCILIATION_REQUIRED: { tone: 'danger', icon: 'search' },
  AUTHORIZATION_EXPIRED: { tone: 'warning', icon: 'clock' },
  CLAIMANT_WITHOUT_ACCESS: { tone: 'warning', icon: 'ban' },
  CONTRADICTING_REPORT: { tone: 'danger', icon: 'alert' },
};

const noticeIcons: Record<Tone, string> = {
  neutral: 'info',
  info: 'info',
  good: 'check-circle',
  warning: 'alert',
  danger: 'alert',
};

const eventLooks: Record<string, Look> = {
  'task.created': { tone: 'neutral', icon: 'file' },
  'task.edited': { tone: 'neutral', icon: 'pencil' },
  'task.reference_image_put': { tone: 'neutral', icon: 'image' },
  'task.reference_image_removed': { tone: 'neutral', icon: 'image' },
  'task.purchase_started': { tone: 'info', icon: 'play' },
  'task.claimed': { tone: 'info', icon: 'phone' },
  'task.taken_over': { tone: 'info', icon: 'phone' },
  'task.lapsed': { tone: 'warning', icon: 'clock' },
  'task.released': { tone: 'neutral', icon: 'return' },
  'task.started': { tone: 'info', icon: 'play' },
  'task.confirmation_requested': { tone: 'warning', icon: 'question' },
  'task.confirmation_decided': { tone: 'info', icon: 'check' },
  'task.attempt_failed': { tone: 'danger', icon: 'alert' },
  'task.cancel_acknowledged': { tone: 'neutral', icon: 'stop' },
  'task.canceled': { tone: 'neutral', icon: 'ban' },
  'task.reset_to_draft': { tone: 'neutral', icon: 'return' },
  'task.submission_fenced': { tone: 'info', icon: 'lock' },
  'task.order_created': { tone: 'good', icon: 'check' },
  'task.submission_uncertain': { tone: 'danger', icon: 'alert' },
  'task.reconciliation_required': { tone: 'danger', icon: 'search' },
  'task.order_confirmed': { tone: 'good', icon: 'check' },
  'task.no_order_confirmed': { tone: 'neutral', icon: 'cross' },
  'task.cancel_requested': { tone: 'warning', icon: 'stop' },
  'task.stop_reported': { tone: 'info', icon: 'stop' },
};

/** Writers of the small pieces that every page repeats; each returns safe HTML. */
export interface Markup {
  icon(name: string): string;
  badge(tone: Tone, icon: string, text: string, large?: boolean): string;
  flag(tone: Tone, icon: string, text: string): string;
  taskStatus(status: TaskStatus, large?: boolean): string;
  attention(reason: AttentionReason): string;
  notice(tone: Tone, text: string): string;
  eventDot(type: string): string;
  toneDot(tone: Tone): string;
  /** Short time in the page's zone; the whole one with its offset on hover. */
  time(instant: string): string;
  /** How far from now, with the whole time on hover. */
  relative(instant: string): string;
  /** Time and relative age side by side. */
  timeAndAge(instant: string): string;
  /** A span that counts down where scripts run, and reads right where they do not. */
  countdown(until: string): string;
  /** An id shortened in the middle that copies whole. */
  id(id: string): string;
}

/** Markup for one request's language, zone and instant. */
export function buildMarkup(words: Speaker, zone: string, now: Date, sprite: string): Markup {
  const icon = (name: string) =>
    `<svg class="icon" aria-hidden="true" focusable="false"><use href="${sprite}#${name}"></use></svg>`;
  const timeTag = (instant: string, text: string) =>
    `<time datetime="${escapeHtml(instant)}" title="${formatWhole(new Date(instant), zone)}">${escapeHtml(text)}</time>`;
  const badge: Markup['badge'] = (tone, name, text, large = false) =>
    `<span class="badge${large ? ' badge-large' : ''} tone-${tone}">${icon(name)}${escapeHtml(text)}</span>`;
  const flag: Markup['flag'] = (tone, name, text) =>
    `<span class="flag tone-${tone}">${icon(name)}${escapeHtml(text)}</span>`;
  const time: Markup['time'] = (instant) => timeTag(instant, formatShort(new Date(instant), zone, now));
  const relative: Markup['relative'] = (instant) =>
    timeTag(instant, formatRelative(new Date(instant), now, words.language));

  return {
    icon,
    badge,
    flag,
    time,
    relative,
    taskStatus: (status, large) => {
      const look = statusLooks[status] ?? { tone: 'neutral', icon: 'info' };
      return badge(look.tone, look.icon, words.name('', status), large);
    },
    attention: (reason) => {
      const look = attentionLooks[reason] ?? { tone: 'warning', icon: 'alert' };
      return flag(look.tone, look.icon, words.name('attention.', reason));
    },
    notice: (tone, text) =>
      `<div class="notice tone-${tone}" role="status">${icon(noticeIcons[tone])}<p>${escapeHtml(text)}</p></div>`,
    eventDot: (type) => {
      const look = eventLooks[type] ?? { tone: 'neutral', icon: 'info' };
      return `<span class="dot tone-${look.tone}">${icon(look.icon)}</span>`;
    },
    toneDot: (tone) => `<span class="dot tone-${tone}">${icon(noticeIcons[tone])}</span>`,
    timeAndAge: (instant) =>
      `<span class="num">${time(instant)}</span> <span class="faint nowrap">${escapeHtml(
        formatRelative(new Date(instant), now, words.language),
      )}</span>`,
    countdown: (until) => {
      const left = Math.max(0, new Date(until).getTime() - now.getTime());
      const over = escapeHtml(words.say('task_list.lease_over'));
      return `<span class="num" data-expires-in-ms="${left}" data-over="${over}">${escapeHtml(
        left > 0 ? formatSpan(left, words.language) : words.say('task_list.lease_over'),
      )}</span>`;
    },
    id: (id) =>
      `<span class="copy"><span class="mono" title="${escapeHtml(id)}">${escapeHtml(shortId(id))}</span>` +
      `<button class="copy-button" type="button" hidden data-copy="${escapeHtml(id)}"` +
      ` data-copied="${escapeHtml(words.say('page.copied'))}" data-done="${sprite}#check"` +
      ` aria-label="${escapeHtml(words.say('page.copy'))} ${escapeHtml(shortId(id))}">${icon('copy')}</button></span>`,
  };
}
