import { createHash } from 'node:crypto';
import { isIPv6 } from 'node:net';
import { addSeconds, type Instant, millisecondsUntil } from '../clock';
import { Refusal } from '../contract/errors';
import { appendAudit } from '../store/audit';
import { type Database, queryOn, type Work } from '../store/database';
import { usernameKey } from '../store/users';

/**
 * The limit on guessing passwords. An attempt is reserved and committed before its password is looked at, so that no
 * number of parallel guesses, connections or processes outruns it; a right password gives the reservation back.
 */

/** A window starts with its first attempt. Long enough to make guessing hopeless, short enough to wait for. */
export const LOGIN_WINDOW_SECONDS = 15 * 60;

export const LOGIN_LIMITS = {
  /** One person at one place: nobody mistypes ten times in a row, and 960 guesses a day find no 12-character password. */
  ACCOUNT_AT_ADDRESS: 10,
  /** One place: a shop floor of phones behind one address, five of them with a wrong password, still leaves room. */
  ADDRESS: 50,
  /** One person from everywhere: bounds a botnet; places where the person signed in lately are exempt. */
  ACCOUNT: 100,
} as const;

/** How long a place counts as the person's own after a sign-in. */
const KNOWN_ORIGIN_SECONDS = 30 * 86_400;

/** Outdated buckets removed by one login: more than the three that it can add, few enough not to be felt. */
const PRUNE_BATCH = 16;

type LimitName = keyof typeof LOGIN_LIMITS;

interface Reserved {
  limit: LimitName;
  bucket: string;
  window_started_at: Instant;
  /** Whether this attempt took the last place. */
  filled: boolean;
}

export interface Reservation {
  username_key: string;
  address: string;
  reserved: Reserved[];
}

interface BucketRow {
  bucket: string;
  window_started_at: Instant;
  attempts: number;
}

/**
 * Takes a place in every bucket that counts this attempt; the caller commits it before looking at the password.
 * @throws Refusal RATE_LIMITED until the fullest window ends; then nothing is counted.
 */
export async function reserveAttempt(work: Work, username: string, address: string): Promise<Reservation> {
  const username_key = usernameKey(username);
  const origin = originOf(address);
  const counted = await countingBuckets(work, username_key, origin);
  const rows = await lockBuckets(work, [...counted.keys()]);

  const reserved: Reserved[] = [];
  let openAt: Instant | undefined;
  for (const row of rows) {
    const limit = counted.get(row.bucket)!;
    const windowEnd = addSeconds(row.window_started_at, LOGIN_WINDOW_SECONDS);
    const current = windowEnd <= work.now ? { ...row, window_started_at: work.now, attempts: 0 } : row;
    if (current.attempts >= LOGIN_LIMITS[limit]) {
      if (openAt === undefined || windowEnd > openAt) openAt = windowEnd;
      continue;
    }
    const attempts = current.attempts + 1;
    const { bucket, window_started_at } = current;
    await queryOn(work)('login_buckets').where({ bucket }).update({ window_started_at, attempts });
    reserved.push({ limit, bucket, window_started_at, filled: attempts === LOGIN_LIMITS[limit] });
  }
  if (openAt !== undefined) {
    const seconds = Math.ceil(millisecondsUntil(openAt, work.now) / 1000);
    throw new Refusal('RATE_LIMITED', {
      retryAfterSeconds: Math.min(Math.max(seconds, 1), LOGIN_WINDOW_SECONDS),
    });
  }

  await pruneBuckets(work, [...counted.keys()]);
  return { username_key, address: origin, reserved };
}

/** After a right password: gives the places back, forgets this person's misses here, and knows the place from now on. */
export async function giveBack(work: Work, reservation: Reservation): Promise<void> {
  const { username_key, address, reserved } = reservation;
  for (const { limit, bucket, window_started_at } of reserved) {
    if (limit === 'ACCOUNT_AT_ADDRESS') {
      await queryOn(work)('login_buckets').where({ bucket }).delete();
    } else {
      await queryOn(work)('login_buckets')
        .where({ bucket, window_started_at })
        .where('attempts', '>', 0)
        .decrement('attempts', 1);
    }
  }
  await queryOn(work)('login_origins')
    .insert({ username_key, address, last_success_at: work.now })
    .onConflict(['username_key', 'address'])
    .merge(['last_success_at']);
  await queryOn(work)('login_origins')
    .where({ username_key })
    .where('last_success_at', '<=', addSeconds(work.now, -KNOWN_ORIGIN_SECONDS))
    .delete();
}

