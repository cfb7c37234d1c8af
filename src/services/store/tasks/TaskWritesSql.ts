/** Changes of tasks in Postgres. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { TaskEvent, TaskHead } from "../../../domain/Task.ts"
import { IdempotencyKeyReused, TooManyActiveTasks } from "../../../domain/TaskErrors.ts"
import * as Batcher from "../sql/Batcher.ts"
import { array, make as makeQueries, micros, moment, query } from "../sql/Queries.ts"
import * as CommitBatcher from "./CommitBatcher.ts"
import * as CreateBatcher from "./CreateBatcher.ts"
import { headColumns, notEnded } from "./TaskColumns.ts"
import { type IdempotencyClaim, type NewTask, SilenceClaim, TaskWrites } from "./TaskWrites.ts"

const startAcceptance = `UPDATE tasks SET acceptance_deadline_at = ${moment("$3")}
  WHERE uuid = $1 AND run_id = $2 AND status = 'pending' AND acceptance_deadline_at IS NULL`

/** A row that is locked is being changed, so its run lives. */
const claimSilent = query(
  SilenceClaim,
  `WITH asked AS (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::int[], $4::float8[]) AS asked (id, run, revision, since)
  ), found AS (
    SELECT tasks.uuid AS id FROM asked JOIN tasks ON tasks.uuid = asked.id
    WHERE tasks.completed_at IS NULL ORDER BY tasks.uuid FOR NO KEY UPDATE OF tasks SKIP LOCKED
  ), claimed AS (
    UPDATE tasks SET silence_from = ${moment("$5")}, silent_since = coalesce(silent_since, ${moment("asked.since")}),
      hand_overs = coalesce(hand_overs, 0) + 1
    FROM found JOIN asked USING (id)
    WHERE tasks.uuid = id AND status = 'processing' AND run_id = asked.run AND tasks.revision = asked.revision
      AND (silence_from IS NULL OR silence_from <= ${moment("asked.since")})
    RETURNING tasks.uuid, hand_overs
  )
  SELECT tasks.uuid, claimed.uuid IS NOT NULL AS "isClaimed",
    CASE WHEN claimed.uuid IS NOT NULL OR tasks.revision <> asked.revision THEN $5::float8
      ELSE coalesce(${micros("tasks.silence_from")}, asked.since) END AS since,
    coalesce(claimed.hand_overs, tasks.hand_overs, 0) AS "handOvers"
  FROM found JOIN asked USING (id) JOIN tasks ON tasks.uuid = id LEFT JOIN claimed ON claimed.uuid = id`
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
    const { execute, rows } = yield* makeQueries
    const insert = yield* CreateBatcher.make
    const commit = yield* CommitBatcher.make

    return TaskWrites.of({
      create: Effect.fnUntraced(function*(task: NewTask, maxActive: number, claim?: IdempotencyClaim) {
        const { outcome, taskId } = yield* insert(task, maxActive, claim)
        if (outcome === "too_many_active_tasks") return yield* new TooManyActiveTasks({ maximum: maxActive })
        if (outcome === "key_reused") return yield* new IdempotencyKeyReused({})
        return { taskId, isReplay: outcome === "replayed" }
      }),

      commit,

      cancelInterrupted: Effect.fnUntraced(function*(sub, at) {
        const event = TaskEvent.cases.Canceled.make({ reason: null })
        const commits = yield* Effect.forEach(
          yield* rows(interrupted, [sub]),
          ({ uuid }) => commit(uuid, event, at),
          { concurrency: Batcher.maxBatch }
        )
        return commits.flatMap((outcome) => outcome._tag === "Applied" ? [outcome.head] : [])
      }),

      claimSilent: (runs, at) =>
        rows(claimSilent, [
          array(runs.map(({ uuid }) => uuid), PgTypes.OID.uuid),
          array(runs.map(({ runId }) => runId), PgTypes.OID.uuid),
          array(runs.map(({ revision }) => revision), PgTypes.OID.int4),
          array(runs.map(({ since }) => since), PgTypes.OID.float8),
          at
        ]),

      startAcceptance: (uuid, runId, deadline) => execute(startAcceptance, [uuid, runId, deadline])
    })
  })
)
