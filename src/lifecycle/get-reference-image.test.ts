import { v7 as uuidv7 } from 'uuid';
import { allFacts } from '../testing/all-facts';
import { expectRefusal } from '../testing/expect-refusal';
import { type Claimed, openPurchase, type Purchase, type Running, shifted } from '../testing/purchase';
import { getReferenceImage } from './get-reference-image';

let purchase: Purchase;
let sha256: string;

beforeEach(async () => {
  purchase = await openPurchase();
  sha256 = await purchase.picture();
});
afterEach(() => purchase.close());

async function claimedWithPicture(): Promise<Claimed> {
  await purchase.pending({}, { reference_image_sha256: sha256 });
  return purchase.claim();
}

function read(claimed: Claimed, over: Partial<Claimed> = {}): Promise<string> {
  const { phone, task_id, token_hash, claim_generation } = { ...claimed, ...over };
  return purchase.database.snapshot((reader) =>
    getReferenceImage(reader, phone, { task_id, token_hash, claim_generation }, purchase.clock.now()),
  );
}

describe('getReferenceImage', () => {
  it.each(['CLAIMED', 'RUNNING', 'WAITING_CONFIRMATION', 'SUBMITTING'])(
    'names the frozen picture of a %s task and changes nothing',
    async (status) => {
      const claimed = await claimedWithPicture();
      if (status !== 'CLAIMED') {
        const running = await purchase.start(claimed);
        if (status === 'WAITING_CONFIRMATION') await purchase.confirmation(running, 'REQUESTED');
        if (status === 'SUBMITTING') await purchase.fence(running);
      }
      const before = await allFacts(purchase.database);
      expect(await read(claimed)).toBe(sha256);
      expect(await allFacts(purchase.database)).toBe(before);
    },
  );

  it('answers until 1 ms before lease_expires_at and refuses LEASE_EXPIRED from then on', async () => {
    const claimed = await claimedWithPicture();
    purchase.clock.set(shifted(claimed.lease_expires_at, -1));
    expect(await read(claimed)).toBe(sha256);
    for (const after of [0, 1]) {
      purchase.clock.set(shifted(claimed.lease_expires_at, after));
      await expectRefusal(purchase.database, 'LEASE_EXPIRED', () => read(claimed));
    }
  });

  it('refuses NOT_FOUND when the authorization froze no picture', async () => {
    const claimed = await purchase.claimed();
    await expectRefusal(purchase.database, 'NOT_FOUND', () => read(claimed));
  });

  it('refuses LEASE_EXPIRED before NOT_FOUND', async () => {
    const claimed = await purchase.claimed();
    purchase.clock.set(claimed.lease_expires_at);
    await expectRefusal(purchase.database, 'LEASE_EXPIRED', () => read(claimed));
  });

  it('refuses INVALID_TASK_STATE before LEASE_EXPIRED once the result is uncertain', async () => {
    const claimed = await claimedWithPicture();
    const running: Running = await purchase.start(claimed);
    await purchase.report(await purchase.fence(running), { outcome: 'UNKNOWN' });
    await expectRefusal(purchase.database, 'INVALID_TASK_STATE', () => read(claimed));
    purchase.clock.advance(3_600_000);
    await expectRefusal(purchase.database, 'INVALID_TASK_STATE', () => read(claimed));
  });

  it('refuses GENERATION_MISMATCH before INVALID_TASK_STATE', async () => {
    const claimed = await claimedWithPicture();
    await expectRefusal(purchase.database, 'GENERATION_MISMATCH', () =>
      read(claimed, { claim_generation: 2 }),
    );
    await purchase.report(await purchase.fence(await purchase.start(claimed)), { outcome: 'UNKNOWN' });
    await expectRefusal(purchase.database, 'GENERATION_MISMATCH', () =>
      read(claimed, { claim_generation: 2 }),
    );
  });

  it('refuses CLAIM_NOT_CURRENT before GENERATION_MISMATCH', async () => {
    const claimed = await claimedWithPicture();
    await purchase.takenOver(claimed, await purchase.addPhone());
    await expectRefusal(purchase.database, 'CLAIM_NOT_CURRENT', () => read(claimed, { claim_generation: 2 }));
  });

  it('refuses CLAIM_TOKEN_MISMATCH before CLAIM_NOT_CURRENT, and TASK_NOT_FOUND before both', async () => {
    const claimed = await claimedWithPicture();
    const other = await purchase.addPhone();
    const taken = await purchase.takenOver(claimed, other);
    const { token_hash } = taken;
    await expectRefusal(purchase.database, 'CLAIM_TOKEN_MISMATCH', () => read(claimed, { token_hash }));
    await expectRefusal(purchase.database, 'TASK_NOT_FOUND', () =>
      read(claimed, { token_hash, task_id: uuidv7() }),
    );
    const third = await purchase.addPhone();
    await expectRefusal(purchase.database, 'TASK_NOT_FOUND', () => read(taken, { phone: third }));
  });
});
