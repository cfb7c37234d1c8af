/** Reads one task with its turn. Large turns are read a few at a time, fairly between users, because they take much memory. */
import { Effect, Option } from "effect"
import type { SqlError } from "effect/sql"
import type { TaskId } from "../../domain/Task.ts"
import * as FairPermits from "../limits/FairPermits.ts"
import { micros } from "./CommitStatement.ts"
import { summaryColumns } from "./ListStatement.ts"
import { decodeSizes, decodeTasks } from "./TaskRows.ts"

/** Bytes. A longer turn is large. */
const smallTurn = 64 * 1024

const permits = { total: 2, perHolder: 1 }

/** Binds the task, and the bytes of a turn above which it is left out, or null. */
const statement = `SELECT ${summaryColumns}, revision, run_id, ${micros("deadline_at")} AS deadline,
    ${micros("acceptance_deadline_at")} AS acceptance_deadline,
    coalesce(octet_length(turn) > $2::int, false) AS is_large,
    CASE WHEN $2::int IS NULL OR octet_length(turn) <= $2::int THEN turn END AS turn
  FROM tasks LEFT JOIN task_turns ON task_uuid = uuid WHERE uuid = $1`

type Run = (text: string, values: ReadonlyArray<unknown>) => Effect.Effect<ReadonlyArray<object>, SqlError.SqlError>

export const make = (run: Run) => {
  const reading = FairPermits.make(permits)

  const readLarge = Effect.fnUntraced(function*(uuid: TaskId, sub: string) {
    yield* reading.take(sub, 1)
    return yield* decodeTasks(yield* run(statement, [uuid, null]))
  }, Effect.scoped)

  return Effect.fnUntraced(function*(uuid: TaskId) {
    const rows = yield* run(statement, [uuid, smallTurn])
    const [task] = yield* decodeTasks(rows)
    const [size] = yield* decodeSizes(rows)
    const found = task !== undefined && size?.isLarge === true ? (yield* readLarge(uuid, task.sub))[0] : task
    return Option.fromNullishOr(found)
  }, Effect.orDie)
}
