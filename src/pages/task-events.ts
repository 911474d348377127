import type { TaskEvent } from '../contract/generated/types.gen';
import { formatMoney, formatWhole } from './format';
import type { Speaker, WordKey } from './words/words';

type Kind = 'text' | 'money' | 'count' | 'instant' | 'outcome' | 'failure' | 'confirmation';

/** The facts of an event that a person reads, in this order; what only machines need stays out. */
const shown: [name: string, label: WordKey, kind: Kind][] = [
  ['outcome', 'task.reported_outcome', 'outcome'],
  ['resolution', 'task.resolution', 'outcome'],
  ['decision', 'field.decision', 'confirmation'],
  ['failure_code', 'field.reason', 'failure'],
  ['unit_price_cents', 'task.unit_price', 'money'],
  ['quantity', 'task_list.quantity', 'count'],
  ['total_cents', 'task.total', 'money'],
  ['order_no', 'task.order_no', 'text'],
  ['amount_cents', 'task.amount', 'money'],
  ['authorization_expires_at', 'task.authorization_until', 'instant'],
  ['reason', 'field.reason', 'text'],
  ['message', 'field.note', 'text'],
  ['note', 'field.note', 'text'],
];

/** An event's facts as short sentences. */
export function tellEvent({ detail = {} }: TaskEvent, words: Speaker, zone: string): string[] {
  return shown.flatMap(([name, label, kind]) => {
    const value = detail[name];
    if (typeof value !== 'string' && typeof value !== 'number') return [];
    return [words.say('event.fact', { label: words.say(label), value: tellValue(kind, value, words, zone) })];
  });
}

function tellValue(kind: Kind, value: string | number, words: Speaker, zone: string): string {
  switch (kind) {
    case 'money':
      return typeof value === 'number' ? formatMoney(value) : value;
    case 'instant':
      return Number.isNaN(Date.parse(String(value))) ? String(value) : formatWhole(new Date(value), zone);
    case 'outcome':
      return words.name('outcome.', String(value));
    case 'failure':
      return words.name('failure.', String(value));
    case 'confirmation':
      return words.name('decision.', String(value));
    default:
      return String(value);
  }
}
