import { v7 as uuidv7 } from 'uuid';
import { allFacts } from '../testing/all-facts';
import { expectRefusal } from '../testing/expect-refusal';
import { expectInvariants } from '../testing/invariants';
import { openPurchase, type Purchase, WISH } from '../testing/purchase';
import { type CreateTaskRequest, createTask } from './create-task';

let purchase: Purchase;

beforeEach(async () => {
  purchase = await openPurchase();
});
afterEach(async () => {
  await expectInvariants(purchase.database);
  await purchase.close();
});

const requestOf = (over: Partial<CreateTaskRequest> = {}): CreateTaskRequest => ({
  idempotency_key: uuidv7(),
  wish: WISH,
  ...over,
});
const create = (request: CreateTaskRequest, admin = purchase.admin) =>
  purchase.act(admin, (work) => createTask(work, admin, request));

describe('createTask', () => {
  it.each([' ', '\u200b', '\ufeff', '\u2028\u3000'])(
    'refuses INVALID_REQUEST when the title %j shows nothing',
    async (title) => {
      await expectRefusal(purchase.database, 'INVALID_REQUEST', () =>
        create(requestOf({ wish: { ...WISH, title } })),
      );
    },
  );

  it('refuses INVALID_REQUEST when the address cannot be opened', async () => {
    const wish = { ...WISH, product_url: 'http://[::1' };
    await expectRefusal(purchase.database, 'INVALID_REQUEST', () => create(requestOf({ wish })));
  });

  it('writes a draft at version 1 with its event', async () => {
    const sha256 = await purchase.picture();
    const wish = {
      ...WISH,
      keywords: '耳机',
      product_url: 'https://mobile.yangkeduo.com/goods.html?goods_id=1',
      shop_name: '旗舰店',
      spec: '白色',
      buyer_note: 'line one\nline two',
      confirmation_required: true,
      external_ref: 'REQ-1',
    };
    const { facts, replayed } = await create(requestOf({ wish, reference_image_sha256: sha256 }));

    const now = purchase.clock.now();
    expect(replayed).toBe(false);
    const stored = await purchase.facts(facts.task.id);
    expect(stored).toEqual({
      task: {
        ...wish,
        id: facts.task.id,
        reference_image_sha256: sha256,
        status: 'DRAFT',
        version: 1,
        claim_generation: 0,
        created_at: now,
        updated_at: now,
        ended_at: null,
        created_by: purchase.admin.user_id,
        duplicated_from: null,
        authorization_expires_at: null,
        lease_expires_at: null,
      },
    });
    expect(facts.task).toEqual(stored.task);
    expect(await purchase.lastEvent(facts.task.id)).toEqual({
      type: 'task.created',
      from_status: null,
      to_status: 'DRAFT',
      version: 1,
      actor: ['ADMIN', purchase.admin.user_id, null],
      attempt_id: null,
      detail: null,
    });
    expect(await purchase.events(facts.task.id)).toHaveLength(1);
  });

  it('leaves optional fields empty', async () => {
    const { facts } = await create(requestOf());
    expect((await purchase.facts(facts.task.id)).task).toMatchObject({
      keywords: null,
      product_url: null,
      shop_name: null,
      spec: null,
      buyer_note: null,
      external_ref: null,
      reference_image_sha256: null,
      confirmation_required: false,
    });
  });

  it('refuses DUPLICATE_EXTERNAL_REF', async () => {
    await create(requestOf({ wish: { ...WISH, external_ref: 'REQ-1' } }));
    await expectRefusal(purchase.database, 'DUPLICATE_EXTERNAL_REF', () =>
      create(requestOf({ wish: { ...WISH, external_ref: 'REQ-1' } })),
    );
    await create(requestOf({ wish: { ...WISH, external_ref: 'req-1' } }));
  });

  it('refuses IDEMPOTENCY_KEY_REUSED before DUPLICATE_EXTERNAL_REF', async () => {
    const request = requestOf({ wish: { ...WISH, external_ref: 'REQ-1' } });
    await create(request);
    await expectRefusal(purchase.database, 'IDEMPOTENCY_KEY_REUSED', () =>
      create({ ...request, wish: { ...request.wish, quantity: 3 } }),
    );
  });

  it('replays the task that the key created, as it stands now, and writes nothing', async () => {
    const request = requestOf({ wish: { ...WISH, external_ref: 'REQ-1' } });
    const { facts } = await create(request);
    await purchase.press(facts.task.id, 1);
    const before = await allFacts(purchase.database);
    const again = await create(request);
    expect(again).toMatchObject({
      replayed: true,
      facts: { task: { id: facts.task.id, status: 'PENDING', version: 2 } },
    });
    expect(await allFacts(purchase.database)).toBe(before);
  });

  it('takes an absent field and an undefined one for the same request, in whatever order', async () => {
    const request = requestOf();
    await create(request);
    const reordered = Object.fromEntries(Object.entries(request.wish).reverse()) as typeof request.wish;
    expect((await create({ ...request, wish: { ...reordered, external_ref: undefined } })).replayed).toBe(
      true,
    );
  });

  it('refuses IDEMPOTENCY_KEY_REUSED under the same key with another picture', async () => {
    const request = requestOf();
    await create(request);
    const reference_image_sha256 = await purchase.picture();
    await expectRefusal(purchase.database, 'IDEMPOTENCY_KEY_REUSED', () =>
      create({ ...request, reference_image_sha256 }),
    );
  });

  it('records no refusal: the same key creates once the reference is free', async () => {
    const first = await create(requestOf({ wish: { ...WISH, external_ref: 'REQ-1' } }));
    const request = requestOf({ wish: { ...WISH, external_ref: 'REQ-1' } });
    await expectRefusal(purchase.database, 'DUPLICATE_EXTERNAL_REF', () => create(request));
    await purchase.database.write((work) =>
      work.trx('tasks').where('id', first.facts.task.id).update({ external_ref: null }),
    );
    expect((await create(request)).replayed).toBe(false);
  });
});
