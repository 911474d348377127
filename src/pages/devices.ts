import { Router } from 'express';
import { v7 as uuidv7 } from 'uuid';
import { authorizeDevice } from '../access/authorize-device';
import { revokeDevice } from '../access/revoke-device';
import { updateDevice } from '../access/update-device';
import { Refusal } from '../contract/errors';
import type { Device } from '../contract/generated/types.gen';
import { deviceView } from '../http/admin-views';
import { findDeviceView, pageDevices } from '../store/devices';
import { pageUsers } from '../store/users';
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
const path = '/admin/devices';
const DEVICE_ID = /^[A-Za-z0-9._-]{8,64}$/;
const USER_PAGES = 20;

const deviceRules = {
  label: { kind: 'text', label: 'field.label', required: true, max: 80 },
  user_id: { kind: 'text', label: 'field.user_id', required: true, max: 36 },
} as const;
const newRules = {
  device_id: { kind: 'text', label: 'field.device_id', required: true, max: 64, pattern: DEVICE_ID },
  ...deviceRules,
  idempotency_key: { kind: 'hidden', pattern: /^[\x21-\x2b\x2d-\x7e]{1,128}$/, required: true },
} as const;
const revokeRules = {
  reason: { kind: 'text', label: 'field.revoke_reason', max: 500 },
} as const;
const notes = {
  authorized: 'devices.saved_authorized',
  updated: 'devices.saved_updated',
  revoked: 'devices.saved_revoked',
} as const;

/** The phones: list, authorise, rename or hand over, revoke. */
export function devicePages(desk: Desk): Router {
  const { database, timings } = desk.services;
  const router = Router();

  router.get(
    path,
    admin(desk, async (visit) => {
      const request = { limit: PAGE_SIZE, cursor: queryText(visit.request, 'cursor', 2_000) };
      const page = await pageDevices(database.read, request);
      const devices = page.items.map((view) => deviceView(view, visit.now, timings));
      const frame = { title: visit.words.say('devices.title'), section: 'devices' } as const;
      show(visit, 'devices', frame, {
        devices,
        pager: pagerOf(visit, path, page),
        note: noteOf(visit, notes),
      });
    }),
  );

  router.get(
    `${path}/new`,
    admin(desk, async (visit) => showNew(desk, visit, emptyForm, uuidv7())),
  );

  router.post(
    path,
    parseActionForm,
    admin(desk, async (visit) => {
      checkFormToken(visit.request, visit.csrf);
      const { values, faults, fields } = readForm(newRules, visit.request.body);
      const key = values.idempotency_key ?? uuidv7();
      const again = (found: readonly Fault[], status = 400) =>
        showNew(desk, visit, viewForm(values, found, visit.words), key, status);
      if (!fields) return again(faults);
      try {
        await transact(desk, visit, (work, actor) => authorizeDevice(work, actor, fields));
      } catch (error) {
        const fault = faultOf(error, 'device_id');
        if (!fault) throw error;
        return again([fault], (error as Refusal).status);
      }
      seeOther(visit.response, `${path}?done=authorized`);
    }),
  );

  router.get(
    `${path}/:device_id`,
    admin(desk, async (visit) => {
      const device = await readDevice(desk, visit);
      const values = { label: device.label, user_id: device.user.id };
      await showDevice(desk, visit, device, { form: { values, faults: [] } });
    }),
  );

  router.post(
    `${path}/:device_id`,
    parseActionForm,
    admin(desk, async (visit) => {
      checkFormToken(visit.request, visit.csrf);
      const { device_id } = await readDevice(desk, visit);
      const { values, faults, fields } = readForm(deviceRules, visit.request.body);
      const again = async (found: readonly Fault[], status = 400) => {
        const form = viewForm(values, found, visit.words);
        await showDevice(desk, visit, await readDevice(desk, visit), { form }, status);
      };
      if (!fields) return again(faults);
      try {
        await transact(desk, visit, (work, actor) => updateDevice(work, actor, { device_id, ...fields }));
      } catch (error) {
        const fault = faultOf(error, 'user_id');
        if (!fault) throw error;
        return again([fault], (error as Refusal).status);
      }
      seeOther(visit.response, `${path}/${device_id}?done=updated`);
    }),
  );

  router.post(
    `${path}/:device_id/revoke`,
    parseActionForm,
    admin(desk, async (visit) => {
      checkFormToken(visit.request, visit.csrf);
      const device = await readDevice(desk, visit);
      const { values, faults, fields } = readForm(revokeRules, visit.request.body);
      if (!fields) {
        const form = { values: { label: device.label, user_id: device.user.id }, faults: [] };
        return showDevice(
          desk,
          visit,
          device,
          { form, revokeForm: viewForm(values, faults, visit.words) },
          400,
        );
      }
      const { device_id } = device;
      await transact(desk, visit, (work, actor) => revokeDevice(work, actor, { device_id, ...fields }));
      seeOther(visit.response, `${path}/${device_id}?done=revoked`);
    }),
  );
  return router;
}

