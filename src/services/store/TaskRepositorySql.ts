/** The store of tasks in Postgres. Guards in its statements enforce the rules; see `CommitBatcher`. */
import { Duration, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { TaskEvent, TaskStatus } from "../../domain/Task.ts"
import { IdempotencyKeyReused, TooManyActiveTasks } from "../../domain/TaskErrors.ts"
import { format, plus } from "../../domain/Timestamp.ts"
import * as Batcher from "./Batcher.ts"
import * as CommitBatcher from "./CommitBatcher.ts"
import * as CreateBatcher from "./CreateBatcher.ts"
import { listAll, listByStatus } from "./ListStatement.ts"
import * as ReadBatcher from "./ReadBatcher.ts"
import { headColumns, isLive, micros, shardOf } from "./TaskColumns.ts"
import { type IdempotencyClaim, type NewTask, TaskRepository } from "./TaskRepository.ts"
import {
  decodeClaims,
  decodeCounts,
  decodeEvents,
  decodeHeads,
  decodePendingRuns,
  decodeStops,
  decodeSummaries
} from "./TaskRows.ts"

/** The database's clock, which also timestamps the revocations. */
const since = `coalesce(statement_timestamp() - make_interval(secs => $1::float8), '-infinity')`

const selectRevoked = `SELECT ${headColumns} FROM tasks WHERE uuid IN (
    SELECT t.uuid FROM token_revocations r JOIN tasks t ON t.token_id = r.token_id
    WHERE r.revoked_at >= ${since} AND t.status = 'processing'
    UNION
    SELECT t.uuid FROM token_revocations r JOIN tasks t ON t.sub = r.sub
      AND (t.token_issued_at IS NULL OR t.token_issued_at < r.issued_before)
    WHERE r.revoked_at >= ${since} AND t.status = 'processing'
    LIMIT $2::int
  ) AND status = 'processing'`

const countOf = ([row]: ReadonlyArray<object>) => (row as { readonly count: number }).count

export const layer = Layer.effect(
  TaskRepository,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const run = (text: string, values: ReadonlyArray<unknown>) => sql.unsafe<object>(text, values)

    const insert = yield* CreateBatcher.make
    const commit = yield* CommitBatcher.make
    const read = yield* ReadBatcher.make
    const create = Effect.fnUntraced(function*(task: NewTask, maxActive: number, claim?: IdempotencyClaim) {
      const { outcome, task_uuid: taskId } = yield* Effect.orDie(insert(task, maxActive, claim))
      if (outcome === "too_many_active_tasks") return yield* new TooManyActiveTasks({ maximum: maxActive })
      if (outcome === "key_reused") return yield* new IdempotencyKeyReused({})
      return { taskId, isReplay: outcome === "replayed" }
    })

    const list = Effect.fnUntraced(
      function*({ page, perPage, statuses, sub }: Parameters<TaskRepository["Service"]["list"]>[0]) {
        const values = [sub, perPage, String((page - 1) * perPage)]
        const rows = yield* statuses.length === 0
          ? run(listAll, values)
          : run(listByStatus, [...values, `{${statuses.join(",")}}`])
        const { total } = rows[0] as { readonly total: number }
        const tasks = yield* decodeSummaries(rows.filter((row) => "uuid" in row && row.uuid !== null))
        return { tasks, total }
      },
      Effect.orDie
    )

    const statsOf = Effect.fnUntraced(function*(condition: string) {
      const rows = yield* run(
        `SELECT status, count(*)::int AS count, ${micros("min(next)")} AS next FROM (
          SELECT status, CASE WHEN ${isLive} THEN
            least(deadline_at, CASE WHEN status = 'pending' THEN acceptance_deadline_at END) END AS next
          FROM tasks WHERE ${condition}
        ) AS every GROUP BY status`,
        []
      )
      const found = yield* decodeCounts(rows)
      const counts = Object.fromEntries(TaskStatus.literals.map((status) => [status, 0])) as Record<TaskStatus, number>
      for (const { count, status } of found) counts[status] = count
      const deadlines = found.flatMap(({ next }) => next === null ? [] : [next])
      return { counts, nextDeadline: deadlines.toSorted((a, b) => a - b)[0] ?? null }
    }, Effect.orDie)

    return TaskRepository.of({
      create,
      get: (uuid) => Effect.orDie(read.get(uuid)),
      heads: Effect.fnUntraced(
        function*(uuids) {
          if (uuids.length === 1) return Option.toArray(yield* read.head(uuids[0]!))
          const rows = yield* run(`SELECT ${headColumns} FROM tasks WHERE uuid = ANY($1::uuid[])`, [uuids])
          return yield* decodeHeads(rows)
        },
        Effect.orDie
      ),
      eventsAfter: Effect.fnUntraced(
        function*(uuid, revision, limit) {
          const rows = yield* run(
            `SELECT 0 AS revision, 'Created' AS type, 'pending' AS status, ${micros("created_at")} AS occurred_at
            FROM tasks WHERE uuid = $1 AND $2::int < 0
            UNION ALL
            SELECT revision, type, status, ${micros("occurred_at")} FROM task_events
            WHERE task_uuid = $1 AND revision > $2::int ORDER BY revision LIMIT $3::int`,
            [uuid, revision, limit]
          )
          return yield* decodeEvents(rows)
        },
        Effect.orDie
      ),
      list,
      commit: (uuid, event, at, fence, claim) => Effect.orDie(commit(uuid, event, at, fence, claim)),

      claimed: Effect.fnUntraced(
        function*(sub, key, at) {
          const rows = yield* run(
            `SELECT fingerprint, task_uuid FROM idempotency_keys
            WHERE sub = $1 AND key = $2 AND expires_at > $3::timestamptz`,
            [sub, key, format(at)]
          )
          const [found] = yield* decodeClaims(rows)
          return Option.fromNullishOr(found)
        },
        Effect.orDie
      ),

      deleteExpiredKeys: (at, limit) =>
        run(
          `WITH expired AS (
            DELETE FROM idempotency_keys WHERE (sub, key) IN (
              SELECT sub, key FROM idempotency_keys WHERE expires_at <= $1::timestamptz LIMIT $2::int
              FOR UPDATE SKIP LOCKED
            ) RETURNING 1
          ) SELECT count(*)::int AS count FROM expired`,
          [format(at), limit]
        ).pipe(Effect.map(countOf), Effect.orDie),

      deleteEnded: (before, limit) =>
        run(
          `WITH ended AS (
            SELECT uuid FROM tasks WHERE completed_at <= $1::timestamptz
              AND NOT EXISTS (SELECT FROM webhook_deliveries WHERE task_uuid = uuid AND due_at IS NOT NULL)
            ORDER BY completed_at LIMIT $2::int FOR UPDATE SKIP LOCKED
          ), deliveries AS (
            DELETE FROM webhook_deliveries USING ended WHERE task_uuid = ended.uuid
          ), attempts AS (
            DELETE FROM webhook_attempts USING ended WHERE task_uuid = ended.uuid
          ), turns AS (
            DELETE FROM task_turns USING ended WHERE task_uuid = ended.uuid
          ), events AS (
            DELETE FROM task_events USING ended WHERE task_uuid = ended.uuid
          ), deleted AS (
            DELETE FROM tasks USING ended WHERE tasks.uuid = ended.uuid RETURNING 1
          ) SELECT count(*)::int AS count FROM deleted`,
          [format(before), limit]
        ).pipe(Effect.map(countOf), Effect.orDie),

      cancelInterrupted: Effect.fnUntraced(
        function*(sub, at) {
          const rows = yield* run(`SELECT ${headColumns} FROM tasks WHERE sub = $1 AND status = 'interrupted'`, [sub])
          const event = TaskEvent.cases.Canceled.make({ reason: null })
          const commits = yield* Effect.forEach(
            yield* decodeHeads(rows),
            ({ uuid }) => commit(uuid, event, at),
            { concurrency: Batcher.maxBatch }
          )
          return commits.flatMap((commit) => commit._tag === "Applied" ? [commit.head] : [])
        },
        Effect.orDie
      ),

      startAcceptanceClock: (uuid, runId, deadline) =>
        run(
          `UPDATE tasks SET acceptance_deadline_at = $3::timestamptz
          WHERE uuid = $1 AND run_id = $2 AND status = 'pending' AND acceptance_deadline_at IS NULL`,
          [uuid, runId, format(deadline)]
        ).pipe(Effect.asVoid, Effect.orDie),

      pendingRun: Effect.fnUntraced(
        function*(uuid) {
          const rows = yield* run(
            `SELECT sub, token_id, extract(epoch FROM token_issued_at)::float8 AS token_issued_at, run_id,
              ${micros("deadline_at")} AS deadline, request, user_token, core_state, tool_results
            FROM tasks JOIN task_requests ON task_uuid = uuid WHERE uuid = $1 AND status IN ('pending', 'processing')`,
            [uuid]
          )
          const [row] = yield* decodePendingRuns(rows)
          if (row === undefined) return Option.none()
          return Option.some({
            principal: { sub: row.sub, tokenId: row.token_id, issuedAt: row.token_issued_at },
            runId: row.run_id,
            deadline: row.deadline,
            request: row.request,
            userToken: row.user_token,
            resume: row.tool_results === null ? null : { state: row.core_state, results: row.tool_results }
          })
        },
        Effect.orDie
      ),

      live: Effect.fnUntraced(
        function*(after, limit, shards) {
          const rows = yield* run(
            `SELECT ${headColumns} FROM tasks WHERE ${isLive} AND ($1::uuid IS NULL OR uuid > $1::uuid)
              AND ($3::int[] IS NULL OR ${shardOf("uuid")} = ANY($3::int[]))
            ORDER BY uuid LIMIT $2::int`,
            [after ?? null, limit, shards === undefined ? null : `{${shards.join(",")}}`]
          )
          return yield* decodeHeads(rows)
        },
        Effect.orDie
      ),

      stats: statsOf("true"),
      liveStats: statsOf(isLive),

      overdue: Effect.fnUntraced(
        function*(at, limit) {
          const rows = yield* run(
            `SELECT ${headColumns} FROM tasks WHERE uuid IN (
              (SELECT uuid FROM tasks WHERE ${isLive} AND deadline_at <= $1::timestamptz LIMIT $2::int)
              UNION ALL
              (SELECT uuid FROM tasks WHERE status = 'pending' AND acceptance_deadline_at <= $1::timestamptz
                LIMIT $2::int)
            ) LIMIT $2::int`,
            [format(at), limit]
          )
          return yield* decodeHeads(rows)
        },
        Effect.orDie
      ),

      revoked: Effect.fnUntraced(
        function*(within, limit) {
          const seconds = within === undefined ? null : Duration.toSeconds(within)
          return yield* decodeHeads(yield* run(selectRevoked, [seconds, limit]))
        },
        Effect.orDie
      ),

      claimStops: Effect.fnUntraced(
        function*(at, lease, limit) {
          const rows = yield* run(
            `UPDATE core_stops SET attempts = attempts + 1, due_at = $2::timestamptz
            WHERE run_id IN (
              SELECT run_id FROM core_stops WHERE due_at <= $1::timestamptz
              ORDER BY due_at LIMIT $3::int FOR UPDATE SKIP LOCKED
            ) RETURNING run_id, task_uuid, reason, attempts`,
            [format(at), format(plus(at, lease)), limit]
          )
          const stops = yield* decodeStops(rows)
          return stops.map((stop) => ({
            runId: stop.run_id,
            taskId: stop.task_uuid,
            reason: stop.reason,
            attempt: stop.attempts
          }))
        },
        Effect.orDie
      ),

      recordStop: (runId) => run(`DELETE FROM core_stops WHERE run_id = $1`, [runId]).pipe(Effect.asVoid, Effect.orDie),

      postponeStop: (runId, until) =>
        run(`UPDATE core_stops SET due_at = $2::timestamptz WHERE run_id = $1`, [runId, format(until)]).pipe(
          Effect.asVoid,
          Effect.orDie
        )
    })
  })
)