/** After a wrong password: the place stays taken; whoever filled a bucket leaves one line about it. */
export async function keepCounted(
  database: Database,
  reservation: Reservation,
  userId: string | undefined,
): Promise<void> {
  const limits = reservation.reserved.filter(({ filled }) => filled).map(({ limit }) => limit);
  if (limits.length === 0) return;
  // A name that nobody has may be a password typed into the wrong field: it is not written down.
  const target_id = userId ?? 'unknown';
  await database.write((work) =>
    appendAudit(
      work,
      { type: 'SYSTEM' },
      {
        action: 'login.limited',
        target_type: 'USER',
        target_id,
        detail: { limits, address: reservation.address },
      },
    ),
  );
}

/** An IPv6 network (/64) counts as one place: a single host may use all of its addresses. */
export function originOf(address: string): string {
  const bare = address.split('%', 1)[0]!.toLowerCase();
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(bare)?.[1];
  if (mapped !== undefined) return mapped;
  if (!isIPv6(bare)) return bare.slice(0, 64);
  const [head = '', tail] = bare.split('::', 2);
  const before = head === '' ? [] : head.split(':');
  const after = tail ? tail.split(':') : [];
  const gap = tail === undefined ? [] : Array(Math.max(0, 8 - before.length - after.length)).fill('0');
  const network = [...before, ...gap, ...after]
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16));
  return `${network.join(':')}::/64`;
}

/** Which buckets count an attempt, by key. Keys are digests: bounded, and no name or mistyped password in clear. */
async function countingBuckets(
  work: Work,
  username_key: string,
  address: string,
): Promise<Map<string, LimitName>> {
  const counted = new Map<string, LimitName>([
    [bucketKey('ACCOUNT_AT_ADDRESS', username_key, address), 'ACCOUNT_AT_ADDRESS'],
    [bucketKey('ADDRESS', address), 'ADDRESS'],
  ]);
  const known = await queryOn(work)('login_origins')
    .where({ username_key, address })
    .where('last_success_at', '>', addSeconds(work.now, -KNOWN_ORIGIN_SECONDS))
    .first('address');
  if (!known) counted.set(bucketKey('ACCOUNT', username_key), 'ACCOUNT');
  return counted;
}

function bucketKey(limit: LimitName, ...parts: string[]): string {
  return createHash('sha256')
    .update([limit, ...parts].join('\n'))
    .digest('hex');
}

/** Creates what is missing and locks all, always in the same order. */
async function lockBuckets(work: Work, buckets: string[]): Promise<BucketRow[]> {
  const sorted = [...buckets].sort();
  const fresh = sorted.map((bucket) => ({ bucket, window_started_at: work.now, attempts: 0 }));
  await queryOn(work)('login_buckets').insert(fresh).onConflict('bucket').ignore();
  return queryOn(work)('login_buckets').select('*').whereIn('bucket', sorted).orderBy('bucket').forUpdate();
}

async function pruneBuckets(work: Work, but: string[]): Promise<void> {
  const outdated = addSeconds(work.now, -LOGIN_WINDOW_SECONDS);
  const rows: BucketRow[] = await queryOn(work)('login_buckets')
    .select('bucket')
    .where('window_started_at', '<=', outdated)
    .whereNotIn('bucket', but)
    .orderBy('window_started_at')
    .limit(PRUNE_BATCH);
  if (rows.length === 0) return;
  const buckets = rows.map(({ bucket }) => bucket);
  await queryOn(work)('login_buckets')
    .whereIn('bucket', buckets)
    .where('window_started_at', '<=', outdated)
    .delete();
}
