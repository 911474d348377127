import { Router } from 'express';
import { v7 as uuidv7 } from 'uuid';
import { createUser } from '../access/create-user';
import { hashPassword } from '../access/passwords';
import { resetUserPassword } from '../access/reset-user-password';
import { updateUser } from '../access/update-user';
import { Refusal } from '../contract/errors';
import type { User } from '../contract/generated/types.gen';
import { userView } from '../http/admin-views';
import { findUser, pageUsers, viewOfUser } from '../store/users';
import {
  checkFormToken,
  emptyForm,
  type Fault,
  type FormView,
  parseActionForm,
  readForm,
  viewForm,
} from './forms';
import {
  type AdminVisit,
  admin,
  type Desk,
  noteOf,
  pagerOf,
  queryText,
  seeOther,
  show,
  transact,
} from './visit';

const PAGE_SIZE = 50;
const path = '/admin/users';
const USER_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const displayName = { kind: 'text', label: 'field.display_name', max: 80 } as const;
const newRules = {
  username: {
    kind: 'text',
    label: 'field.username',
    required: true,
    max: 64,
    pattern: /^[A-Za-z0-9._-]{3,64}$/,
  },
  display_name: displayName,
  role: { kind: 'choice', label: 'field.role', required: true, options: ['ADMIN', 'BUYER'] },
  password: { kind: 'password', label: 'field.password', required: true, min: 12, max: 128 },
  idempotency_key: { kind: 'hidden', pattern: /^[\x21-\x2b\x2d-\x7e]{1,128}$/, required: true },
} as const;
const editRules = {
  display_name: displayName,
  status: { kind: 'choice', label: 'field.status', required: true, options: ['ACTIVE', 'DISABLED'] },
} as const;
const resetRules = {
  new_password: { kind: 'password', label: 'field.new_password', required: true, min: 12, max: 128 },
} as const;
const notes = {
  created: 'users.saved_created',
  updated: 'users.saved_updated',
  reset: 'users.saved_reset',
} as const;

/** The people: list, create, rename or disable, reset a password. */
export function userPages(desk: Desk): Router {
  const { database } = desk.services;
  const router = Router();

  router.get(
    path,
    admin(desk, async (visit) => {
      const request = { limit: PAGE_SIZE, cursor: queryText(visit.request, 'cursor', 2_000) };
      const page = await pageUsers(database.read, request);
      const frame = { title: visit.words.say('users.title'), section: 'users' } as const;
      const data = {
        users: page.items.map(userView),
        pager: pagerOf(visit, path, page),
        note: noteOf(visit, notes),
      };
      show(visit, 'users', frame, data);
    }),
  );

  router.get(
    `${path}/new`,
    admin(desk, async (visit) => showNew(visit, emptyForm, uuidv7())),
  );

  router.post(
    path,
    parseActionForm,
    admin(desk, async (visit) => {
      checkFormToken(visit.request, visit.csrf);
      const { values, faults, fields } = readForm(newRules, visit.request.body);
      const key = values.idempotency_key ?? uuidv7();
      const again = (found: readonly Fault[], status = 400) =>
        showNew(visit, viewForm(values, found, visit.words), key, status);
      if (!fields) return again(faults);
      const { password, ...request } = fields;
      const password_hash = await hashPassword(password, '/body/password');
      try {
        await transact(desk, visit, (work, actor) => createUser(work, actor, { ...request, password_hash }));
      } catch (error) {
        if (!(error instanceof Refusal) || error.code !== 'DUPLICATE_USERNAME') throw error;
        return again([{ field: 'username', key: 'fault.duplicate_username' }], error.status);
      }
      seeOther(visit.response, `${path}?done=created`);
    }),
  );

  router.get(
    `${path}/:user_id`,
    admin(desk, async (visit) => {
      const user = await readUser(desk, visit);
      showUser(visit, user, { form: { values: valuesOf(user), faults: [] } });
    }),
  );

  router.post(
    `${path}/:user_id`,
    parseActionForm,
    admin(desk, async (visit) => {
      checkFormToken(visit.request, visit.csrf);
      const user = await readUser(desk, visit);
      const { values, faults, fields } = readForm(editRules, visit.request.body);
      const again = (found: readonly Fault[], status = 400) =>
        showUser(visit, user, { form: viewForm(values, found, visit.words) }, status);
      if (!fields) return again(faults);
      try {
        await transact(desk, visit, (work, actor) =>
          updateUser(work, actor, { user_id: user.id, ...fields }),
        );
      } catch (error) {
        if (!(error instanceof Refusal) || error.code !== 'LAST_ADMIN') throw error;
        return again([{ field: 'status', key: 'fault.last_admin' }], error.status);
      }
      seeOther(visit.response, `${path}/${user.id}?done=updated`);
    }),
  );

  router.post(
    `${path}/:user_id/reset-password`,
    parseActionForm,
    admin(desk, async (visit) => {
      checkFormToken(visit.request, visit.csrf);
      const user = await readUser(desk, visit);
      const { values, faults, fields } = readForm(resetRules, visit.request.body);
      if (!fields) {
        const form = { values: valuesOf(user), faults: [] };
        return showUser(visit, user, { form, resetForm: viewForm(values, faults, visit.words) }, 400);
      }
      const password_hash = await hashPassword(fields.new_password, '/body/new_password');
      await transact(desk, visit, (work, actor) =>
        resetUserPassword(work, actor, { user_id: user.id, password_hash }),
      );
      seeOther(visit.response, `${path}/${user.id}?done=reset`);
    }),
  );
  return router;
}

/** @throws Refusal NOT_FOUND */
async function readUser({ services }: Desk, { request }: AdminVisit): Promise<User> {
  const { user_id } = request.params;
  const known = typeof user_id === 'string' && USER_ID.test(user_id);
  const row = known ? await findUser(services.database.read, user_id) : undefined;
  if (!row) throw new Refusal('NOT_FOUND');
  return userView(viewOfUser(row));
}

function valuesOf(user: User): Record<string, string> {
  return { display_name: user.display_name ?? '', status: user.status };
}

function showNew(visit: AdminVisit, form: FormView, key: string, status = 200): void {
  const { say } = visit.words;
  visit.context.here ||= `${path}/new`;
  const data = {
    width: 'page-narrow',
    intro: say('users.new_intro'),
    action: path,
    hidden: [['idempotency_key', key]],
    form,
    submit: say('users.create'),
  };
  show(visit, 'user-form', { title: say('users.new_title'), section: 'users' }, data, status);
}

function showUser(
  visit: AdminVisit,
  user: User,
  forms: { form: FormView; resetForm?: FormView },
  status = 200,
): void {
  const { say } = visit.words;
  visit.context.here ||= `${path}/${user.id}`;
  const frame = { title: say('users.edit_title', { username: user.username }), section: 'users' } as const;
  const data = {
    width: 'page-narrow',
    user,
    intro: say('users.edit_intro'),
    action: `${path}/${user.id}`,
    hidden: [],
    resetForm: emptyForm,
    ...forms,
    submit: say('users.save'),
    note: noteOf(visit, notes),
  };
  show(visit, 'user-form', frame, data, status);
}
