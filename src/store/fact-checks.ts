import { MOVES, NOTES, TERMINAL_STATUSES } from '../contract/moves';
import type { Shape, Table } from './catalogue';
import { WISH_COLUMNS } from './facts';

export interface FactCheck {
  name: string;
  /** What always holds, in one sentence. */
  says: string;
  /** Queries of what breaks it: `seen`, `expected` and, as ids, any other columns. */
  broken(shape: Shape): string | string[];
}

const list = (values: readonly string[]) => values.map((value) => `'${value}'`).join(', ');
const table = (rows: readonly (readonly (string | null)[])[]) =>
  rows
    .map((row) => `(${row.map((value) => (value === null ? 'null' : `'${value}'`)).join(', ')})`)
    .join(', ');

const isMove = `type in (${list(Object.keys(MOVES))})`;
const isTerminal = `status in (${list(TERMINAL_STATUSES)})`;
/** A task in one of these is held by exactly one claim. */
const isHeld = `status in ('CLAIMED', 'RUNNING', 'WAITING_CONFIRMATION', 'SUBMITTING', 'NEEDS_MANUAL')`;
const isQueued = `status in ('PENDING', 'CLAIMED')`;
const isInForce = `status in ('ACTIVE', 'FENCED')`;

/** Task status, the claim open or closed, a submission of this attempt or none -> the attempt's status, ended or not. */
const ATTEMPTS = [
  ['CLAIMED', 'open', 'none', 'CLAIMED', 'unended'],
  ['RUNNING', 'open', 'none', 'ORDERING', 'unended'],
  ['WAITING_CONFIRMATION', 'open', 'none', 'ORDERING', 'unended'],
  ['SUBMITTING', 'open', 'submission', 'FENCED', 'unended'],
  ['NEEDS_MANUAL', 'open', 'none', 'FAILED', 'ended'],
  ['NEEDS_MANUAL', 'open', 'submission', 'FENCED', 'ended'],
  ['ORDERED', 'closed', 'submission', 'SUCCEEDED', 'ended'],
  ['FAILED', 'closed', 'submission', 'FENCED', 'ended'],
];

const SUBMISSIONS = [
  ['DRAFT', 'none'],
  ['PENDING', 'none'],
  ['CLAIMED', 'none'],
  ['RUNNING', 'none'],
  ['WAITING_CONFIRMATION', 'none'],
  ['SUBMITTING', 'FENCED'],
  ['NEEDS_MANUAL', 'none'],
  ['NEEDS_MANUAL', 'RECONCILIATION_REQUIRED'],
  ['ORDERED', 'SUBMITTED'],
  ['ORDERED', 'MANUAL_RESOLVED ORDER_CREATED'],
  ['FAILED', 'MANUAL_RESOLVED NO_ORDER'],
  ['CANCELED', 'none'],
];

const LEGAL_MOVES = Object.entries(MOVES).flatMap(([type, { by, from, to }]) =>
  (from.length === 0 ? [null] : from).map((status) => [type, by, status, to]),
);

/** Columns that hold a SHA-256 in hex, where anything else might be the secret or the request itself. */
const DIGESTS: [string, string][] = [
  ['claims', 'token_hash'],
  ['sessions', 'token_hash'],
  ['access_tokens', 'token_hash'],
  ['idempotency_records', 'token_hash'],
  ['idempotency_records', 'request_hash'],
  ['images', 'sha256'],
];

/** Every row of a table whose number in its group is not its place in it. */
const unnumbered = (name: string, group: string, number: string) =>
  `select ${group}, id, ${number} as seen, place as expected
   from (select ${group}, id, ${number}, row_number() over (partition by ${group} order by ${number}, id) as place
         from ${name}) as numbered
   where ${number} <> place`;

const atMostOne = (name: string, group: string, where: string) =>
  `select ${group}, count(*) as seen, 'at most 1' as expected from ${name} where ${where}
   group by ${group} having count(*) > 1`;

const text = (expression: string) => `cast(${expression} as text)`;

/** What a row is found by, as one text, so that rows of different tables fit into one answer. */
const keyOf = ({ primaryKey }: Table, of: string) =>
  primaryKey.map((column) => text(`${of}.${column}`)).join(` || ' ' || `);

/** One round trip for many looks of one form; nothing to look at is no look. */
const together = (looks: string[]) => (looks.length > 0 ? [looks.join(' union all ')] : []);

const missing = (child: Table, { column, parent, parentColumn }: Table['references'][number]) =>
  `select '${child.name}.${column}' as reference, ${keyOf(child, 'c')} as id, ${text(`c.${column}`)} as seen,
     'a row of ${parent}' as expected
   from ${child.name} as c left join ${parent} as p on p.${parentColumn} = c.${column}
   where c.${column} is not null and p.${parentColumn} is null`;

