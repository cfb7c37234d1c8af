/** Searches of all tasks in Postgres. */
import { Duration, Effect, Layer } from "effect"
import { TaskHead } from "../../domain/Task.ts"
import { make as makeQueries, micros, moment, query } from "./Queries.ts"
import { headColumns, isLive, shardOf } from "./TaskColumns.ts"
import { StatusStats, sumStats, TaskScans } from "./TaskScans.ts"

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

/** Uses the database's clock, which also timestamps the revocations. */
const since = `coalesce(statement_timestamp() - make_interval(secs => $1::float8), '-infinity')`

const revoked = query(
  TaskHead,
  `SELECT ${headColumns} FROM tasks WHERE uuid IN (
    SELECT t.uuid FROM token_revocations r JOIN tasks t ON t.token_id = r.token_id
    WHERE r.revoked_at >= ${since} AND t.status = 'processing'
    UNION
    SELECT t.uuid FROM token_revocations r JOIN tasks t ON t.sub = r.sub
      AND (t.token_issued_at IS NULL OR t.token_issued_at < r.issued_before)
    WHERE r.revoked_at >= ${since} AND t.status = 'processing'
    LIMIT $2::int
  ) AND status = 'processing'`
)

const statsQuery = (condition: string) =>
  query(
    StatusStats,
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
      revoked: (within, limit) => rows(revoked, [within === undefined ? null : Duration.toSeconds(within), limit]),
      stats: Effect.map(rows(allStats, []), sumStats),
      liveStats: Effect.map(rows(liveStats, []), sumStats)
    }))
)
