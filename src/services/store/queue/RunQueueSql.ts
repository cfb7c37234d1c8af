/** The queue in Postgres. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Layer, Schema } from "effect"
import { type RunId, TaskHead, TaskId } from "../../../domain/Task.ts"
import { Timestamp } from "../../../domain/Timestamp.ts"
import { PendingWork } from "../PendingWork.ts"
import * as Batcher from "../sql/Batcher.ts"
import * as Batch from "../sql/BatchStatement.ts"
import { array, make as makeQueries, micros, moment, query } from "../sql/Queries.ts"
import { headColumnsOf, isDispatched } from "../tasks/TaskColumns.ts"
import { type AssistantLimit, type AssistantQueue, listedAssistants, maxPosition, RunQueue } from "./RunQueue.ts"

const AssistantRow = Schema.Struct({
  assistantId: Schema.Finite,
  runs: Schema.NullOr(Schema.Int),
  isPaused: Schema.Boolean,
  running: Schema.Int,
  waiting: Schema.Int,
  oldestWaitingSince: Schema.NullOr(Timestamp)
})

/** The queues of all assistants, or of one. */
const assistantsOf = (condition: string) =>
  `SELECT assistant_id::float8 AS "assistantId", runs, coalesce(is_paused, false) AS "isPaused",
    coalesce(running, 0)::int AS running, coalesce(waiting, 0)::int AS waiting, ${
    micros("since")
  } AS "oldestWaitingSince"
  FROM (SELECT assistant_id, count(*) AS running FROM tasks WHERE ${isDispatched} ${condition} GROUP BY assistant_id) AS held
  FULL JOIN (
    SELECT assistant_id, count(*) AS waiting, min(since) AS since FROM waiting_runs WHERE true ${condition} GROUP BY assistant_id
  ) AS waiting USING (assistant_id)
  FULL JOIN (SELECT * FROM assistant_limits WHERE true ${condition}) AS set USING (assistant_id)`

const readState = query(
  Schema.Struct({
    running: Schema.Int,
    waiting: Schema.Int,
    oldestWaitingSince: Schema.NullOr(Timestamp),
    assistants: Schema.Array(AssistantRow)
  }),
  `WITH assistants AS MATERIALIZED (${assistantsOf("")})
  SELECT coalesce(sum(running), 0)::int AS running, coalesce(sum(waiting), 0)::int AS waiting,
    min("oldestWaitingSince") AS "oldestWaitingSince", coalesce((
      SELECT json_agg(listed) FROM (
        SELECT * FROM assistants ORDER BY waiting DESC, running DESC, "assistantId" LIMIT ${listedAssistants}
      ) AS listed
    ), '[]') AS assistants
  FROM assistants`
)

const readAssistant = query(AssistantRow, assistantsOf("AND assistant_id = $1::float8::bigint"))

/** Counts in the order of the index, so that it reads no more than it counts. */
const before = (condition: string) =>
  `(SELECT count(*) FROM (
    SELECT FROM waiting_runs o WHERE ${condition} ORDER BY o.class, o.ticket, o.since, o.task_uuid LIMIT ${
    maxPosition - 1
  }
  ) AS found)`

export const positions = query(
  Schema.Struct({ uuid: TaskId, position: Schema.Int }),
  `SELECT task_uuid AS uuid, (1 + least(${before("o.class > w.class")} + ${
    before(
      "o.class >= w.class AND (o.class, o.ticket, o.since, o.task_uuid) < (w.class, w.ticket, w.since, w.task_uuid)"
    )
  }, ${maxPosition - 1}))::int AS position
  FROM waiting_runs w WHERE task_uuid = ANY ($1::uuid[])`
)

/** Runs of the assistant that began before it had a limit count from now on. */
const setAssistant = `WITH changed AS (
    INSERT INTO assistant_limits AS l (assistant_id, runs, is_paused)
    VALUES ($1::float8::bigint, CASE WHEN $2 THEN $3::int END, coalesce($4, false))
    ON CONFLICT (assistant_id) DO UPDATE SET
      runs = CASE WHEN $2 THEN $3::int ELSE l.runs END, is_paused = coalesce($4, l.is_paused)
  )
  UPDATE tasks SET room = 'held', queue_revision = queue_revision + 1
  WHERE ${isDispatched} AND room IS NULL AND assistant_id = $1::float8::bigint`

