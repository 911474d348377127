import { Router } from 'express';
import { changeOwnPassword } from '../access/change-own-password';
import { Refusal } from '../contract/errors';
import {
  checkFormToken,
  emptyForm,
  type Fault,
  type FormView,
  parseActionForm,
  readForm,
  viewForm,
} from './forms';
import { type AdminVisit, admin, type Desk, noteOf, seeOther, show } from './visit';

const path = '/admin/password';

const rules = {
  current_password: { kind: 'password', label: 'field.current_password', required: true, min: 1, max: 1_000 },
  new_password: { kind: 'password', label: 'field.new_password', required: true, min: 12, max: 128 },
  repeat_password: { kind: 'password', label: 'field.repeat_password', required: true, min: 1, max: 1_000 },
} as const;

/** Another password for oneself. */
export function passwordPages(desk: Desk): Router {
  const router = Router();

  router.get(
    path,
    admin(desk, async (visit) => showPassword(visit, emptyForm)),
  );

  router.post(
    path,
    parseActionForm,
    admin(desk, async (visit) => {
      checkFormToken(visit.request, visit.csrf);
      const { faults, fields } = readForm(rules, visit.request.body);
      const again = (found: readonly Fault[], status = 400) =>
        showPassword(visit, viewForm({}, found, visit.words), status);
      if (!fields) return again(faults);
      const { current_password, new_password, repeat_password } = fields;
      if (new_password !== repeat_password)
        return again([{ field: 'repeat_password', key: 'fault.mismatch' }]);
      const address = visit.request.ip ?? '';
      try {
        await changeOwnPassword(desk.services.database, visit.actor, {
          current_password,
          new_password,
          address,
        });
      } catch (error) {
        if (!(error instanceof Refusal) || error.code !== 'INVALID_CREDENTIALS') throw error;
        return again([{ field: 'current_password', key: 'fault.current_password' }]);
      }
      seeOther(visit.response, `${path}?done=changed`);
    }),
  );
  return router;
}

function showPassword(visit: AdminVisit, form: FormView, status = 200): void {
  visit.context.here ||= path;
  const frame = { title: visit.words.say('password.title'), section: 'none' } as const;
  const note = noteOf(visit, { changed: 'password.saved' });
  show(visit, 'password', frame, { width: 'page-narrow', form, note }, status);
}
