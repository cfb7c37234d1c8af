/** Deletes expired rows in Postgres. Rows that another node is deleting are skipped. */
import { Effect, Layer } from "effect"
import * as Limits from "../../../domain/Limits.ts"
import * as ScanFloor from "../../timing/ScanFloor.ts"
import { countQuery, deletionQuery, make as makeQueries, moment } from "../sql/Queries.ts"
import { labelOf } from "./ListStatement.ts"
import { TaskRetention } from "./TaskRetention.ts"

/** Deletes the tasks that `selected` locks. Deliveries are locked before attempts, as where outcomes are recorded. */
const deletion = (selected: string) =>
  countQuery(
    `WITH ended AS (
    ${selected}
  ), deliveries AS (
    DELETE FROM webhook_deliveries USING ended WHERE task_uuid = ended.uuid RETURNING 1
  ), attempts AS (
    DELETE FROM webhook_attempts USING ended WHERE task_uuid = ended.uuid AND (SELECT count(*) FROM deliveries) >= 0
  ), turns AS (
    DELETE FROM task_turns USING ended WHERE task_uuid = ended.uuid
  ), requests AS (
    DELETE FROM task_requests USING ended WHERE task_uuid = ended.uuid
  ), metadata AS (
    DELETE FROM task_metadata USING ended WHERE task_uuid = ended.uuid RETURNING ended.*, metadata
  ), labels AS (
    DELETE FROM task_labels USING (
      SELECT ${labelOf("sub", "key", "value")} AS label, created_at, uuid
      FROM metadata CROSS JOIN LATERAL (
        SELECT * FROM jsonb_each_text(metadata.metadata) LIMIT ${Limits.metadataPairs}
      ) AS pair
    ) AS old
    WHERE task_labels.label = old.label AND task_labels.created_at = old.created_at AND task_uuid = old.uuid
  ), events AS (
    DELETE FROM task_events USING ended WHERE task_uuid = ended.uuid
  ), deleted AS (
    DELETE FROM tasks USING ended WHERE tasks.uuid = ended.uuid RETURNING 1
  ) SELECT count(*)::int AS count FROM deleted`
  )

const deleteEnded = deletion(
  `SELECT uuid, sub, created_at FROM tasks WHERE completed_at <= ${moment("$1")} AND completed_at >= ${moment("$3")}
      AND NOT EXISTS (SELECT FROM webhook_deliveries WHERE task_uuid = uuid AND due_at IS NOT NULL)
    ORDER BY completed_at LIMIT $2::int FOR UPDATE SKIP LOCKED`
)

const deleteTask = deletion(
  `SELECT uuid, sub, created_at FROM tasks WHERE uuid = $1 AND completed_at IS NOT NULL FOR UPDATE`
)

/** Attempts that were claimed while their delivery was deleted: that statement did not see them. */
const deleteLateAttempts = `DELETE FROM webhook_attempts WHERE task_uuid = $1`

const deleteOrigins = deletionQuery("webhook_origins", `proven_at <= ${moment("$1")}`)

const deleteExpiredKeys = deletionQuery(
  "idempotency_keys",
  `expires_at <= ${moment("$1")} AND expires_at >= ${moment("$3")}`
)

export const layer = Layer.effect(
  TaskRetention,
  Effect.map(makeQueries, ({ count, execute }) =>
    TaskRetention.of({
      deleteTask: Effect.fnUntraced(function*(uuid) {
        const isDeleted = (yield* count(deleteTask, [uuid])) > 0
        // The task is gone, whatever comes of its late attempts.
        if (isDeleted) yield* Effect.ignore(execute(deleteLateAttempts, [uuid]))
        return isDeleted
      }),
      deleteEnded: (before, limit, from = ScanFloor.lowest) => count(deleteEnded, [before, limit, from]),
      deleteOrigins: (before, limit) => count(deleteOrigins, [before, limit]),
      deleteExpiredKeys: (at, limit, from = ScanFloor.lowest) => count(deleteExpiredKeys, [at, limit, from])
    }))
)
