/** Reads of single tasks that share a statement. Every statement reads the rows again, so that no answer is older than its request. */
import { Effect, Option, type Schema, Struct } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Task, TaskHead, TaskId } from "../../domain/Task.ts"
import * as Batcher from "./Batcher.ts"
import { summaryColumns } from "./ListStatement.ts"
import { headColumns, micros } from "./TaskColumns.ts"
import { decodeHeads, decodeTasks } from "./TaskRows.ts"

/** Bytes. A task with a larger turn is read alone, so that a batch stays small. */
const largeTurn = 65_536
/** Bytes, more than a turn can have. */
const anyTurn = 2 ** 31 - 1

/** `LIMIT 1` makes the planner look up each id in the index, whatever it knows about the tables. */
const select = (columns: string, tables: string) =>
  `SELECT found.* FROM unnest($1::uuid[]) AS wanted (id)
  CROSS JOIN LATERAL (SELECT ${columns} FROM ${tables} WHERE uuid = wanted.id LIMIT 1) AS found`

const selectHeads = select(headColumns, "tasks")

/** Binds the largest turn that it returns. */
const selectTasks = select(
  `${summaryColumns}, revision, run_id, ${micros("deadline_at")} AS deadline,
    ${micros("acceptance_deadline_at")} AS acceptance_deadline,
    CASE WHEN octet_length(turn) <= $2::int THEN turn END AS turn,
    coalesce(octet_length(turn) > $2::int, false) AS has_large_turn`,
  "tasks LEFT JOIN task_turns ON task_uuid = uuid"
)

type Fault = SqlError.SqlError | Schema.SchemaError

interface Read {
  readonly uuid: TaskId
}

const makeRead = <Row extends Read>(
  select: (uuids: ReadonlyArray<TaskId>) => Effect.Effect<ReadonlyArray<Row>, Fault>
) =>
  Effect.map(
    Batcher.make({
      run: (reads: ReadonlyArray<Read>) =>
        Effect.map(select([...new Set(reads.map(({ uuid }) => uuid))]), (rows) => {
          const found = new Map<string, Row>(rows.map((row) => [row.uuid, row]))
          // The database writes ids in lower case.
          return reads.map(({ uuid }) => Option.fromNullishOr(found.get(uuid.toLowerCase())))
        })
    }),
    (read) => (uuid: TaskId) => read({ uuid })
  )

export const make = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const readTasks = (uuids: ReadonlyArray<TaskId>, maxTurn: number) =>
    Effect.flatMap(sql.unsafe<object>(selectTasks, [uuids, maxTurn]), decodeTasks)
  const getSmall = yield* makeRead((uuids) => readTasks(uuids, largeTurn))

  const get = Effect.fnUntraced(function*(uuid: TaskId): Effect.fn.Return<Option.Option<Task>, Fault> {
    let found = yield* getSmall(uuid)
    if (Option.isSome(found) && found.value.hasLargeTurn) {
      found = Option.fromNullishOr((yield* readTasks([uuid], anyTurn))[0])
    }
    return Option.map(found, Struct.omit(["hasLargeTurn"]))
  })

  const head: (uuid: TaskId) => Effect.Effect<Option.Option<TaskHead>, Fault> = yield* makeRead((uuids) =>
    Effect.flatMap(sql.unsafe<object>(selectHeads, [uuids]), decodeHeads)
  )
  return { get, head }
})
