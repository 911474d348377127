import { v7 as uuidv7 } from 'uuid';
import type { ErrorCode } from '../contract/generated/types.gen';
import type { TaskFacts } from '../store/facts';
import { allFacts } from '../testing/all-facts';
import { expectRefusal } from '../testing/expect-refusal';
import { expectInvariants } from '../testing/invariants';
import { openPurchase, type Purchase, WISH } from '../testing/purchase';
import { deleteReferenceImage } from './delete-reference-image';
import { putReferenceImage } from './put-reference-image';
import { updateTask } from './update-task';

let purchase: Purchase;
let picture: string;

beforeEach(async () => {
  purchase = await openPurchase();
  picture = await purchase.picture('first');
});
afterEach(async () => {
  await expectInvariants(purchase.database);
  await purchase.close();
});

const edit = (
  task_id: string,
  expected_task_version: number,
  wish: Parameters<typeof updateTask>[2]['wish'],
) =>
  purchase.act(purchase.admin, (work) =>
    updateTask(work, purchase.admin, { task_id, expected_task_version, wish }),
  );
const put = (task_id: string, expected_task_version: number, sha256 = picture) =>
  purchase.act(purchase.admin, (work) =>
    putReferenceImage(work, purchase.admin, { task_id, expected_task_version, sha256 }),
  );
const remove = (task_id: string, expected_task_version: number) =>
  purchase.act(purchase.admin, (work) =>
    deleteReferenceImage(work, purchase.admin, { task_id, expected_task_version }),
  );

/** The same call again gives the same answer and writes nothing. */
async function expectSameAgain(call: () => Promise<TaskFacts>, first: TaskFacts): Promise<void> {
  const before = await allFacts(purchase.database);
  expect((await call()).task).toEqual(first.task);
  expect(await allFacts(purchase.database)).toBe(before);
}

const OTHER_WISH = { ...WISH, title: '手机壳', quantity: 1, buyer_note: 'red', confirmation_required: true };

describe('updateTask', () => {
  it('rewrites the whole wish: DRAFT stays, version and one event', async () => {
    const { task } = await purchase.draft({ keywords: 'old', external_ref: 'REQ-1' }, picture);
    purchase.clock.advance(1_000);
    const facts = await edit(task.id, 1, OTHER_WISH);

    const stored = await purchase.facts(task.id);
    expect(stored.task).toMatchObject({
      ...OTHER_WISH,
      keywords: null,
      external_ref: null,
      reference_image_sha256: picture,
      status: 'DRAFT',
      version: 2,
      created_at: task.created_at,
      updated_at: purchase.clock.now(),
    });
    expect(facts.task).toEqual(stored.task);
    expect(await purchase.lastEvent(task.id)).toEqual({
      type: 'task.edited',
      from_status: 'DRAFT',
      to_status: 'DRAFT',
      version: 2,
      actor: ['ADMIN', purchase.admin.user_id, null],
      attempt_id: null,
      detail: null,
    });
  });

  it('is the same again for the same wish and old version, while nothing newer happened', async () => {
    const { task } = await purchase.draft();
    const first = await edit(task.id, 1, OTHER_WISH);
    await expectSameAgain(() => edit(task.id, 1, OTHER_WISH), first);
    await edit(task.id, 2, WISH);
    await expectRefusal(purchase.database, 'VERSION_CONFLICT', () => edit(task.id, 1, OTHER_WISH));
  });

  it.each(Object.keys({ ...OTHER_WISH, keywords: '', external_ref: '' }))(
    'refuses VERSION_CONFLICT for the same old version with another %s',
    async (field) => {
      const { task } = await purchase.draft();
      await edit(task.id, 1, OTHER_WISH);
      const other = { ...OTHER_WISH, [field]: field === 'confirmation_required' ? false : 7 };
      await expectRefusal(purchase.database, 'VERSION_CONFLICT', () => edit(task.id, 1, other));
    },
  );

  it('refuses VERSION_CONFLICT when another kind of edit led to that version', async () => {
    const { task } = await purchase.draft(OTHER_WISH);
    await put(task.id, 1);
    await expectRefusal(purchase.database, 'VERSION_CONFLICT', () => edit(task.id, 1, OTHER_WISH));
  });

  it('keeps its own external reference and refuses DUPLICATE_EXTERNAL_REF for another task’s', async () => {
    await purchase.draft({ external_ref: 'REQ-1' });
    const { task } = await purchase.draft({ external_ref: 'REQ-2' });
    await expectRefusal(purchase.database, 'DUPLICATE_EXTERNAL_REF', () =>
      edit(task.id, 1, { ...WISH, external_ref: 'REQ-1' }),
    );
    expect((await edit(task.id, 1, { ...OTHER_WISH, external_ref: 'REQ-2' })).task.version).toBe(2);
  });

  it('refuses INVALID_TASK_STATE before DUPLICATE_EXTERNAL_REF, and VERSION_CONFLICT before both', async () => {
    await purchase.draft({ external_ref: 'REQ-1' });
    const { task } = await purchase.pending();
    const wish = { ...WISH, external_ref: 'REQ-1' };
    await expectRefusal(purchase.database, 'INVALID_TASK_STATE', () => edit(task.id, 2, wish));
    await expectRefusal(purchase.database, 'VERSION_CONFLICT', () => edit(task.id, 3, wish));
  });
});

