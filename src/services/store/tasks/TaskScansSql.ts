/** Searches of all tasks in Postgres. */
import { Duration, Effect, Layer, Schema } from "effect"
import { TaskHead } from "../../../domain/Task.ts"
import { Timestamp } from "../../../domain/Timestamp.ts"
import * as ScanFloor from "../../timing/ScanFloor.ts"
import { PendingWork } from "../PendingWork.ts"
import { make as makeQueries, micros, moment, query } from "../sql/Queries.ts"
import { headColumns, isDispatched, isLive, shardOf } from "./TaskColumns.ts"
import { type Page, StatusStats, sumStats, TaskScans } from "./TaskScans.ts"

const isIn = (shards: string) => `(${shards}::int[] IS NULL OR ${shardOf("uuid")} = ANY(${shards}::int[]))`

const page = (condition: string) =>
  query(
    TaskHead,
    `SELECT ${headColumns} FROM tasks WHERE ${condition} AND ($1::uuid IS NULL OR uuid > $1::uuid) AND ${isIn("$3")}
    ORDER BY uuid LIMIT $2::int`
  )

const running = page(isDispatched)
const dueWithin = page(`${isLive} AND deadline_at > ${moment("$4")} AND deadline_at <= ${moment("$5")}`)

const nextDeadline = query(
  Schema.Struct({ deadline: Timestamp }),
  `SELECT ${micros("deadline_at")} AS deadline FROM tasks WHERE ${isLive} AND ${isIn("$1")}
  ORDER BY deadline_at LIMIT 1`
)

const overdue = query(
  TaskHead,
  `SELECT ${headColumns} FROM tasks WHERE uuid IN (
    (SELECT uuid FROM tasks WHERE ${isLive} AND deadline_at <= ${moment("$1")}
      AND deadline_at >= ${moment("$3")} LIMIT $2::int)
    UNION ALL
    (SELECT uuid FROM tasks WHERE status = 'pending' AND acceptance_deadline_at <= ${moment("$1")}
      AND acceptance_deadline_at >= ${moment("$3")} LIMIT $2::int)
  ) LIMIT $2::int`
)

/** Uses the database's clock, which also timestamps the revocations. */
const since = `coalesce(statement_timestamp() - make_interval(secs => $1::float8), '-infinity')`

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
    LIMIT $2::int
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
const bindPage = ([after, limit, shards]: Page) => [after ?? null, limit, bindShards(shards)]

export const layer = Layer.effect(
  TaskScans,
  Effect.map(Effect.all([makeQueries, PendingWork]), ([{ rows }, pendingWork]) => {
    pendingWork.add("tasks", () => [`FROM tasks WHERE ${isLive}`])
    return TaskScans.of({
      running: (...page) => rows(running, bindPage(page)),
      dueWithin: (from, to, ...page) => rows(dueWithin, [...bindPage(page), from, to]),
      nextDeadline: (shards) =>
        Effect.map(rows(nextDeadline, [bindShards(shards)]), ([next]) => next?.deadline ?? null),
      overdue: (at, limit, from = ScanFloor.lowest) => rows(overdue, [at, limit, from]),
      revoked: (within, limit) => rows(revoked, [within === undefined ? null : Duration.toSeconds(within), limit]),
      liveStats: Effect.map(rows(liveStats, []), sumStats)
    })
  })
)
