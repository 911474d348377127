import { addSeconds } from '../clock';
import { endSessions } from '../store/credentials';
import { updateUserRow } from '../store/users';
import { expectRefusal } from '../testing/expect-refusal';
import { openTestDatabase, type TestDatabase } from '../testing/open-test-database';
import { makeDevice, makeUser, signInAdmin, signInDevice } from '../testing/people-and-devices';
import { authenticateSession, csrfTokenOf, isCsrfToken, readSessionToken } from './sessions';

let test: TestDatabase;
beforeEach(async () => {
  test = await openTestDatabase();
});
afterEach(() => test.close());

describe('authenticateSession', () => {
  it('answers the admin of the session', async () => {
    const { database, clock } = test;
    const user = await makeUser(database, 'Ada.Admin', 'ADMIN');
    const { raw, actor } = await signInAdmin(database, user, 60);
    expect(await authenticateSession(database.read, raw, clock.now())).toEqual({
      actor,
      user: { id: user.id, username: 'Ada.Admin', display_name: null, role: 'ADMIN', status: 'ACTIVE' },
      expires_at: addSeconds(clock.now(), 60),
    });
  });

  it.each([
    [59_999, undefined],
    [60_000, 'TOKEN_EXPIRED'],
    [60_001, 'TOKEN_EXPIRED'],
  ] as const)('after %d of 60,000 ms: %s', async (elapsed, code) => {
    const { database, clock } = test;
    const { raw } = await signInAdmin(database, await makeUser(database, 'ada', 'ADMIN'), 60);
    clock.advance(elapsed);
    const call = () => authenticateSession(database.read, raw, clock.now());
    if (code) await expectRefusal(database, code, call);
    else await expect(call()).resolves.toMatchObject({ actor: { type: 'ADMIN' } });
  });

  it('refuses UNAUTHENTICATED for none, garbage and a device token', async () => {
    const { database, clock } = test;
    const admin = await makeUser(database, 'ada', 'ADMIN');
    const buyer = await makeUser(database, 'bob', 'BUYER');
    const session = await signInAdmin(database, admin);
    await makeDevice(database, session.actor, buyer, 'phone-0001');
    const token = await signInDevice(database, buyer, 'phone-0001');
    const garbage = [
      undefined,
      '',
      'x',
      token.raw,
      `${session.raw} `,
      `${session.raw}x`,
      'A'.repeat(43),
      '{}',
      "' or 1=1",
    ];
    for (const raw of garbage) {
      await expectRefusal(database, 'UNAUTHENTICATED', () =>
        authenticateSession(database.read, raw, clock.now()),
      );
    }
  });

  it('refuses TOKEN_REVOKED when it has ended, its user is disabled or no admin any more', async () => {
    const { database, clock } = test;
    const user = await makeUser(database, 'ada', 'ADMIN');
    const { raw, actor } = await signInAdmin(database, user);
    const call = () => authenticateSession(database.read, raw, clock.now());

    await database.write((work) =>
      updateUserRow(work, user, { status: 'DISABLED', last_disabled_at: work.now }),
    );
    await expectRefusal(database, 'TOKEN_REVOKED', call);
    await database.write((work) => updateUserRow(work, user, { status: 'ACTIVE' }));
    await expect(call()).resolves.toBeDefined();

    await database.write((work) => endSessions(work, { id: actor.session_id }, 'LOGGED_OUT'));
    await expectRefusal(database, 'TOKEN_REVOKED', call);
    clock.advance(10 * 86_400_000);
    await expectRefusal(database, 'TOKEN_REVOKED', call);
  });

  it('refuses TOKEN_REVOKED for a session of a buyer', async () => {
    const { database, clock } = test;
    const { raw } = await signInAdmin(database, await makeUser(database, 'bob', 'BUYER'));
    await expectRefusal(database, 'TOKEN_REVOKED', () =>
      authenticateSession(database.read, raw, clock.now()),
    );
  });
});

describe('isCsrfToken', () => {
  it('accepts only the token of this very session', () => {
    const [one, other] = ['a'.repeat(43), 'b'.repeat(43)];
    expect(csrfTokenOf(one)).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(csrfTokenOf(one)).not.toBe(one);
    expect(isCsrfToken(one, csrfTokenOf(one))).toBe(true);
    for (const given of [
      csrfTokenOf(other),
      one,
      '',
      undefined,
      null,
      7,
      [csrfTokenOf(one)],
      'é'.repeat(43),
    ]) {
      expect(isCsrfToken(one, given)).toBe(false);
    }
  });
});

describe('readSessionToken', () => {
  it.each([
    [undefined, undefined],
    ['', undefined],
    ['other=1', undefined],
    ['cmbuyer_session=abc', 'abc'],
    ['a=b; cmbuyer_session=abc; c=d', 'abc'],
    ['xcmbuyer_session=abc', undefined],
    ['cmbuyer_session=abc; cmbuyer_session=def', undefined],
  ])('reads %p as %p', (header, token) => {
    expect(readSessionToken(header)).toBe(token);
  });
});
