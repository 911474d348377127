import { v7 as uuidv7 } from 'uuid';
import type { DeviceActor } from '../contract/actor';
import { allFacts } from '../testing/all-facts';
import { expectRefusal } from '../testing/expect-refusal';
import { type Claimed, openPurchase, type Purchase } from '../testing/purchase';
import { getHeldTask } from './get-held-task';

let purchase: Purchase;

beforeEach(async () => {
  purchase = await openPurchase();
});
afterEach(() => purchase.close());

const read = (phone: DeviceActor, { task_id, token_hash }: Pick<Claimed, 'task_id' | 'token_hash'>) =>
  purchase.database.snapshot((reader) => getHeldTask(reader, phone, { task_id, token_hash }));

describe('getHeldTask', () => {
  it.each(['CLAIMED', 'RUNNING', 'SUBMITTING', 'NEEDS_MANUAL'])(
    'shows a held %s task as its claim sees it and changes nothing',
    async (status) => {
      const claimed = await purchase.claimed();
      let running: Claimed = claimed;
      if (status !== 'CLAIMED') running = await purchase.start(claimed);
      if (status === 'SUBMITTING' || status === 'NEEDS_MANUAL') {
        const submitting = await purchase.fence(running as never);
        if (status === 'NEEDS_MANUAL') await purchase.report(submitting, { outcome: 'UNKNOWN' });
      }
      const before = await allFacts(purchase.database);
      const held = await read(claimed.phone, claimed);
      expect(held).toMatchObject({
        facts: { task: { id: claimed.task_id, status } },
        claim: { id: claimed.claim_id },
        attempt: { id: claimed.attempt_id },
        authorization: { id: claimed.authorization_id },
      });
      expect(await allFacts(purchase.database)).toBe(before);
    },
  );

  it('is not hidden by a lease that ran out', async () => {
    const claimed = await purchase.claimed();
    purchase.clock.set(claimed.lease_expires_at);
    expect((await read(claimed.phone, claimed)).claim.id).toBe(claimed.claim_id);
  });

  it('refuses TASK_NOT_FOUND for no task and for a task that the pair never held', async () => {
    const claimed = await purchase.claimed();
    const other = await purchase.addPhone();
    await expectRefusal(purchase.database, 'TASK_NOT_FOUND', () => read(other, claimed));
    await expectRefusal(purchase.database, 'TASK_NOT_FOUND', () =>
      read(claimed.phone, { ...claimed, task_id: uuidv7() }),
    );
  });

  it('refuses TASK_NOT_FOUND to another buyer on the same device: the pair is the owner', async () => {
    const claimed = await purchase.claimed();
    const other = await purchase.addPhone();
    await expectRefusal(purchase.database, 'TASK_NOT_FOUND', () =>
      read({ ...claimed.phone, user_id: other.user_id }, claimed),
    );
  });

  it('refuses CLAIM_TOKEN_MISMATCH for a token that is none of its claims on the task', async () => {
    const claimed = await purchase.claimed();
    const taken = await purchase.takenOver(claimed, await purchase.addPhone());
    await expectRefusal(purchase.database, 'CLAIM_TOKEN_MISMATCH', () => read(claimed.phone, taken));
  });

  it('refuses CLAIM_NOT_CURRENT once the claim was closed, and shows the newer claim to its own token', async () => {
    const claimed = await purchase.claimed();
    const anew = await purchase.takenOver(claimed, claimed.phone);
    await expectRefusal(purchase.database, 'CLAIM_NOT_CURRENT', () => read(claimed.phone, claimed));
    expect((await read(claimed.phone, anew)).claim.generation).toBe(2);
  });
});
