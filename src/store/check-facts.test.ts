import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import BetterSqlite from 'better-sqlite3';
import { v7 as uuidv7 } from 'uuid';
import { allFacts } from '../testing/all-facts';
import { type EveryFact, makeEveryFact } from '../testing/every-fact';
import { openTestDatabase } from '../testing/open-test-database';
import { openPurchase, type Purchase } from '../testing/purchase';
import { type CheckReport, checkDatabase, checkFacts, describeFinding, describeReport } from './check-facts';
import { type Database, openDatabase, type Work } from './database';
import { FACT_CHECKS } from './fact-checks';

let purchase: Purchase;
let database: Database;
let facts: EveryFact;

beforeAll(async () => {
  purchase = await openPurchase();
  database = purchase.database;
  facts = await makeEveryFact(purchase);
});
afterAll(() => purchase.close());

class Undo extends Error {}

/** What the checks say about facts that somebody bent by hand, past everything that the database itself refuses. */
async function reportAfter(sql: string | string[]): Promise<CheckReport> {
  let report: CheckReport | undefined;
  const bent = database.write(async (work) => {
    const protectAgain = await unprotect(work);
    for (const statement of [sql].flat()) await work.trx.raw(statement);
    await protectAgain();
    report = await checkFacts({ knex: work.trx, connection: work.connection });
    throw new Undo();
  });
  await expect(bent).rejects.toThrow(Undo);
  if (database.engine === 'sqlite') {
    await database.write((work) => work.trx.raw('pragma ignore_check_constraints = off'));
  }
  return report!;
}

/** Takes away, until the rollback, what would refuse the change; afterwards the catalogue tells of every reference again. */
async function unprotect({ trx }: Work): Promise<() => Promise<unknown>> {
  if (database.engine === 'sqlite') {
    await trx.raw('pragma defer_foreign_keys = on');
    await trx.raw('pragma ignore_check_constraints = on');
    const indexes = await trx('sqlite_master')
      .where({ type: 'index' })
      .whereLike('sql', 'create unique%')
      .pluck('name');
    for (const index of indexes) await trx.raw(`drop index ${index}`);
    return async () => {};
  }
  const ours = `connamespace = 'public'::regnamespace and conrelid::regclass::text not like 'knex%'`;
  const { rows } = await trx.raw(
    `select conrelid::regclass as its_table, conname, contype, pg_get_constraintdef(oid) as definition
     from pg_constraint where ${ours} and contype in ('f', 'c', 'u') order by contype <> 'f'`,
  );
  const indexes = await trx.raw(
    `select indexname from pg_indexes where schemaname = 'public' and indexdef like 'CREATE UNIQUE%WHERE%'`,
  );
  await trx.raw(
    [
      ...rows.map(
        (row: Record<string, string>) => `alter table ${row.its_table} drop constraint ${row.conname}`,
      ),
      ...indexes.rows.map((row: Record<string, string>) => `drop index ${row.indexname}`),
    ].join('; '),
  );
  return () =>
    trx.raw(
      rows
        .filter((row: Record<string, string>) => row.contype === 'f')
        .map(
          (row: Record<string, string>) =>
            `alter table ${row.its_table} add constraint ${row.conname} ${row.definition} not valid`,
        )
        .join('; '),
    );
}

const NOBODY = '01900000-0000-7000-8000-000000000000';
const DIGEST = 'f'.repeat(64);
const EARLY = '2020-01-01T00:00:00.000Z';
const LATE = '2099-01-01T00:00:00.000Z';

/** A row of the table once more, with another id and whatever else is given. */
async function copyOf(name: string, where: object, changes: Record<string, unknown>): Promise<string> {
  const [row] = await purchase.rows(name, where);
  const copy: Record<string, unknown> = { ...row, id: uuidv7(), ...changes };
  return database.read.knex(name).insert(copy).toString();
}

/** SQLite cannot drop what a table itself refuses, but can make it anew without that. */
function rebuilt(...names: string[]): string[] {
  if (database.engine === 'postgres') return [];
  return names.flatMap((name) => [
    `create table once_more as select * from ${name}`,
    `drop table ${name}`,
    `alter table once_more rename to ${name}`,
  ]);
}

type Break = (facts: EveryFact) => string | string[] | Promise<string | string[]>;

const moveOf = (task: { task_id: string }, type: string) =>
  `task_id = '${task.task_id}' and type = 'task.${type}'`;

