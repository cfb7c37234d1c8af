/** The outbox of stop requests in Postgres. */
import { Effect, Layer } from "effect"
import { plus } from "../../domain/Timestamp.ts"
import { make as makeQueries, micros, moment, query } from "./Queries.ts"
import { PendingStop, StopOutbox } from "./StopOutbox.ts"

const claim = query(
  PendingStop,
  `UPDATE core_stops SET attempts = attempts + 1, due_at = ${moment("$2")}
  WHERE run_id IN (
    SELECT run_id FROM core_stops WHERE due_at <= ${moment("$1")}
    ORDER BY due_at LIMIT $3::int FOR UPDATE SKIP LOCKED
  ) RETURNING run_id AS "runId", task_uuid AS "taskId", reason, attempts AS attempt,
    (SELECT ${micros("completed_at")} FROM tasks WHERE uuid = task_uuid) AS "endedAt"`
)

export const layer = Layer.effect(
  StopOutbox,
  Effect.map(makeQueries, ({ execute, rows }) =>
    StopOutbox.of({
      claim: (at, lease, limit) => rows(claim, [at, plus(at, lease), limit]),
      record: (runId) => execute(`DELETE FROM core_stops WHERE run_id = $1`, [runId]),
      postpone: (runId, until) =>
        execute(`UPDATE core_stops SET due_at = ${moment("$2")} WHERE run_id = $1`, [runId, until])
    }))
)
