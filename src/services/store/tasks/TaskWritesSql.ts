/** Changes of tasks in Postgres. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Layer, Schema } from "effect"
import { type RunId, TaskEvent, TaskHead, type TaskId } from "../../../domain/Task.ts"
import { IdempotencyKeyReused, TooManyActiveTasks } from "../../../domain/TaskErrors.ts"
import type { Timestamp } from "../../../domain/Timestamp.ts"
import * as Batcher from "../sql/Batcher.ts"
import { make as makeStatement, moment as momentOf } from "../sql/BatchStatement.ts"
import { array, make as makeQueries, moment, query } from "../sql/Queries.ts"
import * as CommitBatcher from "./CommitBatcher.ts"
import * as CreateBatcher from "./CreateBatcher.ts"
import { headColumns, headColumnsOf, notEnded } from "./TaskColumns.ts"
import { type IdempotencyClaim, type NewTask, noQueue, TaskWrites } from "./TaskWrites.ts"

/** The present head; null for a task that was deleted. */
const Present = Schema.Union([Schema.Struct({ uuid: Schema.Null }), TaskHead])

interface Attempt {
  readonly uuid: TaskId
  readonly runId: RunId
  readonly deadline: Timestamp
}

const startAcceptance = makeStatement<Attempt, typeof Present>(Present, "start_acceptance", headColumnsOf("called"), {
  uuid: { oid: PgTypes.OID.uuid, of: ({ uuid }) => uuid },
  run_id: { oid: PgTypes.OID.uuid, of: ({ runId }) => runId },
  deadline: momentOf(({ deadline }) => deadline)
})(false)

/** A row that is locked is being changed, so its run lives. */
const claimSilent = query(
  TaskHead,
  `WITH asked AS (
    SELECT * FROM unnest($1::uuid[], $2::int[], $3::float8[], $4::int[]) AS asked (id, revision, last_event, hand_overs)
  ), found AS (
    SELECT tasks.uuid AS id FROM asked JOIN tasks ON tasks.uuid = asked.id
    WHERE tasks.completed_at IS NULL ORDER BY tasks.uuid FOR NO KEY UPDATE OF tasks SKIP LOCKED
  )
  UPDATE tasks SET hand_overs = asked.hand_overs + 1 FROM found JOIN asked USING (id)
  WHERE tasks.uuid = id AND status = 'processing' AND tasks.revision = asked.revision
    AND coalesce(tasks.hand_overs, 0) = asked.hand_overs AND last_event_at <= ${moment("asked.last_event")}
  RETURNING ${headColumns}`
)

/** `OFFSET` hides the status, which would make the planner read the deadlines of all users. */
const interrupted = query(
  TaskHead,
  `SELECT ${headColumns} FROM (SELECT * FROM tasks WHERE sub = $1 AND ${notEnded} OFFSET 0) AS tasks
  WHERE status = 'interrupted'`
)

export const layer = Layer.effect(
  TaskWrites,
  Effect.gen(function*() {
    const { rows } = yield* makeQueries
    const start = yield* Batcher.make({
      run: (attempts: ReadonlyArray<Attempt>) =>
        Effect.map(
          rows(startAcceptance, startAcceptance.bind(attempts)),
          (heads) => heads.map((head) => head.uuid === null ? undefined : head)
        ),
      lockOf: ({ uuid }) => uuid
    })
    const insert = yield* CreateBatcher.make
    const commit = yield* CommitBatcher.make

    return TaskWrites.of({
      create: Effect.fnUntraced(function*(task: NewTask, maxActive: number, claim?: IdempotencyClaim, entry = noQueue) {
        const { maximum, outcome, room, taskId } = yield* insert(task, maxActive, claim, entry)
        if (outcome === "too_many_active_tasks") return yield* new TooManyActiveTasks({ maximum })
        if (outcome === "key_reused") return yield* new IdempotencyKeyReused({})
        return { taskId, isReplay: outcome === "replayed", room }
      }),

      commit,

      cancelInterrupted: Effect.fnUntraced(function*(sub, at, actor) {
        const event = TaskEvent.cases.Canceled.make({ reason: null, actor })
        const commits = yield* Effect.forEach(
          yield* rows(interrupted, [sub]),
          ({ uuid }) => commit(uuid, event, at),
          { concurrency: Batcher.maxBatch }
        )
        return commits.flatMap((outcome) => outcome._tag === "Applied" ? [outcome.head] : [])
      }),

      claimSilent: (runs) =>
        rows(claimSilent, [
          array(runs.map(({ uuid }) => uuid), PgTypes.OID.uuid),
          array(runs.map(({ revision }) => revision), PgTypes.OID.int4),
          array(runs.map(({ lastEventAt }) => lastEventAt), PgTypes.OID.float8),
          array(runs.map(({ handOvers }) => handOvers ?? 0), PgTypes.OID.int4)
        ]),

      startAcceptance: (uuid, runId, deadline) => start({ uuid, runId, deadline })
    })
  })
)