/** One look at a table for several columns at once: `bad` tells of each column what makes it bad. */
function badColumns(
  of: Table,
  columns: string[],
  bad: (column: string) => string,
  shown: (column: string) => string,
  expected: string,
): string[] {
  if (columns.length === 0) return [];
  const seen = columns.map(
    (column) => `case when ${bad(column)} then '${column}=' || ${shown(column)} || ' ' else '' end`,
  );
  return [
    `select '${of.name}' as rows_of, ${keyOf(of, 't')} as id, ${seen.join(' || ')} as seen, '${expected}' as expected
     from ${of.name} as t where ${columns.map(bad).join(' or ')}`,
  ];
}

/** What must hold at any moment, whatever raced with whatever. Each is one look at committed facts. */
export const FACT_CHECKS: readonly FactCheck[] = [
  // ------------------------------------------------------------------------------------- what exists
  {
    name: 'references-exist',
    says: 'Whatever a row refers to exists.',
    broken: ({ tables }) =>
      together(
        tables.flatMap((child) =>
          child.references.filter(({ parent }) => parent !== 'images').map((to) => missing(child, to)),
        ),
      ),
  },
  {
    name: 'pictures-are-known',
    says: 'Every picture that is referred to has its row.',
    broken: ({ tables }) =>
      together(
        tables.flatMap((child) =>
          child.references.filter(({ parent }) => parent === 'images').map((to) => missing(child, to)),
        ),
      ),
  },
  {
    name: 'records-name-what-exists',
    says: 'A replay record names a known device and what its request created.',
    broken({ engine }) {
      // Cast only where the types differ: SQLite would no longer find it by the key.
      const spelled = (column: string) => (engine === 'postgres' ? text(column) : column);
      const created = (operation: string, name: string, key: string) =>
        `select r.user_id, r.operation, r.idempotency_key, r.resource_id as seen, 'a row of ${name}' as expected
         from idempotency_records as r left join ${name} as o on ${spelled(`o.${key}`)} = r.resource_id
         where r.outcome = 'CREATED' and r.operation = '${operation}' and o.${key} is null`;
      return [
        `select r.user_id, r.operation, r.idempotency_key, r.device_id as seen, 'a row of devices' as expected
         from idempotency_records as r left join devices as d on d.device_id = r.device_id
         where r.device_id <> '' and d.device_id is null`,
        created('createTask', 'tasks', 'id'),
        created('duplicateTask', 'tasks', 'id'),
        created('createUser', 'users', 'id'),
        created('authorizeDevice', 'devices', 'device_id'),
      ];
    },
  },
  {
    name: 'parts-belong-together',
    says: 'What belongs to an attempt, a claim or an authorization belongs to the same task.',
    broken() {
      const belongs = (child: string, key: string, column: string, parent: string) =>
        `select '${child}.${column}' as reference, ${text(`c.${key}`)} as id, c.task_id as seen, p.task_id as expected
         from ${child} as c join ${parent} as p on p.id = c.${column} where p.task_id <> c.task_id`;
      return together([
        belongs('claims', 'id', 'authorization_id', 'authorizations'),
        belongs('confirmations', 'id', 'attempt_id', 'attempts'),
        belongs('order_submissions', 'id', 'attempt_id', 'attempts'),
        belongs('submission_reports', 'id', 'attempt_id', 'attempts'),
        belongs('submission_reports', 'id', 'submission_id', 'order_submissions'),
        belongs('task_events', 'seq', 'attempt_id', 'attempts'),
        belongs('evidence', 'id', 'attempt_id', 'attempts'),
        belongs('progress_events', 'id', 'attempt_id', 'attempts'),
        belongs('idempotency_records', 'idempotency_key', 'claim_id', 'claims'),
      ]);
    },
  },

  // --------------------------------------------------------------------------------- never two at once
  {
    name: 'one-open-claim-per-task',
    says: 'At most one claim of a task is open.',
    broken: () => atMostOne('claims', 'task_id', 'closed_at is null'),
  },
  {
    name: 'one-live-attempt-per-device',
    says: 'A device is at work on at most one task.',
    broken: () => atMostOne('attempts', 'device_id', 'ended_at is null'),
  },
  {
    name: 'one-authorization-in-force-per-task',
    says: 'At most one permission of a task is in force.',
    broken: () => atMostOne('authorizations', 'task_id', isInForce),
  },
  {
    name: 'one-submission-per-task',
    says: 'A task is submitted at most once, ever.',
    broken: () => atMostOne('order_submissions', 'task_id', '1 = 1'),
  },
  {
    name: 'one-open-question-per-attempt',
    says: 'An attempt waits for at most one confirmation.',
    broken: () => atMostOne('confirmations', 'attempt_id', `status = 'REQUESTED'`),
  },

  // ---------------------------------------------------------------------------------------- the history
  {
    name: 'version-counts-moves',
    says: "A task's version is the number of its moves.",
    broken: () =>
      `select t.id as task_id, t.version as seen, count(e.seq) as expected
       from tasks as t left join task_events as e on e.task_id = t.id and e.${isMove}
       group by t.id, t.version having count(e.seq) <> t.version`,
  },
  {
    name: 'moves-are-numbered',
    says: 'The moves of a task carry the versions 1, 2, 3 ... in the order in which they were written.',
    broken: () =>
      `select task_id, seq, version as seen, place as expected
       from (select task_id, seq, version, row_number() over (partition by task_id order by seq) as place
             from task_events where ${isMove}) as moves
       where version <> place`,
  },
  {
    name: 'moves-are-legal',
    says: 'Every move stands in the table of legal moves.',
    broken: () =>
      `with legal (type, actor, from_status, to_status) as (values ${table(LEGAL_MOVES)})
       select e.task_id, e.seq, e.type || ' by ' || e.actor_type || ' from ' || coalesce(e.from_status, 'nothing')
         || ' to ' || coalesce(e.to_status, 'nothing') as seen, 'a legal move' as expected
       from task_events as e
       where e.${isMove} and not exists (select 1 from legal as l where l.type = e.type and l.actor = e.actor_type
         and l.to_status = e.to_status and l.from_status is not distinct from e.from_status)`,
  },
  {
    name: 'moves-form-a-chain',
    says: 'Every move leaves the status that the one before it reached.',
    broken: () =>
      `select task_id, seq, coalesce(from_status, 'nothing') as seen, coalesce(reached, 'nothing') as expected
       from (select task_id, seq, from_status, lag(to_status) over (partition by task_id order by seq) as reached
             from task_events where ${isMove}) as moves
       where from_status is distinct from reached`,
  },
  {
    name: 'last-move-reached-the-status',
    says: 'A task stands where its last move brought it.',
    broken: () =>
      `select t.id as task_id, t.status as seen, e.to_status as expected
       from tasks as t join task_events as e on e.seq =
         (select max(l.seq) from task_events as l where l.task_id = t.id and l.${isMove})
       where e.to_status is distinct from t.status`,
  },
  {
    name: 'events-are-known',
    says: 'Every event is a move or a note that this version knows.',
    broken: () =>
      `select task_id, seq, type as seen, 'a known event' as expected from task_events
       where type not in (${list([...Object.keys(MOVES), ...NOTES])})`,
  },
  {
    name: 'notes-change-nothing',
    says: 'An event that is no move repeats status and version as they stood.',
    broken() {
      const standing = (from: string, to: string, version: string) =>
        `coalesce(${from}, 'nothing') || ' to ' || coalesce(${to}, 'nothing') || ' at version ' || ${version}`;
      return `select n.task_id, n.seq, ${standing('n.from_status', 'n.to_status', 'n.version')} as seen,
           coalesce(${standing('m.to_status', 'm.to_status', 'm.version')}, 'a move before it') as expected
         from task_events as n left join task_events as m on m.seq =
           (select max(l.seq) from task_events as l where l.task_id = n.task_id and l.seq < n.seq and l.${isMove})
         where n.type in (${list(NOTES)}) and (n.version is distinct from m.version
           or n.from_status is distinct from m.to_status or n.to_status is distinct from m.to_status)`;
    },
  },
  {
    name: 'events-never-go-back-in-time',
    says: 'No event of a task happened before the one that was written before it.',
    broken: () =>
      `select task_id, seq, occurred_at as seen, before as expected
       from (select task_id, seq, occurred_at, lag(occurred_at) over (partition by task_id order by seq) as before
             from task_events) as events
       where occurred_at < before`,
  },
  {
    name: 'events-name-their-actor',
    says: 'An admin has a user, a device has a user and itself, the system has neither.',
    broken: () =>
      ['task_events', 'audit_events'].map(
        (name) =>
          `select '${name}' as rows_of, seq, actor_type || case when actor_user_id is null then '' else ' with user' end
             || case when actor_device_id is null then '' else ' with device' end as seen,
             case actor_type when 'ADMIN' then 'ADMIN with user' when 'DEVICE' then 'DEVICE with user with device'
             else 'SYSTEM' end as expected
           from ${name}
           where (actor_type in ('ADMIN', 'DEVICE')) <> (actor_user_id is not null)
             or (actor_type = 'DEVICE') <> (actor_device_id is not null)`,
      ),
  },
  {
    name: 'task-times-are-its-moves',
    says: 'A task was created at its first move, updated at its last, and ended then if that was the end.',
    broken() {
      const differs = (column: string, which: 'min' | 'max', where: string) =>
        `select t.id as task_id, '${column}' as field, t.${column} as seen, e.occurred_at as expected
         from tasks as t join task_events as e on e.seq =
           (select ${which}(l.seq) from task_events as l where l.task_id = t.id and l.${isMove})
         where ${where} and t.${column} <> e.occurred_at`;
      return together([
        differs('created_at', 'min', '1 = 1'),
        differs('updated_at', 'max', '1 = 1'),
        differs('ended_at', 'max', `t.${isTerminal}`),
      ]);
    },
  },

  // -------------------------------------------------------------------------- what a status stands for
  {
    name: 'terminal-tasks-have-ended',
    says: 'A task that is over has its end, and no other has one.',
    broken: () =>
      `select id as task_id, status, case when ended_at is null then 'no end' else 'an end' end as seen,
         case when ${isTerminal} then 'an end' else 'no end' end as expected
       from tasks where (${isTerminal}) <> (ended_at is not null)`,
  },
  {
    name: 'held-tasks-have-their-claim',
    says: 'A task that is held has an open claim, and no other has one.',
    broken: () =>
      `select t.id as task_id, t.status, count(c.id) as seen, case when t.${isHeld} then 1 else 0 end as expected
       from tasks as t left join claims as c on c.task_id = t.id and c.closed_at is null
       group by t.id, t.status having (count(c.id) > 0) <> (t.${isHeld})`,
  },
  {
    name: 'attempts-stand-as-their-task',
    says: "An attempt's status, and whether it has ended, follow from its task, its claim and its submission.",
    broken: () =>
      `with legal (task_status, claim, submission, status, ended) as (values ${table(ATTEMPTS)}),
       standing as (select a.id as attempt_id, a.task_id, t.status as task_status, a.status,
           case when c.closed_at is null then 'open' else 'closed' end as claim,
           case when s.id is null then 'none' else 'submission' end as submission,
           case when a.ended_at is null then 'unended' else 'ended' end as ended
         from attempts as a join tasks as t on t.id = a.task_id join claims as c on c.id = a.claim_id
         left join order_submissions as s on s.attempt_id = a.id)
       select attempt_id, task_id, task_status, 'claim ' || claim as claim, submission, status || ', ' || ended as seen,
         coalesce((select min(l.status || ', ' || l.ended) from legal as l where l.task_status = standing.task_status
           and l.claim = standing.claim and l.submission = standing.submission), 'ABANDONED or FAILED, ended') as expected
       from standing
       where not (claim = 'closed' and submission = 'none' and status in ('ABANDONED', 'FAILED') and ended = 'ended')
         and not exists (select 1 from legal as l where l.task_status = standing.task_status and l.claim = standing.claim
           and l.submission = standing.submission and l.status = standing.status and l.ended = standing.ended)`,
  },
  {
    name: 'authorizations-stand-as-their-task',
    says: 'A waiting or unfenced task has an ACTIVE permission, one behind the fence a FENCED one, others none in force.',
    broken: () =>
      `select task_id, status, seen, expected from (
         select t.id as task_id, t.status, coalesce(a.status, 'none') as seen,
           case when t.status in ('DRAFT', 'CANCELED') then 'none'
             when t.status in ('SUBMITTING', 'ORDERED', 'FAILED') then 'FENCED'
             when t.status = 'NEEDS_MANUAL' and s.id is not null then 'FENCED'
             else 'ACTIVE' end as expected
         from tasks as t left join authorizations as a on a.task_id = t.id and a.${isInForce}
         left join order_submissions as s on s.task_id = t.id) as standing
       where seen <> expected`,
  },
  {
    name: 'submissions-stand-as-their-task',
    says: 'Whether a task has a submission, and what became of it, follows from its status.',
    broken: () =>
      `with legal (status, submission) as (values ${table(SUBMISSIONS)})
       select t.id as task_id, t.status, coalesce(s.status || coalesce(' ' || s.resolution, ''), 'none') as seen,
         (select min(l.submission) from legal as l where l.status = t.status) as expected
       from tasks as t left join order_submissions as s on s.task_id = t.id
       where not exists (select 1 from legal as l where l.status = t.status
         and l.submission = coalesce(s.status || coalesce(' ' || s.resolution, ''), 'none'))`,
  },
  {
    name: 'questions-stand-as-their-task',
    says: 'A task waits for a confirmation exactly while one is requested.',
    broken: () =>
      `select t.id as task_id, t.status, count(c.id) as seen,
         case when t.status = 'WAITING_CONFIRMATION' then 1 else 0 end as expected
       from tasks as t left join confirmations as c on c.task_id = t.id and c.status = 'REQUESTED'
       group by t.id, t.status having (count(c.id) > 0) <> (t.status = 'WAITING_CONFIRMATION')`,
  },

  // ----------------------------------------------------------------------------------- copies for an index
  {
    name: 'tasks-copy-the-authorization-expiry',
    says: "While a task waits in the queue it repeats its permission's expiry; afterwards it holds none.",
    broken: () =>
      `select t.id as task_id, t.status, t.authorization_expires_at as seen,
         case when t.${isQueued} then a.expires_at end as expected
       from tasks as t left join authorizations as a on a.task_id = t.id and a.${isInForce}
       where (t.${isQueued} and a.id is not null and t.authorization_expires_at is distinct from a.expires_at)
         or (not t.${isQueued} and t.authorization_expires_at is not null)`,
  },
  {
    name: 'tasks-copy-the-lease',
    says: "While a task is CLAIMED it repeats its claim's lease; otherwise it holds none.",
    broken: () =>
      `select t.id as task_id, t.status, t.lease_expires_at as seen,
         case when t.status = 'CLAIMED' then c.lease_expires_at end as expected
       from tasks as t left join claims as c on c.task_id = t.id and c.closed_at is null
         and c.generation = t.claim_generation
       where (t.status = 'CLAIMED' and c.id is not null and t.lease_expires_at is distinct from c.lease_expires_at)
         or (t.status <> 'CLAIMED' and t.lease_expires_at is not null)`,
  },
  {
    name: 'tasks-count-their-claims',
    says: "A task's claim generation is the number of its claims.",
    broken: () =>
      `select t.id as task_id, t.claim_generation as seen, count(c.id) as expected
       from tasks as t left join claims as c on c.task_id = t.id
       group by t.id, t.claim_generation having count(c.id) <> t.claim_generation`,
  },

  // ------------------------------------------------------------------------------- claims and attempts
  {
    name: 'claims-are-numbered',
    says: 'The claims of a task carry the generations 1, 2, 3 ...',
    broken: () => unnumbered('claims', 'task_id', 'generation'),
  },
  {
    name: 'the-newest-claim-is-the-open-one',
    says: 'An open claim is the newest one, under the permission that is in force.',
    broken: () => [
      `select c.task_id, c.id as claim_id, c.generation as seen, n.newest as expected
       from claims as c join (select task_id, max(generation) as newest from claims group by task_id) as n
         on n.task_id = c.task_id
       where c.closed_at is null and c.generation <> n.newest`,
      `select c.task_id, c.id as claim_id, c.authorization_id as seen, a.id as expected
       from claims as c join authorizations as a on a.task_id = c.task_id and a.${isInForce}
       where c.closed_at is null and c.authorization_id <> a.id and exists (select 1 from authorizations as own
         where own.id = c.authorization_id and own.task_id = c.task_id)`,
    ],
  },
  {
    name: 'claims-have-one-attempt',
    says: 'Every claim has exactly one attempt.',
    broken: () =>
      `select c.task_id, c.id as claim_id, count(a.id) as seen, 1 as expected
       from claims as c left join attempts as a on a.claim_id = c.id
       group by c.task_id, c.id having count(a.id) <> 1`,
  },
  {
    name: 'attempts-repeat-their-claim',
    says: 'An attempt has the task, generation, permission, user and device of its claim.',
    broken: () =>
      together(
        ['task_id', 'generation', 'authorization_id', 'user_id', 'device_id'].map(
          (column) =>
            `select a.id as attempt_id, a.claim_id, '${column}' as field, ${text(`a.${column}`)} as seen,
               ${text(`c.${column}`)} as expected
             from attempts as a join claims as c on c.id = a.claim_id where a.${column} <> c.${column}`,
        ),
      ),
  },
  {
    name: 'closed-claims-repeat-a-move',
    says: 'A closed claim remembers the move at which it closed; an open one remembers none.',
    broken: () => [
      `select task_id, id as claim_id, case when closed_at is null then 'open' else 'closed' end
           || coalesce(' ' || closed_status, '') || coalesce(' version ' || closed_version, '') as seen,
         'all of them or none' as expected
       from claims where (closed_at is null) <> (closed_status is null)
         or (closed_at is null) <> (closed_version is null)`,
      `select c.task_id, c.id as claim_id, c.closed_status || ' version ' || c.closed_version as seen,
         'a move to that status and version' as expected
       from claims as c
       where c.closed_at is not null and c.closed_status is not null and c.closed_version is not null
         and not exists (select 1 from task_events as e where e.task_id = c.task_id and e.version = c.closed_version
           and e.to_status = c.closed_status and e.${isMove})`,
    ],
  },
  {
    name: 'claims-have-their-move',
    says: 'Every claim was opened by one move that names its attempt.',
    broken: () =>
      `select a.task_id, a.id as attempt_id, count(e.seq) as seen, 1 as expected
       from attempts as a left join task_events as e on e.task_id = a.task_id and e.attempt_id = a.id
         and e.type in ('task.claimed', 'task.taken_over')
       group by a.task_id, a.id having count(e.seq) <> 1`,
  },
  {
    name: 'executions-have-their-move',
    says: 'An attempt was started by one move exactly when it has an execution.',
    broken: () =>
      `select a.task_id, a.id as attempt_id, count(e.seq) as seen,
         case when a.execution_id is null then 0 else 1 end as expected
       from attempts as a left join task_events as e on e.task_id = a.task_id and e.attempt_id = a.id
         and e.type = 'task.started'
       group by a.task_id, a.id, a.execution_id
       having count(e.seq) <> case when a.execution_id is null then 0 else 1 end`,
  },
  {
    name: 'unstarted-leases-end-with-the-permission',
    says: 'The lease of a claim that was not started never outlives its permission.',
    broken: () =>
      `select c.task_id, c.id as claim_id, c.lease_expires_at as seen, a.expires_at as expected
       from claims as c join attempts as t on t.claim_id = c.id join authorizations as a on a.id = c.authorization_id
       where t.status = 'CLAIMED' and c.lease_expires_at > a.expires_at`,
  },
  {
    name: 'live-attempts-keep-their-buyer',
    says: 'A device changes its buyer only when it is not at work.',
    broken: () =>
      `select a.task_id, a.id as attempt_id, a.device_id, d.user_id as seen, a.user_id as expected
       from attempts as a join devices as d on d.device_id = a.device_id
       where a.ended_at is null and d.user_id <> a.user_id`,
  },

  // ------------------------------------------------------------------------ permissions and the fence
  {
    name: 'authorizations-have-their-press',
    says: 'Every permission was given by a press of "start purchase", and every press gave one.',
    broken: () => [
      `select a.task_id, a.id as authorization_id, a.task_version as seen, 'a press at that version' as expected
       from authorizations as a where not exists (select 1 from task_events as e where e.task_id = a.task_id
         and e.version = a.task_version and e.type = 'task.purchase_started')`,
      `select e.task_id, e.seq, e.version as seen, 'a permission of that version' as expected
       from task_events as e where e.type = 'task.purchase_started' and not exists (select 1 from authorizations as a
         where a.task_id = e.task_id and a.task_version = e.version)`,
    ],
  },
  {
    name: 'authorizations-end-when-they-are-over',
    says: 'A permission that is over has its end, and no other has one.',
    broken: () =>
      `select task_id, id as authorization_id, status, case when closed_at is null then 'no end' else 'an end' end as seen,
         case when ${isInForce} then 'no end' else 'an end' end as expected
       from authorizations where (${isInForce}) <> (closed_at is null)`,
  },
  {
    name: 'frozen-wishes-are-the-wish',
    says: 'While a permission is in force its copy of the wish and of the picture is that of the task.',
    broken: ({ engine }) => frozenWishes(engine),
  },
  {
    name: 'submissions-have-their-fence',
    says: 'Every submission was opened by one fence of its attempt, and every fence opened one.',
    broken: () => [
      `select s.task_id, s.id as submission_id, s.attempt_id, count(e.seq) as seen, '1 fence' as expected
       from order_submissions as s left join task_events as e on e.task_id = s.task_id
         and e.type = 'task.submission_fenced' and e.attempt_id = s.attempt_id and e.occurred_at = s.fenced_at
       group by s.task_id, s.id, s.attempt_id having count(e.seq) <> 1`,
      `select e.task_id, e.seq, 'no submission' as seen, 'a submission' as expected
       from task_events as e where e.type = 'task.submission_fenced' and not exists (
         select 1 from order_submissions as s where s.task_id = e.task_id)`,
    ],
  },
  {
    name: 'submissions-are-under-their-permission',
    says: 'A submission uses the permission of its attempt.',
    broken: () =>
      `select s.task_id, s.id as submission_id, s.authorization_id as seen, a.authorization_id as expected
       from order_submissions as s join attempts as a on a.id = s.attempt_id
       where s.authorization_id <> a.authorization_id`,
  },
  {
    name: 'submissions-keep-the-limits',
    says: 'Nothing was submitted in another quantity or above a limit, or unconfirmed where that was asked for.',
    broken({ engine }) {
      const columns = WISH_COLUMNS.filter((column) =>
        /^(quantity|max_.*|confirmation_required)$/.test(column),
      );
      const frozen = columns.map((column) => `${frozenIn('a', column, engine)} as ${column}`);
      return `select s.task_id, s.id as submission_id, s.quantity || ' at ' || s.unit_price_cents || ', ' || s.total_cents
             || ' in all' || case when s.confirmation_id is null then ', unconfirmed' else '' end as seen,
           wish.quantity || ' at ' || wish.max_unit_price_cents || ', ' || wish.max_total_cents || ' in all'
             || case when wish.confirmation_required then ', confirmed' else '' end as expected
         from order_submissions as s
         join (select a.id, ${frozen.join(', ')} from authorizations as a) as wish on wish.id = s.authorization_id
         where s.quantity <> wish.quantity or s.unit_price_cents > wish.max_unit_price_cents
           or s.total_cents > wish.max_total_cents or (wish.confirmation_required and s.confirmation_id is null)`;
    },
  },
  {
    name: 'submissions-repeat-their-confirmation',
    says: 'What was confirmed for the attempt is what was submitted.',
    broken: () => {
      const offer = (of: string, status: string) =>
        `${of}.quantity || ' at ' || ${of}.unit_price_cents || ', ' || ${of}.total_cents || ' in all, ' || ${status}`;
      return `select s.task_id, s.id as submission_id, s.confirmation_id, ${offer('c', 'c.status')} as seen,
           ${offer('s', `'APPROVED'`)} as expected
         from order_submissions as s join confirmations as c on c.id = s.confirmation_id
         where c.status <> 'APPROVED' or c.attempt_id <> s.attempt_id or c.quantity <> s.quantity
           or c.unit_price_cents <> s.unit_price_cents or c.total_cents <> s.total_cents`;
    },
  },
  {
    name: 'submitted-orders-were-reported',
    says: 'An order that a phone reported stands in a report with the same number.',
    broken: () =>
      `select s.task_id, s.id as submission_id, s.order_no as seen, 'a report of it' as expected
       from order_submissions as s where s.status = 'SUBMITTED' and not exists (select 1 from submission_reports as r
         where r.task_id = s.task_id and r.submission_id = s.id and r.outcome = 'ORDER_CREATED' and r.order_no = s.order_no)`,
  },
  {
    name: 'questions-are-numbered',
    says: 'The confirmations of an attempt carry the numbers 1, 2, 3 ...',
    broken: () => unnumbered('confirmations', 'attempt_id', 'ordinal'),
  },

  // --------------------------------------------------------------------------------- people and secrets
  {
    name: 'access-ends-with-its-owner',
    says: 'No session or token is open for a disabled user, a revoked device, or a device that has another buyer.',
    broken: () => [
      `select s.id as session_id, s.user_id, 'open, user DISABLED' as seen, 'ended' as expected
       from sessions as s join users as u on u.id = s.user_id where s.ended_at is null and u.status = 'DISABLED'`,
      `select t.id as token_id, t.user_id, t.device_id, 'open, user ' || u.status || ', device ' || d.status
           || case when d.user_id = t.user_id then '' else ' of another buyer' end as seen, 'ended' as expected
       from access_tokens as t join users as u on u.id = t.user_id join devices as d on d.device_id = t.device_id
       where t.ended_at is null and (u.status = 'DISABLED' or d.status = 'REVOKED' or d.user_id <> t.user_id)`,
    ],
  },
  {
    name: 'an-admin-remains',
    says: 'Where there are users, an active admin is among them.',
    broken: () =>
      `select 'no active admin' as seen, 'at least 1' as expected from (select 1 as one) as once
       where exists (select 1 from users)
         and not exists (select 1 from users where role = 'ADMIN' and status = 'ACTIVE')`,
  },
  {
    name: 'usernames-have-their-key',
    says: 'A username is found without regard to case.',
    broken: () =>
      `select id as user_id, username_key as seen, lower(username) as expected from users
       where username_key <> lower(username)`,
  },
  {
    name: 'secrets-are-digests',
    says: 'Of tokens and requests only a digest is kept, of passwords only an argon2 hash.',
    broken({ engine, tables }) {
      const isDigest = (column: string) =>
        engine === 'postgres'
          ? `${column} ~ '^[0-9a-f]{64}$'`
          : `(length(${column}) = 64 and ${column} not glob '*[^0-9a-f]*')`;
      // What is stored there may be the secret itself: a finding tells its length only.
      const digests = tables.flatMap((of) =>
        badColumns(
          of,
          DIGESTS.filter(([name]) => name === of.name).map(([, column]) => column),
          (column) => `(${column} is not null and not ${isDigest(column)})`,
          (column) => `length(${column}) || ' characters'`,
          '64 hex digits',
        ),
      );
      return [
        ...together(digests),
        `select id as user_id, 'password_hash=' || length(password_hash) || ' characters' as seen,
           'an argon2 hash' as expected
         from users where password_hash not like '$argon2%'`,
      ];
    },
  },
  {
    name: 'no-column-holds-a-secret',
    says: 'No column is named after a secret unless it holds its hash or its id.',
    broken: ({ tables }) =>
      tables.flatMap(({ name, columns }) =>
        columns
          .filter((column) => /token|secret|password|cookie/.test(column.name))
          .filter((column) => !/_(hash|id)$/.test(column.name))
          .map(
            (column) =>
              `select '${name}' as rows_of, '${column.name}' as field, 'a column' as seen, 'none' as expected`,
          ),
      ),
  },

  // --------------------------------------------------------------------------------------------- spelling
  {
    name: 'instants-are-well-formed',
    says: 'Every instant is UTC to the millisecond, in 24 characters where it is text.',
    broken: ({ engine, tables }) =>
      together(
        tables.flatMap((of) => {
          const instants = of.columns.map(({ name }) => name).filter((name) => name.endsWith('_at'));
          return engine === 'postgres'
            ? badColumns(
                of,
                instants,
                (column) => `(${column} is not null and not isfinite(${column}))`,
                (column) => `${column}::text`,
                'an instant',
              )
            : badColumns(of, instants, isNoInstant, (column) => `cast(${column} as text)`, '24 characters');
        }),
      ),
  },
  {
    name: 'values-have-their-type',
    says: 'SQLite holds whole numbers and texts where they are declared.',
    broken: ({ engine, tables }) =>
      engine === 'postgres'
        ? []
        : together(
            tables.flatMap((of) =>
              ['integer', 'text'].flatMap((type) =>
                badColumns(
                  of,
                  of.columns.filter((column) => column.type === type).map(({ name }) => name),
                  (column) => `typeof(${column}) not in ('${type}', 'null')`,
                  (column) => `typeof(${column})`,
                  type,
                ),
              ),
            ),
          ),
  },
];

