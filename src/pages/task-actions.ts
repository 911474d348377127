import type { AllowedAction, TaskAction, TaskDetail } from '../contract/generated/types.gen';
import { formatSpan } from './format';
import type { Speaker, WordKey } from './words/words';

/** One field of a form, as `partials/field.eta` draws it. */
export interface FieldView {
  name: string;
  label: string;
  kind: 'text' | 'multiline' | 'count' | 'yuan' | 'choice' | 'tick' | 'password' | 'file';
  optional?: boolean;
  hint?: string;
  max?: number;
  type?: string;
  autocomplete?: string;
  preview?: string;
  options?: { value: string; text: string }[];
}

/** One thing that a person can do with a task now, as its own form (or, with `href`, its own page). */
export interface ActionView {
  action: TaskAction;
  /** Tells this form's fields from those of the others on the page. */
  key: string;
  label: string;
  does: string;
  undo?: string;
  tone: 'primary' | 'normal' | 'danger';
  submit: string;
  href?: string;
  path: string;
  multipart: boolean;
  hidden: [string, string][];
  fields: FieldView[];
}

const bindings = [
  'expected_task_version',
  'authorization_id',
  'expected_claim_generation',
  'expected_attempt_id',
  'confirmation_id',
  'submission_id',
] as const satisfies readonly (keyof AllowedAction)[];

type Shown = Omit<ActionView, 'action' | 'key' | 'hidden' | 'multipart' | 'submit' | 'fields' | 'path'> &
  Partial<Pick<ActionView, 'hidden' | 'multipart' | 'submit' | 'fields' | 'path'>>;

/**
 * The forms for exactly what the server would accept, each carrying what the person saw.
 * @param wired the actions that have a page handler; others are left out
 */