describe('putReferenceImage', () => {
  it('puts a picture: DRAFT stays, version and one event', async () => {
    const { task } = await purchase.draft();
    const facts = await put(task.id, 1);
    expect(facts.task).toMatchObject({ reference_image_sha256: picture, version: 2, status: 'DRAFT' });
    expect((await purchase.facts(task.id)).task).toEqual(facts.task);
    expect(await purchase.lastEvent(task.id)).toEqual({
      type: 'task.reference_image_put',
      from_status: 'DRAFT',
      to_status: 'DRAFT',
      version: 2,
      actor: ['ADMIN', purchase.admin.user_id, null],
      attempt_id: null,
      detail: { sha256: picture },
    });
  });

  it('replaces a picture', async () => {
    const { task } = await purchase.draft({}, picture);
    const other = await purchase.picture('second');
    expect((await put(task.id, 1, other)).task.reference_image_sha256).toBe(other);
  });

  it('is the same again for the same picture, and refuses VERSION_CONFLICT for another', async () => {
    const { task } = await purchase.draft();
    const first = await put(task.id, 1);
    await expectSameAgain(() => put(task.id, 1), first);
    const other = await purchase.picture('second');
    await expectRefusal(purchase.database, 'VERSION_CONFLICT', () => put(task.id, 1, other));
    await put(task.id, 2, other);
    await expectRefusal(purchase.database, 'VERSION_CONFLICT', () => put(task.id, 1));
  });
});

describe('deleteReferenceImage', () => {
  it('takes the picture away: DRAFT stays, version and one event, the stored picture stays', async () => {
    const { task } = await purchase.draft({}, picture);
    const facts = await remove(task.id, 1);
    expect(facts.task).toMatchObject({ reference_image_sha256: null, version: 2, status: 'DRAFT' });
    expect((await purchase.facts(task.id)).task).toEqual(facts.task);
    expect(await purchase.lastEvent(task.id)).toMatchObject({
      type: 'task.reference_image_removed',
      from_status: 'DRAFT',
      to_status: 'DRAFT',
      version: 2,
      detail: null,
    });
    expect(await purchase.rows('images')).toHaveLength(1);
  });

  it('is the same again, and refuses VERSION_CONFLICT once something newer happened', async () => {
    const { task } = await purchase.draft({}, picture);
    const first = await remove(task.id, 1);
    await expectSameAgain(() => remove(task.id, 1), first);
    await put(task.id, 2);
    await expectRefusal(purchase.database, 'VERSION_CONFLICT', () => remove(task.id, 1));
  });

  it('refuses NOT_FOUND without a picture', async () => {
    const { task } = await purchase.draft();
    await expectRefusal(purchase.database, 'NOT_FOUND', () => remove(task.id, 1));
  });

  it('refuses INVALID_TASK_STATE before NOT_FOUND', async () => {
    const { task } = await purchase.pending();
    await expectRefusal(purchase.database, 'INVALID_TASK_STATE', () => remove(task.id, 2));
  });
});

describe.each([
  ['updateTask', (id: string, version: number) => edit(id, version, OTHER_WISH)],
  ['putReferenceImage', (id: string, version: number) => put(id, version)],
  ['deleteReferenceImage', (id: string, version: number) => remove(id, version)],
] as const)('%s', (_verb, call) => {
  it('refuses TASK_NOT_FOUND', async () => {
    await expectRefusal(purchase.database, 'TASK_NOT_FOUND', () => call(uuidv7(), 1));
  });

  it.each([0, 2])(
    'refuses VERSION_CONFLICT for version %i and tells how the task stands',
    async (version) => {
      const { task } = await purchase.draft({}, picture);
      const refusal = await expectRefusal(purchase.database, 'VERSION_CONFLICT', () =>
        call(task.id, version),
      );
      expect(refusal.extra.current).toEqual({ task_id: task.id, status: 'DRAFT', version: 1 });
    },
  );

  it.each(['PENDING', 'CLAIMED', 'RUNNING', 'SUBMITTING', 'NEEDS_MANUAL', 'ORDERED'])(
    'refuses INVALID_TASK_STATE for a %s task, and VERSION_CONFLICT before it',
    async (status) => {
      const { task } = await purchase.pending({}, { reference_image_sha256: picture });
      if (status !== 'PENDING') {
        const claimed = await purchase.claim();
        if (status !== 'CLAIMED') {
          const running = await purchase.start(claimed);
          if (status !== 'RUNNING') {
            const submitting = await purchase.fence(running);
            if (status === 'NEEDS_MANUAL') await purchase.report(submitting, { outcome: 'UNKNOWN' });
            if (status === 'ORDERED') await purchase.report(submitting);
          }
        }
      }
      const [stands, version] = await purchase.standing(task.id);
      expect(stands).toBe(status);
      const expected: [number, ErrorCode][] = [
        [version, 'INVALID_TASK_STATE'],
        [1, 'VERSION_CONFLICT'],
      ];
      for (const [given, code] of expected) {
        await expectRefusal(purchase.database, code, () => call(task.id, given));
      }
    },
  );
});