const count = `UPDATE tasks SET room = 'held', queue_revision = queue_revision + 1
  WHERE uuid = ANY ($1::uuid[]) AND ${isDispatched} AND room IS NULL`

const Head = Schema.Union([Schema.Struct({ uuid: Schema.Null }), TaskHead])
const shared = {
  outcome: Schema.Literals(["busy", "empty", "full", "more"]),
  floor: Schema.Array(Schema.Finite),
  servedAt: Schema.Array(Timestamp)
}
const admit = query(
  Schema.Union([Schema.Struct({ ...shared, uuid: Schema.Null }), Schema.Struct({ ...shared, ...TaskHead.fields })]),
  `SELECT outcome, floor::float8[] AS floor, ARRAY(
      SELECT ${micros("at")} FROM unnest(served_at) WITH ORDINALITY AS served (at, n) ORDER BY n
    ) AS "servedAt", ${headColumnsOf("(called.head)")}
  FROM admit_runs(
    p_at => ${moment("@at")}, p_most => @most, p_core_runs => @coreRuns, p_assistant_runs => @assistantRuns,
    p_shards => @shards::int[], p_floor => @floor::float8[]::bigint[], p_served_at => ARRAY(
      SELECT ${moment("at")} FROM unnest(@servedAt::float8[]) WITH ORDINALITY AS served (at, n) ORDER BY n
    )
  ) AS called`
)

interface Refused {
  readonly uuid: TaskId
  readonly runId: RunId
  readonly sub: string
  readonly at: Timestamp
}

const { float8, int4, uuid } = PgTypes.OID

const putBack = Batch.make<Refused, typeof Head>(Head, "put_back_runs", headColumnsOf("called"), {
  uuid: Batch.uuid(({ uuid }) => uuid),
  run_id: Batch.uuid(({ runId }) => runId),
  sub: Batch.text(({ sub }) => sub),
  at: Batch.moment(({ at }) => at)
})(false)

export const layer = Layer.effect(
  RunQueue,
  Effect.gen(function*() {
    const { execute, rows } = yield* makeQueries
    const pendingWork = yield* PendingWork
    pendingWork.add("queue", () => ["FROM waiting_runs"])
    const put = yield* Batcher.make({
      run: (refused: ReadonlyArray<Refused>) =>
        Effect.map(
          rows(putBack, putBack.bind(refused)),
          (heads) => heads.map((head) => head.uuid === null ? undefined : head)
        ),
      // The statement locks the users.
      lockOf: ({ sub }) => sub
    })
    const nothing = { running: 0, waiting: 0, oldestWaitingSince: null, assistants: [] }

    return RunQueue.of({
      read: Effect.map(rows(readState, []), ([state]) => state ?? nothing),
      positions: (uuids) =>
        uuids.length === 0 ? Effect.succeed(new Map()) : Effect.map(
          rows(positions, [array(uuids, uuid)]),
          (found) => new Map(found.map(({ position, uuid }) => [uuid, position]))
        ),
      setAssistant: Effect.fnUntraced(function*(assistantId: number, { isPaused, runs }: Partial<AssistantLimit>) {
        yield* execute(setAssistant, [assistantId, runs !== undefined, runs ?? null, isPaused ?? null])
        const [found] = yield* rows(readAssistant, [assistantId])
        return found as AssistantQueue
      }),
      admit: ({ at, floor, limits, most, servedAt, shards }) =>
        Effect.map(
          rows(admit, {
            at,
            most,
            coreRuns: limits.runs,
            assistantRuns: limits.runsPerAssistant,
            shards: shards === undefined ? null : array(shards, int4),
            floor: array(floor, float8),
            servedAt: array(servedAt, float8)
          }),
          (found) => ({
            outcome: found[0]!.outcome,
            floor: found[0]!.floor,
            servedAt: found[0]!.servedAt,
            heads: found.flatMap((row) => row.uuid === null ? [] : [row])
          })
        ),
      putBack: (uuid, runId, sub, at) => put({ uuid, runId, sub, at }),
      count: (uuids) => uuids.length === 0 ? Effect.void : execute(count, [array(uuids, uuid)])
    })
  })
)