/** By check: a change that breaks it, and which other checks cannot help seeing the same change. */
const BREAKS: Record<string, { by: Break; also?: string[] }[]> = {
  'references-exist': [
    {
      by: ({ running }) =>
        `update attempts set cancel_requested_by = '${NOBODY}' where id = '${running.attempt_id}'`,
    },
    { by: ({ draft }) => `update tasks set duplicated_from = '${NOBODY}' where id = '${draft}'` },
  ],
  'pictures-are-known': [{ by: () => `update evidence set image_sha256 = '${DIGEST}'` }],
  'records-name-what-exists': [
    {
      by: ({ draft }) =>
        `update idempotency_records set resource_id = '${NOBODY}' where resource_id = '${draft}'`,
    },
    { by: () => `update idempotency_records set device_id = 'phone-gone' where outcome = 'NO_TASK'` },
  ],
  'parts-belong-together': [
    { by: ({ running }) => `update evidence set task_id = '${running.task_id}'` },
    {
      by: ({ running, uncertain }) =>
        `update task_events set attempt_id = '${running.attempt_id}' where ${moveOf(uncertain, 'submission_uncertain')}`,
    },
  ],
  'one-open-claim-per-task': [
    {
      by: ({ takenOver }) =>
        `update claims set closed_at = null, closed_status = null, closed_version = null
         where task_id = '${takenOver.task_id}'`,
      also: ['attempts-stand-as-their-task', 'the-newest-claim-is-the-open-one'],
    },
  ],
  'one-live-attempt-per-device': [
    {
      by: ({ running, claimed }) =>
        ['claims', 'attempts'].map(
          (name) =>
            `update ${name} set device_id = '${running.phone.device_id}', user_id = '${running.phone.user_id}'
             where task_id = '${claimed.task_id}'`,
        ),
    },
  ],
  'one-authorization-in-force-per-task': [
    {
      by: ({ pending }) => copyOf('authorizations', { task_id: pending }, { task_version: 3 }),
      also: ['authorizations-have-their-press'],
    },
  ],
  'one-submission-per-task': [
    {
      async by({ uncertain }) {
        const again = await copyOf('order_submissions', { task_id: uncertain.task_id }, {});
        return [...rebuilt('submission_reports', 'order_submissions'), again];
      },
    },
  ],
  'one-open-question-per-attempt': [
    { by: ({ waiting }) => copyOf('confirmations', { task_id: waiting.task_id }, { ordinal: 2 }) },
  ],
  'version-counts-moves': [
    { by: ({ running }) => `update tasks set version = 9 where id = '${running.task_id}'` },
  ],
  'moves-are-numbered': [
    { by: ({ running }) => `update task_events set version = 9 where ${moveOf(running, 'started')}` },
  ],
  'moves-are-legal': [
    {
      by: ({ pending }) =>
        `update task_events set actor_type = 'SYSTEM', actor_user_id = null
         where task_id = '${pending}' and type = 'task.purchase_started'`,
    },
    {
      by: ({ ordered }) =>
        `update task_events set type = 'task.order_confirmed' where ${moveOf(ordered, 'order_created')}`,
    },
  ],
  'moves-form-a-chain': [
    {
      by: ({ confirmed }) =>
        `update task_events set from_status = 'WAITING_CONFIRMATION' where ${moveOf(confirmed, 'submission_fenced')}`,
      also: ['moves-are-legal'],
    },
  ],
  'last-move-reached-the-status': [
    {
      by: ({ draft }) => `update tasks set status = 'CANCELED', ended_at = updated_at where id = '${draft}'`,
    },
  ],
  'events-are-known': [
    { by: () => `update task_events set type = 'task.vanished' where type = 'task.stop_reported'` },
  ],
  'notes-change-nothing': [
    { by: () => `update task_events set version = 1 where type = 'submission.reported'` },
    { by: () => `update task_events set to_status = 'CANCELED' where type = 'submission.reported'` },
  ],
  'events-never-go-back-in-time': [
    { by: () => `update task_events set occurred_at = '${EARLY}' where type = 'submission.reported'` },
  ],
  'events-name-their-actor': [
    { by: () => `update task_events set actor_device_id = null where type = 'submission.reported'` },
    {
      by: () =>
        `update audit_events set actor_user_id = null where seq = (select min(seq) from audit_events)`,
    },
  ],
  'task-times-are-its-moves': [
    { by: ({ draft }) => `update tasks set updated_at = '${LATE}' where id = '${draft}'` },
    { by: ({ draft }) => `update tasks set created_at = '${EARLY}' where id = '${draft}'` },
    { by: ({ ordered }) => `update tasks set ended_at = '${LATE}' where id = '${ordered.task_id}'` },
  ],
  'terminal-tasks-have-ended': [
    { by: ({ ordered }) => `update tasks set ended_at = null where id = '${ordered.task_id}'` },
    { by: ({ draft }) => `update tasks set ended_at = updated_at where id = '${draft}'` },
  ],
  'held-tasks-have-their-claim': [
    {
      by: ({ running }) =>
        `update claims set closed_at = claimed_at, closed_status = 'CLAIMED', closed_version = 3 where id = '${running.claim_id}'`,
      also: ['attempts-stand-as-their-task'],
    },
  ],
  'attempts-stand-as-their-task': [
    { by: ({ running }) => `update attempts set status = 'FENCED' where id = '${running.attempt_id}'` },
    { by: ({ uncertain }) => `update attempts set ended_at = null where id = '${uncertain.attempt_id}'` },
    { by: ({ ordered }) => `update attempts set status = 'FENCED' where id = '${ordered.attempt_id}'` },
    { by: ({ canceled }) => `update attempts set status = 'SUCCEEDED' where id = '${canceled.attempt_id}'` },
  ],
  'authorizations-stand-as-their-task': [
    {
      by: ({ submitting }) =>
        `update authorizations set status = 'ACTIVE' where id = '${submitting.authorization_id}'`,
    },
    {
      by: ({ pending }) =>
        `update authorizations set status = 'EXPIRED', closed_at = expires_at where task_id = '${pending}'`,
    },
    {
      by: ({ failedAttempt }) =>
        `update authorizations set status = 'FENCED' where id = '${failedAttempt.authorization_id}'`,
    },
  ],
  'submissions-stand-as-their-task': [
    {
      by: ({ submitting }) =>
        `update order_submissions set status = 'RECONCILIATION_REQUIRED' where task_id = '${submitting.task_id}'`,
    },
    {
      by: ({ noOrder }) =>
        `update order_submissions set resolution = 'ORDER_CREATED', order_no = 'P' where task_id = '${noOrder.task_id}'`,
    },
    {
      by: ({ submitting }) => `delete from order_submissions where task_id = '${submitting.task_id}'`,
      also: ['attempts-stand-as-their-task', 'submissions-have-their-fence'],
    },
  ],
  'questions-stand-as-their-task': [
    {
      by: ({ waiting }) =>
        `update confirmations set status = 'WITHDRAWN', decided_at = requested_at where task_id = '${waiting.task_id}'`,
    },
    {
      by: ({ confirmed }) =>
        `update confirmations set status = 'REQUESTED' where task_id = '${confirmed.task_id}'`,
      also: ['submissions-repeat-their-confirmation'],
    },
  ],
  'tasks-copy-the-authorization-expiry': [
    { by: ({ pending }) => `update tasks set authorization_expires_at = '${LATE}' where id = '${pending}'` },
    {
      by: ({ running }) =>
        `update tasks set authorization_expires_at = '${LATE}' where id = '${running.task_id}'`,
    },
  ],
  'tasks-copy-the-lease': [
    { by: ({ claimed }) => `update tasks set lease_expires_at = '${LATE}' where id = '${claimed.task_id}'` },
    { by: ({ pending }) => `update tasks set lease_expires_at = '${LATE}' where id = '${pending}'` },
  ],
  'tasks-count-their-claims': [
    { by: ({ running }) => `update tasks set claim_generation = 2 where id = '${running.task_id}'` },
  ],
  'claims-are-numbered': [
    {
      by: ({ running }) =>
        ['claims', 'attempts'].map(
          (name) => `update ${name} set generation = 2 where task_id = '${running.task_id}'`,
        ),
    },
  ],
  'the-newest-claim-is-the-open-one': [
    {
      by: ({ takenOver }) =>
        ['claims', 'attempts'].flatMap((name) =>
          ['-generation', 'generation + 3'].map(
            (number) => `update ${name} set generation = ${number} where task_id = '${takenOver.task_id}'`,
          ),
        ),
    },
  ],
  'claims-have-one-attempt': [
    {
      by: ({ canceled }) => [
        `update task_events set attempt_id = null where task_id = '${canceled.task_id}'`,
        `delete from attempts where id = '${canceled.attempt_id}'`,
      ],
    },
  ],
  'attempts-repeat-their-claim': [
    {
      by: ({ canceled, running }) =>
        `update attempts set user_id = '${running.phone.user_id}' where id = '${canceled.attempt_id}'`,
    },
    { by: ({ canceled }) => `update attempts set generation = 7 where id = '${canceled.attempt_id}'` },
  ],
  'closed-claims-repeat-a-move': [
    { by: ({ canceled }) => `update claims set closed_version = 9 where id = '${canceled.claim_id}'` },
    { by: ({ canceled }) => `update claims set closed_status = null where id = '${canceled.claim_id}'` },
  ],
  'claims-have-their-move': [
    { by: ({ running }) => `update task_events set attempt_id = null where ${moveOf(running, 'claimed')}` },
  ],
  'executions-have-their-move': [
    { by: ({ running }) => `update task_events set attempt_id = null where ${moveOf(running, 'started')}` },
    {
      by: ({ canceled }) =>
        `update attempts set execution_id = '${NOBODY}' where id = '${canceled.attempt_id}'`,
    },
  ],
  'unstarted-leases-end-with-the-permission': [
    {
      by: ({ claimed }) => [
        `update claims set lease_expires_at = '${LATE}' where id = '${claimed.claim_id}'`,
        `update tasks set lease_expires_at = '${LATE}' where id = '${claimed.task_id}'`,
      ],
    },
  ],
  'live-attempts-keep-their-buyer': [
    {
      by: ({ running }) => [
        `update devices set user_id = '${purchase.admin.user_id}' where device_id = '${running.phone.device_id}'`,
        `update access_tokens set user_id = '${purchase.admin.user_id}' where device_id = '${running.phone.device_id}'`,
      ],
    },
  ],
  'authorizations-have-their-press': [
    { by: ({ pending }) => `update authorizations set task_version = 5 where task_id = '${pending}'` },
  ],
  'authorizations-end-when-they-are-over': [
    { by: ({ pending }) => `update authorizations set closed_at = created_at where task_id = '${pending}'` },
    {
      by: ({ canceled }) =>
        `update authorizations set closed_at = null where id = '${canceled.authorization_id}'`,
    },
  ],
  'frozen-wishes-are-the-wish': [
    { by: ({ running }) => `update tasks set max_total_cents = 9001 where id = '${running.task_id}'` },
    { by: ({ running }) => `update tasks set title = 'another' where id = '${running.task_id}'` },
    { by: ({ running }) => `update tasks set keywords = '' where id = '${running.task_id}'` },
    { by: ({ pending }) => `update tasks set reference_image_sha256 = null where id = '${pending}'` },
    {
      by: ({ running }) =>
        `update authorizations set wish = 'buy it' where id = '${running.authorization_id}'`,
    },
  ],
  'submissions-have-their-fence': [
    {
      by: ({ ordered }) =>
        `update order_submissions set fenced_at = '${EARLY}' where task_id = '${ordered.task_id}'`,
    },
  ],
  'submissions-are-under-their-permission': [
    {
      by: ({ ordered, noOrder }) => [
        ...rebuilt('submission_reports', 'order_submissions'),
        `update order_submissions set authorization_id = '${noOrder.authorization_id}' where task_id = '${ordered.task_id}'`,
      ],
    },
  ],
  'submissions-keep-the-limits': [
    {
      by: ({ ordered }) =>
        `update order_submissions set unit_price_cents = 5001 where task_id = '${ordered.task_id}'`,
    },
    {
      by: ({ ordered }) =>
        `update order_submissions set total_cents = 9001 where task_id = '${ordered.task_id}'`,
    },
    { by: ({ ordered }) => `update order_submissions set quantity = 1 where task_id = '${ordered.task_id}'` },
    {
      by: ({ confirmed }) =>
        `update order_submissions set confirmation_id = null where task_id = '${confirmed.task_id}'`,
    },
  ],
  'submissions-repeat-their-confirmation': [
    {
      by: ({ confirmed }) =>
        `update confirmations set total_cents = 1 where task_id = '${confirmed.task_id}'`,
    },
    {
      by: ({ confirmed }) =>
        `update confirmations set status = 'REJECTED' where task_id = '${confirmed.task_id}'`,
    },
  ],
  'submitted-orders-were-reported': [
    {
      by: ({ ordered }) =>
        `update order_submissions set order_no = 'P-2' where task_id = '${ordered.task_id}'`,
    },
  ],
  'questions-are-numbered': [
    { by: ({ waiting }) => `update confirmations set ordinal = 2 where task_id = '${waiting.task_id}'` },
  ],
  'access-ends-with-its-owner': [
    {
      by: () =>
        `update devices set status = 'REVOKED', last_revoked_at = created_at where device_id = 'phone-0002'`,
    },
    {
      by: () => `update users set status = 'DISABLED', last_disabled_at = created_at where username = 'boss'`,
      also: ['an-admin-remains'],
    },
  ],
  'an-admin-remains': [{ by: () => `update users set role = 'BUYER' where role = 'ADMIN'` }],
  'usernames-have-their-key': [{ by: () => `update users set username = 'Chef' where username = 'boss'` }],
  'secrets-are-digests': [
    { by: () => `update access_tokens set token_hash = '${'S'.repeat(43)}' where device_id = 'phone-0002'` },
    {
      by: () => `update idempotency_records set request_hash = '${'F'.repeat(64)}' where outcome = 'NO_TASK'`,
    },
    { by: () => `update users set password_hash = 'correct horse' where username = 'boss'` },
  ],
  'no-column-holds-a-secret': [{ by: () => 'alter table claims add column raw_token text' }],
  'instants-are-well-formed': [
    {
      by: () =>
        `update login_origins set last_success_at = '${database.engine === 'postgres' ? 'infinity' : '2026-02-30T08:00:00.000Z'}'`,
    },
    ...(process.env.TEST_DATABASE_URL
      ? []
      : ['2026-03-02 08:00:00.000', '2026-03-02T08:00:00Z', '1772438400000', '', 'soon'].map((instant) => ({
          by: () => `update login_origins set last_success_at = '${instant}'`,
        }))),
  ],
  'values-have-their-type': process.env.TEST_DATABASE_URL
    ? []
    : [
        { by: () => `update login_buckets set attempts = 1.5` },
        { by: () => `update images set width = 'wide'` },
        { by: () => `update devices set label = cast(x'00ff' as blob) where device_id = 'phone-0002'` },
      ],
};