export function presentActions(
  task: TaskDetail,
  words: Speaker,
  options: { wired: ReadonlySet<TaskAction>; defaultTtlSeconds: number; newKey: () => string },
): ActionView[] {
  const home = `/admin/tasks/${task.id}`;
  const label = task.claim?.device_label ?? '';
  const stopTick: FieldView = {
    name: 'confirmed_device_stopped',
    label: words.say('field.confirmed_device_stopped', { label }),
    kind: 'tick',
  };
  const note = (optional: boolean): FieldView => ({
    name: 'note',
    label: words.say('field.note'),
    kind: 'multiline',
    optional,
    max: 500,
  });
  const told = (key: `action.${string}` & WordKey) => words.say(key);

  const show = (allowed: AllowedAction): Shown | undefined => {
    const stopped = allowed.requires_device_stopped === true;
    switch (allowed.action) {
      case 'START_PURCHASE':
        return {
          label: told('action.START_PURCHASE'),
          does: told('action.START_PURCHASE_does'),
          undo: told('action.START_PURCHASE_undo'),
          tone: 'primary',
          path: 'start-purchase',
          fields: [
            {
              name: 'authorization_ttl_seconds',
              label: words.say('field.authorization_ttl'),
              kind: 'choice',
              optional: true,
              options: ttlOptions(words, options.defaultTtlSeconds),
            },
          ],
        };
      case 'UPDATE':
        return {
          label: told('action.UPDATE'),
          does: told('action.UPDATE_does'),
          tone: 'normal',
          href: `${home}/edit`,
        };
      case 'PUT_REFERENCE_IMAGE':
        return {
          label: told(
            task.reference_image ? 'action.PUT_REFERENCE_IMAGE_replace' : 'action.PUT_REFERENCE_IMAGE',
          ),
          does: told('action.PUT_REFERENCE_IMAGE_does'),
          tone: 'normal',
          path: 'reference-image',
          multipart: true,
          fields: [
            {
              name: 'picture',
              label: words.say('field.picture'),
              kind: 'file',
              hint: words.say('field.picture_hint'),
            },
          ],
        };
      case 'DELETE_REFERENCE_IMAGE':
        return {
          label: told('action.DELETE_REFERENCE_IMAGE'),
          does: told('action.DELETE_REFERENCE_IMAGE_does'),
          undo: told('action.DELETE_REFERENCE_IMAGE_undo'),
          tone: 'danger',
          path: 'reference-image/delete',
        };
      case 'CANCEL': {
        const asks = !stopped && (task.status === 'RUNNING' || task.status === 'WAITING_CONFIRMATION');
        return {
          label: asks
            ? told('action.CANCEL_request')
            : told(stopped ? 'action.CANCEL_confirmed' : 'action.CANCEL'),
          does: asks ? told('action.CANCEL_request_does') : told('action.CANCEL_does'),
          undo: asks ? undefined : told('action.CANCEL_undo'),
          tone: 'danger',
          path: 'cancel',
          fields: stopped ? [stopTick] : [],
        };
      }
      case 'RESET_TO_DRAFT':
        return {
          label: told(stopped ? 'action.RESET_TO_DRAFT_confirmed' : 'action.RESET_TO_DRAFT'),
          does: told('action.RESET_TO_DRAFT_does'),
          undo: told('action.RESET_TO_DRAFT_undo'),
          tone: 'danger',
          path: 'reset-to-draft',
          fields: stopped ? [stopTick] : [],
        };
      case 'APPROVE_CONFIRMATION':
        return {
          label: told('action.APPROVE_CONFIRMATION'),
          does: told('action.APPROVE_CONFIRMATION_does'),
          undo: told('action.APPROVE_CONFIRMATION_undo'),
          tone: 'primary',
          path: 'decision',
          hidden: [['decision', 'APPROVE']],
        };
      case 'REJECT_CONFIRMATION':
        return {
          label: told('action.REJECT_CONFIRMATION'),
          does: told('action.REJECT_CONFIRMATION_does'),
          tone: 'danger',
          path: 'decision',
          hidden: [['decision', 'REJECT']],
          fields: [note(true)],
        };
      case 'REQUIRE_RECONCILIATION':
        return {
          label: told('action.REQUIRE_RECONCILIATION'),
          does: told('action.REQUIRE_RECONCILIATION_does'),
          undo: told('action.REQUIRE_RECONCILIATION_undo'),
          tone: 'danger',
          path: 'require-reconciliation',
          fields: [stopTick],
        };
      case 'RESOLVE_SUBMISSION':
        return {
          label: told('action.RESOLVE_SUBMISSION'),
          does: told('action.RESOLVE_SUBMISSION_does'),
          undo: told('action.RESOLVE_SUBMISSION_undo'),
          tone: 'primary',
          path: 'resolve-submission',
          submit: told('action.RESOLVE_SUBMISSION_submit'),
          fields: [
            {
              name: 'resolution',
              label: words.say('field.resolution'),
              kind: 'choice',
              options: [
                { value: '', text: words.say('field.choose') },
                { value: 'ORDER_CREATED', text: told('action.RESOLVE_SUBMISSION_order') },
                { value: 'NO_ORDER', text: told('action.RESOLVE_SUBMISSION_none') },
              ],
            },
            { name: 'order_no', label: words.say('field.order_no'), kind: 'text', optional: true, max: 64 },
            { name: 'amount', label: words.say('field.amount'), kind: 'yuan', optional: true },
            note(true),
          ],
        };
      case 'ACKNOWLEDGE_REPORT':
        return {
          label: told('action.ACKNOWLEDGE_REPORT'),
          does: told('action.ACKNOWLEDGE_REPORT_does'),
          tone: 'normal',
          path: `reports/${allowed.report_id}/acknowledge`,
          fields: [note(false)],
        };
      case 'DUPLICATE':
        return {
          label: told('action.DUPLICATE'),
          does: told('action.DUPLICATE_does'),
          tone: 'normal',
          path: 'duplicate',
          hidden: [['idempotency_key', options.newKey()]],
        };
      default:
        return undefined;
    }
  };

  const views = task.allowed_actions.flatMap((allowed): ActionView[] => {
    const shown = options.wired.has(allowed.action) ? show(allowed) : undefined;
    if (!shown) return [];
    const bound = bindings.flatMap((name): [string, string][] =>
      allowed[name] === undefined ? [] : [[name, String(allowed[name])]],
    );
    return [
      {
        multipart: false,
        submit: shown.label,
        fields: [],
        ...shown,
        action: allowed.action,
        key: [allowed.action, allowed.report_id, allowed.requires_device_stopped && 'stopped']
          .filter(Boolean)
          .join('-'),
        path: `${home}/${shown.path ?? ''}`,
        hidden: [...bound, ...(shown.hidden ?? [])],
      },
    ];
  });
  const rank = { primary: 0, normal: 1, danger: 2 };
  return views.sort((one, other) => rank[one.tone] - rank[other.tone]);
}

function ttlOptions(words: Speaker, defaultSeconds: number): { value: string; text: string }[] {
  const span = (seconds: number) => formatSpan(seconds * 1000, words.language);
  const others = [3_600, 28_800, 86_400, 259_200].filter((seconds) => seconds !== defaultSeconds);
  return [
    { value: '', text: words.say('field.authorization_ttl_default', { span: span(defaultSeconds) }) },
    ...others.map((seconds) => ({ value: String(seconds), text: span(seconds) })),
  ];
}
