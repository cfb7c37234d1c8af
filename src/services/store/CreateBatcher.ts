/** Group commit for creates. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Schema } from "effect"
import * as Limits from "../../domain/Limits.ts"
import { isLarge } from "../../domain/OpaqueJson.ts"
import { TaskId } from "../../domain/Task.ts"
import { plus } from "../../domain/Timestamp.ts"
import * as Batcher from "./Batcher.ts"
import { encode, type LargeText, largeText, make as makeStatement, moment, seconds } from "./BatchStatement.ts"
import { make as makeQueries } from "./Queries.ts"
import type { IdempotencyClaim, NewTask } from "./TaskWrites.ts"

const Outcome = Schema.Struct({
  outcome: Schema.Literals(["created", "replayed", "key_reused", "too_many_active_tasks"]),
  taskId: TaskId
})

interface Insert {
  /** Characters. */
  readonly length: number
  readonly request: LargeText
  readonly task: NewTask
  readonly maxActive: number
  readonly claim: IdempotencyClaim | undefined
}

const { int4, text, uuid } = PgTypes.OID

/** The parameters are those of `create_task`, in its order. */
const statement = makeStatement<Insert, typeof Outcome>(
  Outcome,
  "create_task",
  `called.outcome, called.task_uuid AS "taskId"`,
  [
    { oid: uuid, of: ({ task }) => task.uuid },
    { oid: text, of: ({ task }) => task.principal.sub },
    { oid: uuid, of: ({ task }) => task.runId },
    { oid: text, of: ({ task }) => task.callbackUrl },
    { oid: int4, of: ({ task }) => task.maxExecutionTime },
    moment(({ task }) => task.createdAt),
    moment(({ task }) => task.deadline),
    moment(({ task }) => task.acceptanceDeadline),
    { oid: text, of: ({ task }) => task.principal.tokenId },
    seconds(({ task }) => task.principal.issuedAt),
    largeText(({ request }) => request),
    { oid: text, of: ({ task }) => task.userToken },
    { oid: text, of: ({ task }) => task.callbackSecret },
    { oid: int4, of: ({ maxActive }) => maxActive },
    { oid: text, of: ({ claim }) => claim?.key },
    { oid: text, of: ({ claim }) => claim?.fingerprint },
    moment(({ claim, task }) => claim === undefined ? null : plus(task.createdAt, Limits.idempotencyKeyTtl)),
    {
      oid: text,
      of: ({ task }) => task.metadata === null ? null : JSON.stringify(task.metadata),
      as: (bound) => `${bound}::jsonb`
    },
    { oid: text, of: ({ task }) => task.callbackFormat }
  ]
)

/** Returns a function that inserts one task as part of a batch and returns its outcome. */
export const make = Effect.gen(function*() {
  const { rows } = yield* makeQueries
  const insert = yield* Batcher.make({
    run: (inserts: ReadonlyArray<Insert>) => {
      const query = statement(inserts.some(isLarge))
      return rows(query, query.bind(inserts))
    },
    // `create_task` locks the user.
    lockOf: ({ task }) => task.principal.sub,
    laneOf: (insert) => isLarge(insert) ? "large" : "batch",
    lengthOf: ({ length }) => length
  })
  return Effect.fnUntraced(function*(task: NewTask, maxActive: number, claim?: IdempotencyClaim) {
    const { length } = task.request
    const request = yield* encode(task.request, isLarge({ length }))
    return yield* insert({ length, request, task, maxActive, claim })
  })
})
