/** Reads one task with its turn. Large turns are read a few at a time, fairly between users, because they take much memory. */
import { Effect, Option, Schema } from "effect"
import { OpaqueJson } from "../../domain/OpaqueJson.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { RunId, type TaskId } from "../../domain/Task.ts"
import { Timestamp } from "../../domain/Timestamp.ts"
import * as FairPermits from "../limits/FairPermits.ts"
import { summaryColumns, SummaryFields } from "./ListStatement.ts"
import { micros, type Query, query } from "./Queries.ts"

/** Bytes. A longer turn is large. */
const smallTurn = 64 * 1024

const permits = { total: 2, perHolder: 1 }

/** Binds the task, and the bytes of a turn above which it is left out, or null. */
const taskById = query(
  Schema.Struct({
    ...SummaryFields,
    turn: Schema.NullOr(OpaqueJson),
    revision: Schema.Int,
    runId: RunId,
    deadline: Timestamp,
    acceptanceDeadline: Schema.NullOr(Timestamp),
    isLarge: Schema.Boolean
  }),
  `SELECT ${summaryColumns}, revision, run_id AS "runId", ${micros("deadline_at")} AS deadline,
    ${micros("acceptance_deadline_at")} AS "acceptanceDeadline",
    coalesce(octet_length(turn) > $2::int, false) AS "isLarge",
    CASE WHEN $2::int IS NULL OR octet_length(turn) <= $2::int THEN turn END AS turn
  FROM tasks LEFT JOIN task_turns ON task_uuid = uuid WHERE uuid = $1`
)

type First = <Row>(
  query: Query<Row>,
  values: ReadonlyArray<unknown>
) => Effect.Effect<Option.Option<Row>, StoreUnavailable>

export const make = (first: First) => {
  const reading = FairPermits.make(permits)

  const readLarge = Effect.fnUntraced(function*(uuid: TaskId, sub: string) {
    yield* reading.take(sub, 1)
    return yield* first(taskById, [uuid, null])
  }, Effect.scoped)

  return Effect.fnUntraced(function*(uuid: TaskId) {
    const found = yield* first(taskById, [uuid, smallTurn])
    return Option.isSome(found) && found.value.isLarge ? yield* readLarge(uuid, found.value.sub) : found
  })
}