/** @throws Refusal NOT_FOUND */
async function readDevice({ services }: Desk, { request, now }: AdminVisit): Promise<Device> {
  const { device_id } = request.params;
  const known = typeof device_id === 'string' && DEVICE_ID.test(device_id);
  const view = known ? await findDeviceView(services.database.read, device_id) : undefined;
  if (!view) throw new Refusal('NOT_FOUND');
  return deviceView(view, now, services.timings);
}

/** A refusal that a person can put right in the form; `busyField` names what a busy device keeps from changing. */
function faultOf(error: unknown, busyField: string): Fault | undefined {
  if (!(error instanceof Refusal)) return undefined;
  if (error.code === 'DUPLICATE_DEVICE') return { field: 'device_id', key: 'fault.duplicate_device' };
  if (error.code === 'DEVICE_BUSY') return { field: busyField, key: 'fault.device_busy' };
  const atBuyer = error.extra.errors?.some(({ path: at }) => at === '/body/user_id');
  if (error.code === 'INVALID_REQUEST' && atBuyer)
    return { field: 'user_id', key: 'fault.option', label: 'field.user_id' };
  return undefined;
}

/** The active buyers to choose from, and the present one even when no longer active. */
async function buyerOptions({ services }: Desk, { words }: AdminVisit, present?: Device) {
  const options = [{ value: '', text: words.say('field.choose') }];
  const add = (user: { id: string; username: string; display_name?: string | null }) => {
    const { id, username, display_name } = user;
    options.push({ value: id, text: display_name ? `${display_name} (${username})` : username });
  };
  let cursor: string | undefined;
  for (let read = 0; read < USER_PAGES; read++) {
    const page = await pageUsers(services.database.read, { limit: 100, cursor });
    for (const user of page.items) if (user.role === 'BUYER' && user.status === 'ACTIVE') add(user);
    if (page.next_cursor === undefined) break;
    cursor = page.next_cursor;
  }
  if (present && options.every(({ value }) => value !== present.user.id)) add(present.user);
  return options;
}

async function showNew(
  desk: Desk,
  visit: AdminVisit,
  form: FormView,
  key: string,
  status = 200,
): Promise<void> {
  const { say } = visit.words;
  visit.context.here ||= `${path}/new`;
  const frame = { title: say('devices.authorize_title'), section: 'devices' } as const;
  const data = {
    width: 'page-narrow',
    intro: say('devices.authorize_intro'),
    action: path,
    hidden: [['idempotency_key', key]],
    form,
    buyers: await buyerOptions(desk, visit),
    submit: say('devices.authorize_submit'),
  };
  show(visit, 'device-form', frame, data, status);
}

async function showDevice(
  desk: Desk,
  visit: AdminVisit,
  device: Device,
  forms: { form: FormView; revokeForm?: FormView },
  status = 200,
): Promise<void> {
  const { say } = visit.words;
  visit.context.here ||= `${path}/${device.device_id}`;
  const frame = { title: say('devices.edit_title', { label: device.label }), section: 'devices' } as const;
  const data = {
    width: 'page-narrow',
    device,
    intro: say('devices.edit_intro'),
    action: `${path}/${device.device_id}`,
    hidden: [],
    revokeForm: emptyForm,
    ...forms,
    buyers: await buyerOptions(desk, visit, device),
    submit: say('devices.save'),
    note: noteOf(visit, notes),
  };
  show(visit, 'device-form', frame, data, status);
}
