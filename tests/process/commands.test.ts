import { canSignIn, cleanUp, freshDataDir, run, serve } from './program';

// Starts many processes; on a busy machine that takes a while.
jest.setTimeout(180_000);
afterAll(cleanUp);

const lines = (text: string) => text.trimEnd().split('\n');

it('migrate shows, applies and undoes', async () => {
  const env = { CMBUYER_DATA_DIR: freshDataDir() };
  const migrate = async (what: string) => {
    const { code, stdout, stderr } = await run(['migrate', what], env);
    expect([code, stderr]).toEqual([0, '']);
    return lines(stdout);
  };
  const before = await migrate('status');
  expect(before[0]).toBe('nothing applied');
  const names = before.slice(1).map((line) => line.replace('missing: ', ''));
  expect(names[0]).toMatch(/^0001-/);

  expect(await migrate('up')).toEqual(names.map((name) => `applied: ${name}`));
  expect(await migrate('up')).toEqual(['nothing to apply']);
  expect(await migrate('status')).toEqual([...names.map((name) => `applied: ${name}`), 'nothing missing']);
  for (const name of [...names].reverse()) expect(await migrate('down')).toEqual([`undone: ${name}`]);
  expect(await migrate('down')).toEqual(['nothing to undo']);
  expect(await migrate('up')).toEqual(names.map((name) => `applied: ${name}`));
});

it('admin create makes an admin who can sign in, and shows a password only when it made one', async () => {
  const env = { CMBUYER_DATA_DIR: freshDataDir() };
  const made = await run(['admin', 'create', 'first.admin'], env);
  expect([made.code, made.stderr]).toEqual([0, '']);
  expect(lines(made.stdout)[0]).toBe('admin "first.admin" created');
  const password = /shown only now: (\S+)$/.exec(made.stdout.trim())?.[1] as string;

  const given = await run(['admin', 'create', 'second.admin'], {
    ...env,
    CMBUYER_ADMIN_PASSWORD: 'a password of my own',
  });
  expect([given.code, lines(given.stdout)]).toEqual([0, ['admin "second.admin" created']]);

  for (const [name, complaint] of [
    ['First.Admin', 'cmbuyer: that username is taken'],
    ['a b', expect.stringMatching(/^cmbuyer: .*3 to 64 letters/)],
  ] as const) {
    const refused = await run(['admin', 'create', name], env);
    expect([refused.code, lines(refused.stderr), refused.stdout]).toEqual([1, [complaint], '']);
  }

  const { program, address } = await serve(env);
  expect(await canSignIn(address, 'first.admin', password)).toBe(true);
  expect(await canSignIn(address, 'second.admin', 'a password of my own')).toBe(true);
  program.kill('SIGTERM');
  expect((await program.ended).stderr).toBe('');
});

it('an unknown command is refused', async () => {
  const { code, stdout, stderr } = await run(['buy'], { CMBUYER_DATA_DIR: freshDataDir() });
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toContain("unknown command 'buy'");
});