/** SQLite reads the text back and writes it again: only a real date in the one spelling comes out as it went in. */
function isNoInstant(column: string): string {
  return `(${column} is not null and strftime('%Y-%m-%dT%H:%M:%fZ', ${column}) is not ${column})`;
}

/** A column of an authorization's frozen wish, in the type that tasks have it in; nothing where it is no JSON. */
function frozenIn(of: string, column: string, engine: Shape['engine']): string {
  const wish = `${of}.wish`;
  if (engine === 'sqlite') {
    return `case when json_valid(${wish}) then json_extract(${wish}, '$.${column}') end`;
  }
  const type = column === 'confirmation_required' ? 'boolean' : isNumber(column) ? 'bigint' : 'text';
  return `case when ${isJson(wish, engine)} then (${wish}::jsonb ->> '${column}')::${type} end`;
}

const isNumber = (column: string) => /^quantity$|_cents$/.test(column);

/** PostgreSQL can ask this only from version 16 on; before, an object is recognised by its braces. */
function isJson(column: string, engine: Shape['engine']): string {
  return engine === 'sqlite' ? `json_valid(${column})` : `${column} ~ '^\\{".*\\}$'`;
}

function frozenWishes(engine: Shape['engine']): string {
  const differing = WISH_COLUMNS.map(
    (column) =>
      `case when ${frozenIn('w', column, engine)} is distinct from t.${column} then '${column} ' else '' end`,
  );
  return `select task_id, id as authorization_id, seen, 'no difference' as expected
    from (select w.id, w.task_id,
        case when ${isJson('w.wish', engine)} then ${differing.join(' || ')} else 'no JSON ' end
        || case when w.reference_image_sha256 is distinct from t.reference_image_sha256
             then 'reference_image_sha256 ' else '' end as seen
      from authorizations as w join tasks as t on t.id = w.task_id where w.${isInForce}) as compared
    where seen <> ''`;
}
