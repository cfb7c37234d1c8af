/**
 * The store of tasks in Postgres. Here are the searches of all tasks, the deletions and the outbox of stops. Rows that another node is
 * deleting are skipped.
 */
import { PgTypes } from "@effect/sql-pg"
import { Duration, Effect, Layer, Schema } from "effect"
import * as Limits from "../../../domain/Limits.ts"
import { type RunId, TaskHead } from "../../../domain/Task.ts"
import { plus, Timestamp } from "../../../domain/Timestamp.ts"
import * as ScanFloor from "../../timing/ScanFloor.ts"
import { PendingWork } from "../PendingWork.ts"
import * as RunQueueSql from "../queue/RunQueueSql.ts"
import * as Batcher from "../sql/Batcher.ts"
import { array, countQuery, deletionQuery, hidden, make as makeQueries, micros, moment, query } from "../sql/Queries.ts"
import * as WebhookStoreSql from "../webhooks/WebhookStoreSql.ts"
import { labelOf } from "./ListStatement.ts"
import { headColumns, isDispatched, isLive, shardOf } from "./TaskColumns.ts"
import * as TaskReadsSql from "./TaskReadsSql.ts"
import { type Page, PendingStop, StatusStats, sumStats, TaskStore } from "./TaskStore.ts"
import * as TaskWritesSql from "./TaskWritesSql.ts"

const isIn = (shards: string) => `(${shards}::int[] IS NULL OR ${shardOf("uuid")} = ANY(${shards}::int[]))`

const page = (condition: string) =>
  query(
    TaskHead,
    `SELECT ${headColumns} FROM tasks WHERE ${condition} AND (@after::uuid IS NULL OR uuid > @after::uuid) AND ${
      isIn("@shards")
    }
    ORDER BY uuid LIMIT @limit::int`
  )

const running = page(isDispatched)
const dueWithin = page(`${isLive} AND deadline_at > ${moment("@from")} AND deadline_at <= ${moment("@to")}`)

const nextDeadline = query(
  Schema.Struct({ deadline: Timestamp }),
  `SELECT ${micros("deadline_at")} AS deadline FROM tasks WHERE ${isLive} AND ${isIn("@shards")}
  ORDER BY deadline_at LIMIT 1`
)

const overdue = query(
  TaskHead,
  `SELECT ${headColumns} FROM tasks WHERE uuid IN (
    (SELECT uuid FROM tasks WHERE ${isLive} AND deadline_at <= ${moment("@at")}
      AND deadline_at >= ${moment("@from")} LIMIT @limit::int)
    UNION ALL
    (SELECT uuid FROM tasks WHERE status = 'pending' AND acceptance_deadline_at <= ${moment("@at")}
      AND acceptance_deadline_at >= ${moment("@from")} LIMIT @limit::int)
  ) LIMIT @limit::int`
)

/** Uses the database's clock, which also timestamps the revocations. */
const since = `coalesce(statement_timestamp() - make_interval(secs => @seconds::float8), '-infinity')`

const revoked = query(
  TaskHead,
  `SELECT ${headColumns} FROM tasks WHERE uuid IN (
    SELECT t.uuid FROM token_revocations r JOIN tasks t ON t.token_id = r.token_id
    WHERE r.revoked_at >= ${since} AND t.status = 'processing'
    UNION
    SELECT t.uuid FROM token_revocations r JOIN tasks t ON t.token_id = r.token_id
    WHERE r.revoked_at >= ${since} AND t.room = 'waiting'
    UNION
    SELECT t.uuid FROM token_revocations r JOIN tasks t ON t.sub = r.sub
      AND (t.token_issued_at IS NULL OR t.token_issued_at < r.issued_before)
    WHERE r.revoked_at >= ${since} AND (t.status = 'processing' OR t.room = 'waiting')
    LIMIT @limit::int
  ) AND (status = 'processing' OR room = 'waiting')`
)

const liveStats = query(
  StatusStats,
  `SELECT status, count(*)::int AS count, ${micros("min(next)")} AS next FROM (
    SELECT status, least(deadline_at, CASE WHEN status = 'pending' THEN acceptance_deadline_at END) AS next
    FROM tasks WHERE ${isLive}
  ) AS live GROUP BY status`
)