describe('checkFacts', () => {
  it('finds nothing wrong with what the verbs leave behind, in whatever state', async () => {
    const report = await checkDatabase(database);
    expect(report.findings.map(describeFinding)).toEqual([]);
    expect(report.facts).toBeGreaterThan(200);
    expect(describeReport(report)).toEqual([`${report.facts} facts checked, nothing wrong`]);
  });

  it('meets every status of a task, an attempt, an authorization and a submission in this test', async () => {
    const statuses = async (name: string) =>
      (await database.read.knex(name).distinct('status').orderBy('status')).map(({ status }) => status);
    expect(await statuses('tasks')).toHaveLength(10);
    expect(await statuses('attempts')).toHaveLength(6);
    expect(await statuses('authorizations')).toEqual(['ABANDONED', 'ACTIVE', 'FENCED']);
    expect(await statuses('order_submissions')).toHaveLength(4);
  });

  it('has a change here that breaks each check', () => {
    const broken = Object.keys(BREAKS).filter((name) => BREAKS[name]!.length > 0);
    const engineOnly = process.env.TEST_DATABASE_URL ? ['values-have-their-type'] : [];
    expect([...broken, ...engineOnly].sort()).toEqual(FACT_CHECKS.map(({ name }) => name).sort());
  });

  const cases = Object.entries(BREAKS).flatMap(([name, ways]) =>
    ways.map((way, index) => [name, index + 1, way] as const),
  );
  it.each(cases)(
    '%s: sees change %i, and nothing else that was not changed',
    async (name, _index, { by, also = [] }) => {
      const report = await reportAfter(await by(facts));
      const seen = [...new Set(report.findings.map(({ check }) => check))].sort();
      expect(seen).toEqual([name, ...also].sort());
      expect(report.count).toBe(report.findings.length);
    },
  );

  it('leaves everything as it was', async () => {
    const before = await allFacts(database);
    await checkDatabase(database);
    expect(await allFacts(database)).toBe(before);
  });

  it('says what, where, what it saw and what it expected, in one line', async () => {
    const { ordered } = facts;
    const report = await reportAfter(
      `update order_submissions set total_cents = 9001 where task_id = '${ordered.task_id}'`,
    );
    expect(describeReport(report)).toEqual([
      `submissions-keep-the-limits task_id=${ordered.task_id} submission_id=${ordered.submission_id}: seen 2 at 5000, 9001 in all, unconfirmed, expected 2 at 5000, 9000 in all. Nothing was submitted in another quantity or above a limit, or unconfirmed where that was asked for.`,
      `${report.facts} facts checked, 1 finding`,
    ]);
  });

  it('never shows what may be a secret', async () => {
    const report = await reportAfter([
      `update access_tokens set token_hash = '${'S'.repeat(43)}' where device_id = 'phone-0002'`,
      `update users set password_hash = 'correct horse' where username = 'boss'`,
    ]);
    expect(report.findings.map(({ seen }) => seen)).toEqual([
      'token_hash=43 characters',
      'password_hash=13 characters',
    ]);
  });

  it('lists a bounded number of findings and counts all of them', async () => {
    const many = Array.from(
      { length: 250 },
      (_, index) =>
        `insert into audit_events (id, occurred_at, actor_type, action, target_type, target_id, detail)
         values ('${NOBODY.slice(0, -3)}${String(index).padStart(3, '0')}', '${EARLY}', 'ADMIN', 'a', 'USER', 'u', '{}')`,
    );
    const report = await reportAfter(many);
    expect(report.count).toBe(250);
    expect(report.findings).toHaveLength(200);
    expect(describeReport(report).slice(-2)).toEqual([
      '... and 50 more of the same kinds',
      `${report.facts} facts checked, 250 findings`,
    ]);
  });
});

