/** Searches of all tasks in Postgres. */
import { Duration, Effect, Layer, Schema } from "effect"
import { TaskHead, TaskStatus } from "../../domain/Task.ts"
import { Timestamp } from "../../domain/Timestamp.ts"
import { headColumns, isLive, revoked, shardOf } from "./CommitStatement.ts"
import { make as makeQueries, micros, moment, query } from "./Queries.ts"
import { sumStats, TaskScans } from "./TaskScans.ts"

const live = query(
  TaskHead,
  `SELECT ${headColumns} FROM tasks WHERE ${isLive} AND ($1::uuid IS NULL OR uuid > $1::uuid)
    AND ($3::int[] IS NULL OR ${shardOf("uuid")} = ANY($3::int[]))
  ORDER BY uuid LIMIT $2::int`
)

const overdue = query(
  TaskHead,
  `SELECT ${headColumns} FROM tasks WHERE uuid IN (
    (SELECT uuid FROM tasks WHERE ${isLive} AND deadline_at <= ${moment("$1")} LIMIT $2::int)
    UNION ALL
    (SELECT uuid FROM tasks WHERE status = 'pending' AND acceptance_deadline_at <= ${moment("$1")} LIMIT $2::int)
  ) LIMIT $2::int`
)

const statsQuery = (condition: string) =>
  query(
    Schema.Struct({ status: TaskStatus, count: Schema.Int, next: Schema.NullOr(Timestamp) }),
    `SELECT status, count(*)::int AS count, ${micros("min(next)")} AS next FROM (
      SELECT status, CASE WHEN ${isLive} THEN
        least(deadline_at, CASE WHEN status = 'pending' THEN acceptance_deadline_at END) END AS next
      FROM tasks WHERE ${condition}
    ) AS every GROUP BY status`
  )

const allStats = statsQuery("true")
const liveStats = statsQuery(isLive)

export const layer = Layer.effect(
  TaskScans,
  Effect.map(makeQueries, ({ rows }) =>
    TaskScans.of({
      live: (after, limit, shards) =>
        rows(live, [after ?? null, limit, shards === undefined ? null : `{${shards.join(",")}}`]),
      overdue: (at, limit) => rows(overdue, [at, limit]),
      revoked: (within, limit) => rows(revoked, revoked.bind({ within: within && Duration.toSeconds(within), limit })),
      stats: Effect.map(rows(allStats, []), sumStats),
      liveStats: Effect.map(rows(liveStats, []), sumStats)
    }))
)