const bindShards = (shards: Page[2]) => shards === undefined ? null : `{${shards.join(",")}}`
const bindPage = ([after, limit, shards]: Page) => ({ after: after ?? null, limit, shards: bindShards(shards) })

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
  `SELECT uuid, sub, created_at FROM tasks WHERE completed_at <= ${moment("@before")} AND completed_at >= ${
    moment("@from")
  }
      AND NOT EXISTS (SELECT FROM webhook_deliveries WHERE task_uuid = uuid AND due_at IS NOT NULL)
    ORDER BY completed_at LIMIT @limit::int FOR UPDATE SKIP LOCKED`
)

const deleteTask = deletion(
  `SELECT uuid, sub, created_at FROM tasks WHERE uuid = $1 AND completed_at IS NOT NULL FOR UPDATE`
)

/** Attempts that were claimed while their delivery was deleted: that statement did not see them. */
const deleteLateAttempts = `DELETE FROM webhook_attempts WHERE task_uuid = $1`

const deleteOrigins = deletionQuery("webhook_origins", `proven_at <= ${moment("@before")}`)

const deleteExpiredKeys = deletionQuery(
  "idempotency_keys",
  `expires_at <= ${moment("@at")} AND expires_at >= ${moment("@from")}`
)

const claimStops = query(
  PendingStop,
  `UPDATE core_stops SET attempts = attempts + 1, due_at = ${moment("@until")}
  WHERE run_id IN (
    SELECT run_id FROM core_stops WHERE due_at <= ${moment("@at")} AND due_at >= ${moment("@from")}
    ORDER BY due_at LIMIT @limit::int FOR UPDATE SKIP LOCKED
  ) RETURNING run_id AS "runId", task_uuid AS "taskId", reason, attempts AS attempt,
    (SELECT ${micros("completed_at")} FROM tasks WHERE uuid = task_uuid) AS "endedAt"`
)

const deleteStops = `DELETE FROM core_stops USING unnest(${hidden("$1::uuid[]")}) AS done (id) WHERE run_id = done.id`

/** Of tasks alone. */
export const layerTasks = Layer.effect(
  TaskStore,
  Effect.gen(function*() {
    const { count, execute, rows } = yield* makeQueries
    const pendingWork = yield* PendingWork
    pendingWork.add("tasks", () => [`FROM tasks WHERE ${isLive}`])
    pendingWork.add("stops", (soon) => [`FROM core_stops WHERE due_at <= ${soon}`])
    // Thousands of runs may have to be stopped in one moment: their answers come together.
    const deleteStop = yield* Batcher.make({
      run: (runIds: ReadonlyArray<RunId>) =>
        Effect.as(
          execute(deleteStops, [array(runIds, PgTypes.OID.uuid)]),
          runIds.map(() => undefined)
        ),
      lockOf: (runId) => runId
    })

    return TaskStore.of({
      ...(yield* TaskWritesSql.make),
      ...(yield* TaskReadsSql.make),

      running: (...page) => rows(running, bindPage(page)),
      dueWithin: (from, to, ...page) => rows(dueWithin, { ...bindPage(page), from, to }),
      nextDeadline: (shards) =>
        Effect.map(rows(nextDeadline, { shards: bindShards(shards) }), ([next]) => next?.deadline ?? null),
      overdue: (at, limit, from = ScanFloor.lowest) => rows(overdue, { at, limit, from }),
      revoked: (within, limit) =>
        rows(revoked, { seconds: within === undefined ? null : Duration.toSeconds(within), limit }),
      liveStats: Effect.map(rows(liveStats, []), sumStats),

      deleteTask: Effect.fnUntraced(function*(uuid) {
        const isDeleted = (yield* count(deleteTask, [uuid])) > 0
        // The task is gone, whatever comes of its late attempts.
        if (isDeleted) yield* Effect.ignore(execute(deleteLateAttempts, [uuid]))
        return isDeleted
      }),
      deleteEnded: (before, limit, from = ScanFloor.lowest) => count(deleteEnded, { before, limit, from }),
      deleteOrigins: (before, limit) => count(deleteOrigins, { before, limit }),
      deleteExpiredKeys: (at, limit, from = ScanFloor.lowest) => count(deleteExpiredKeys, { at, limit, from }),

      claimStops: (at, lease, limit, from = ScanFloor.lowest) =>
        rows(claimStops, { at, until: plus(at, lease), limit, from }),
      deleteStop,
      postponeStop: (runId, until) =>
        execute(`UPDATE core_stops SET due_at = ${moment("$2")} WHERE run_id = $1`, [runId, until])
    })
  })
)

/** Every store of tasks and of webhooks. */
export const layer = Layer.mergeAll(layerTasks, RunQueueSql.layer, WebhookStoreSql.layer)