describe('cmbuyer check', () => {
  function run(args: string[], settings: Record<string, string>) {
    const command = ['--import', 'tsx', path.join(__dirname, '..', 'main.ts'), 'check', ...args];
    const { status, stdout, stderr } = spawnSync(process.execPath, command, {
      encoding: 'utf8',
      env: { ...process.env, CMBUYER_DATABASE_URL: '', ...settings },
    });
    return { status, stdout, stderr };
  }

  /** The same database from outside, while this process has it open. */
  function ourSettings(): Record<string, string> {
    const { filename, connectionString } = database.read.knex.client.config.connection;
    return database.engine === 'postgres'
      ? { CMBUYER_DATABASE_URL: connectionString }
      : { CMBUYER_DATA_DIR: path.dirname(filename) };
  }

  const setTotal = (total_cents: number) =>
    database.write(({ trx }) =>
      trx('order_submissions').where('task_id', facts.ordered.task_id).update({ total_cents }),
    );

  it('ends with 0 beside a running server whose facts agree', () => {
    const { status, stdout, stderr } = run([], ourSettings());
    expect([status, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/^\d+ facts checked, nothing wrong\n$/);
  });

  it('ends with 1 and a line for each finding, or one JSON object', async () => {
    await setTotal(9_001);
    const lines = run([], ourSettings());
    const json = run(['--json'], ourSettings());
    await setTotal(9_000);
    expect(lines).toMatchObject({ status: 1, stderr: '' });
    expect(lines.stdout.split('\n')).toEqual([
      expect.stringMatching(
        /^submissions-keep-the-limits task_id=\S+ submission_id=\S+: seen 2 at 5000, 9001/,
      ),
      expect.stringMatching(/^\d+ facts checked, 1 finding$/),
      '',
    ]);
    expect(json).toMatchObject({ status: 1, stderr: '' });
    expect(JSON.parse(json.stdout)).toMatchObject({
      count: 1,
      findings: [{ check: 'submissions-keep-the-limits', ids: { task_id: facts.ordered.task_id } }],
    });
  });

  it('refuses where there is no database, and makes none', () => {
    const nowhere = path.join(tmpdir(), `cmbuyer-test-${uuidv7()}`);
    expect(run([], { CMBUYER_DATA_DIR: nowhere })).toEqual({
      status: 1,
      stdout: '',
      stderr: `cmbuyer: CMBUYER_DATA_DIR: there is no database in ${nowhere} to check\n`,
    });
    expect(existsSync(nowhere)).toBe(false);
  });
});

describe('checkDatabase', () => {
  it('refuses a database of an older version, and one without tables', async () => {
    const opened = await openTestDatabase();
    await opened.database.migrateDown();
    await expect(checkDatabase(opened.database)).rejects.toThrow(
      /^the database was made by an older version \(0002-\S+ is missing\); run "cmbuyer migrate up" first$/,
    );
    await opened.close();

    const dataDir = mkdtempSync(path.join(tmpdir(), 'cmbuyer-test-'));
    const file = path.join(dataDir, 'cmbuyer.sqlite');
    new BetterSqlite(file).exec('create table t (x)').close();
    const empty = openDatabase({ dataDir });
    await expect(checkDatabase(empty)).rejects.toThrow(/^the database is empty; "cmbuyer migrate up"/);
    await empty.close();
    rmSync(dataDir, { recursive: true });
  });
});
