import { MOVES, type MoveEvent, type TaskStatus } from '../contract/moves';
import type { Database } from '../store/database';
import type { AttemptRow, AuthorizationRow, ClaimRow, SubmissionRow, TaskRow } from '../store/facts';
import type { TaskEventRow as EventRow } from '../store/reports';

type TaskEventRow = EventRow & { task_id: string };

const HELD: readonly TaskStatus[] = [
  'CLAIMED',
  'RUNNING',
  'WAITING_CONFIRMATION',
  'SUBMITTING',
  'NEEDS_MANUAL',
];
const BUSY: readonly TaskStatus[] = ['CLAIMED', 'RUNNING', 'WAITING_CONFIRMATION', 'SUBMITTING'];

/** What must hold for every task and device at any time, whatever raced with whatever; a broken one fails the test. */
export async function expectInvariants(database: Database): Promise<void> {
  const { knex } = database.read;
  const tasks: TaskRow[] = await knex('tasks').select('*');
  const claims: ClaimRow[] = await knex('claims').orderBy(['task_id', 'generation']);
  const attempts: AttemptRow[] = await knex('attempts').select('*');
  const authorizations: AuthorizationRow[] = await knex('authorizations').select('*');
  const submissions: SubmissionRow[] = await knex('order_submissions').select('*');
  const events: TaskEventRow[] = await knex('task_events').orderBy('seq');

  const broken: string[] = [];
  const must = (holds: boolean, what: string) => {
    if (!holds) broken.push(what);
  };

  for (const task of tasks) {
    const of = <T extends { task_id: string }>(rows: T[]) => rows.filter((row) => row.task_id === task.id);
    const own = of(claims);
    const open = own.filter((claim) => claim.closed_at === null);
    const live = of(attempts).filter((attempt) => attempt.ended_at === null);
    const inForce = of(authorizations).filter(({ status }) => status === 'ACTIVE' || status === 'FENCED');
    const fenced = of(submissions);
    const name = `task ${task.id} (${task.status} v${task.version})`;

    must(open.length <= 1, `${name} has ${open.length} open claims`);
    must(open.length === (HELD.includes(task.status) ? 1 : 0), `${name} has ${open.length} open claims`);
    must(live.length === (BUSY.includes(task.status) ? 1 : 0), `${name} has ${live.length} live attempts`);
    must(inForce.length <= 1, `${name} has ${inForce.length} authorizations in force`);
    must(fenced.length <= 1, `${name} has ${fenced.length} submissions`);
    must(
      own.length === task.claim_generation,
      `${name} has ${own.length} claims, not ${task.claim_generation}`,
    );
    must(
      own.every((claim, index) => claim.generation === index + 1),
      `${name} has generations ${own.map((claim) => claim.generation)}`,
    );
    must(
      own.every((claim) => attempts.filter((attempt) => attempt.claim_id === claim.id).length === 1),
      `${name} has a claim without its one attempt`,
    );
    must(
      task.lease_expires_at === (task.status === 'CLAIMED' ? open[0]?.lease_expires_at : null),
      `${name} copies lease ${task.lease_expires_at}`,
    );
    must(
      task.authorization_expires_at ===
        (task.status === 'PENDING' || task.status === 'CLAIMED' ? inForce[0]?.expires_at : null),
      `${name} copies authorization ${task.authorization_expires_at}`,
    );

    const history = events.filter((event) => event.task_id === task.id);
    const moves = history.filter((event) => event.type in MOVES);
    must(moves.length === task.version, `${name} has ${moves.length} moves`);
    moves.forEach((event, index) => {
      const { by, from, to } = MOVES[event.type as MoveEvent] as {
        by: string;
        from: readonly string[];
        to: string;
      };
      const before = moves[index - 1]?.to_status ?? null;
      must(event.version === index + 1, `${name}: ${event.type} is version ${event.version}`);
      must(event.from_status === before, `${name}: ${event.type} left ${event.from_status}, not ${before}`);
      must(
        before === null ? from.length === 0 : from.includes(before),
        `${name}: ${event.type} from ${before}`,
      );
      must(event.to_status === to, `${name}: ${event.type} reached ${event.to_status}`);
      must(event.actor_type === by, `${name}: ${event.type} by ${event.actor_type}`);
    });
    must(moves.at(-1)?.to_status === task.status, `${name} was last moved to ${moves.at(-1)?.to_status}`);
    history.forEach((event, index) => {
      must(event.version >= (history[index - 1]?.version ?? 0), `${name}: versions fall at ${event.type}`);
    });
    const fences = moves.filter((event) => event.type === 'task.submission_fenced');
    must(
      fences.length === fenced.length && fences.every((event) => event.attempt_id === fenced[0]?.attempt_id),
      `${name} has ${fenced.length} submissions and ${fences.length} fences`,
    );
  }

  const live = attempts.filter((attempt) => attempt.ended_at === null);
  for (const { device_id } of live) {
    const count = live.filter((attempt) => attempt.device_id === device_id).length;
    must(count === 1, `device ${device_id} has ${count} live attempts`);
  }
  expect(broken).toEqual([]);
}
