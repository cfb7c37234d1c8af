/** Group commit for creates. */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import * as Limits from "../../domain/Limits.ts"
import type { TaskId } from "../../domain/Task.ts"
import { plus } from "../../domain/Timestamp.ts"
import * as Batcher from "./Batcher.ts"
import {
  encode,
  isLarge,
  type LargeText,
  largeText,
  make as makeStatement,
  seconds,
  timestamp
} from "./BatchStatement.ts"
import type { IdempotencyClaim, NewTask } from "./TaskRepository.ts"

interface Outcome {
  readonly outcome: "created" | "replayed" | "key_reused" | "too_many_active_tasks"
  readonly task_uuid: TaskId
}

interface Insert {
  readonly isAlone: boolean
  readonly request: LargeText
  readonly task: NewTask
  readonly maxActive: number
  readonly claim: IdempotencyClaim | undefined
}

const { int4, text, uuid } = PgTypes.OID

/** The parameters are those of `create_task`, in its order. */
const statement = makeStatement<Insert>("create_task", "called.*", [
  { oid: uuid, of: ({ task }) => task.uuid },
  { oid: text, of: ({ task }) => task.principal.sub },
  { oid: uuid, of: ({ task }) => task.runId },
  { oid: text, of: ({ task }) => task.callbackUrl },
  { oid: int4, of: ({ task }) => task.maxExecutionTime },
  timestamp(({ task }) => task.createdAt),
  timestamp(({ task }) => task.deadline),
  timestamp(({ task }) => task.acceptanceDeadline),
  { oid: text, of: ({ task }) => task.principal.tokenId },
  seconds(({ task }) => task.principal.issuedAt),
  largeText(({ request }) => request),
  { oid: text, of: ({ task }) => task.userToken },
  { oid: text, of: ({ task }) => task.callbackSecret },
  { oid: int4, of: ({ maxActive }) => maxActive },
  { oid: text, of: ({ claim }) => claim?.key ?? null },
  { oid: text, of: ({ claim }) => claim?.fingerprint ?? null },
  timestamp(({ claim, task }) => claim === undefined ? null : plus(task.createdAt, Limits.idempotencyKeyTtl))
])

/** Returns a function that inserts one task as part of a batch and returns its outcome. */
export const make = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const insert = yield* Batcher.make({
    run: (inserts: ReadonlyArray<Insert>) => {
      const { bind, text } = statement(inserts.some(({ isAlone }) => isAlone))
      return sql.unsafe<Outcome>(text, bind(inserts))
    },
    // `create_task` locks the user.
    lockOf: ({ task }) => task.principal.sub,
    isAlone: ({ isAlone }) => isAlone
  })
  return Effect.fnUntraced(
    function*(
      task: NewTask,
      maxActive: number,
      claim?: IdempotencyClaim
    ): Effect.fn.Return<Outcome, SqlError.SqlError> {
      const isAlone = isLarge([task.request])
      return yield* insert({ isAlone, request: yield* encode(task.request, isAlone), task, maxActive, claim })
    }
  )
})
