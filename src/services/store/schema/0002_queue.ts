/**
 * The queue: runs that wait until the core has room. Frozen once released. A task has a row of `waiting_runs` if and only if its `room` is
 * `waiting`.
 */
import { isDispatched } from "../tasks/TaskColumns.ts"

export const statements: ReadonlyArray<string> = [
  // `room` of the current run: null outside the queue, `waiting` in it, `held` when it was admitted, or counts for a limit.
  `ALTER TABLE tasks
    ADD COLUMN priority integer NOT NULL DEFAULT 5,
    ADD COLUMN room text,
    -- Counts changes of room and acceptance deadline, which are no changes of the task: the order of rows of one revision.
    ADD COLUMN queue_revision integer NOT NULL DEFAULT 0`,
  // When a run that waited was admitted, in the row of the tool results that began it: the wait is not the core's time.
  `ALTER TABLE task_events ADD COLUMN started_at timestamptz`,
  // The runs that count for the limits.
  `CREATE INDEX tasks_held ON tasks (assistant_id) WHERE room = 'held'`,
  // Serves the revocation of a token.
  `CREATE INDEX tasks_waiting_token ON tasks (token_id) WHERE room = 'waiting'`,
  // Thousands that wait need no actor: the search for those without one does not read them.
  `DROP INDEX tasks_running`,
  `CREATE INDEX tasks_running ON tasks (uuid) WHERE ${isDispatched}`,
  `CREATE TABLE waiting_runs (
    task_uuid uuid PRIMARY KEY,
    assistant_id bigint NOT NULL,
    sub text NOT NULL,
    -- The priority of a new run, or 10 for one that was resumed.
    class integer NOT NULL,
    -- In a class the lowest is next. Of a resumed run, the microseconds of its answer.
    ticket bigint NOT NULL,
    -- The creation of the task or the answer: the order of equal tickets.
    since timestamptz NOT NULL
  )`,
  `CREATE INDEX waiting_runs_order ON waiting_runs (class, ticket, since, task_uuid)`,
  `CREATE INDEX waiting_runs_of_assistant ON waiting_runs (assistant_id, class, ticket, since, task_uuid)`,
  `CREATE INDEX waiting_runs_of_user ON waiting_runs (sub, class, ticket)`,
  // The last ticket that was served. A sequence, because versions of a row would pile up beside an old snapshot. Where it is not
  // replicated, the queue sets it again.
  `CREATE SEQUENCE queue_tickets`,
  // It says nothing but an order, and a role that may use the tables is seldom granted more than USAGE of sequences.
  `GRANT SELECT, UPDATE ON SEQUENCE queue_tickets TO PUBLIC`,
  // The settings of operators for assistants. Without \`runs\` CORE_RUNS_PER_ASSISTANT holds.
  `CREATE TABLE assistant_limits (
    assistant_id bigint PRIMARY KEY,
    runs integer,
    is_paused boolean NOT NULL DEFAULT false
  )`
]
