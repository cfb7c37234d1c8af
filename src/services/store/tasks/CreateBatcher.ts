/** Group commit for creates. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Schema } from "effect"
import { isLarge } from "../../../domain/json/OpaqueJson.ts"
import * as Limits from "../../../domain/Limits.ts"
import { Room, TaskId } from "../../../domain/Task.ts"
import { plus } from "../../../domain/Timestamp.ts"
import * as Batcher from "../sql/Batcher.ts"
import { encode, type LargeText, largeText, make as makeStatement, moment } from "../sql/BatchStatement.ts"
import { make as makeQueries } from "../sql/Queries.ts"
import { given } from "./TaskColumns.ts"
import type { IdempotencyClaim, NewTask, QueueEntry } from "./TaskWrites.ts"

const Outcome = Schema.Struct({
  outcome: Schema.Literals(["created", "replayed", "key_reused", "too_many_active_tasks"]),
  taskId: TaskId,
  room: Schema.NullOr(Room),
  /** The user's limit of active tasks. */
  maximum: Schema.Int
})

interface Insert {
  /** Characters. */
  readonly length: number
  readonly request: LargeText
  readonly task: NewTask
  readonly maxActive: number
  readonly claim: IdempotencyClaim | undefined
  readonly entry: QueueEntry
}

const { bool, int4, text } = PgTypes.OID

const statement = makeStatement<Insert, typeof Outcome>(
  Outcome,
  "create_tasks",
  `called.outcome, called.task_uuid AS "taskId", called.room, called.maximum`,
  {
    ...Object.fromEntries(given.map(({ name, of, ...type }) => [name, { ...type, of: ({ task }) => of(task) }])),
    request: largeText(({ request }) => request),
    user_token: { oid: text, of: ({ task }) => task.userToken },
    callback_secret: { oid: text, of: ({ task }) => task.callbackSecret },
    metadata: {
      oid: text,
      of: ({ task }) => task.metadata === null ? null : JSON.stringify(task.metadata),
      as: (bound) => `${bound}::jsonb`
    },
    max_active: { oid: int4, of: ({ maxActive }) => maxActive },
    spared: { oid: int4, of: ({ task }) => task.sparedSlots },
    key: { oid: text, of: ({ claim }) => claim?.key },
    fingerprint: { oid: text, of: ({ claim }) => claim?.fingerprint },
    key_expires_at: moment(({ claim, task }) =>
      claim === undefined ? null : plus(task.createdAt, claim.keptFor ?? Limits.idempotencyKeyTtl)
    ),
    waits: { oid: bool, of: ({ entry }) => entry.waits },
    core_runs: { oid: int4, of: ({ entry }) => entry.limits.runs },
    assistant_runs: { oid: int4, of: ({ entry }) => entry.limits.runsPerAssistant }
  }
)

/** Returns a function that inserts one task as part of a batch and returns its outcome. */
export const make = Effect.gen(function*() {
  const { rows } = yield* makeQueries
  const insert = yield* Batcher.make({
    run: (inserts: ReadonlyArray<Insert>) => {
      const query = statement(inserts.some(isLarge))
      return rows(query, query.bind(inserts), query.longTexts(inserts))
    },
    // `create_tasks` locks the user, and counts once for rows of a user that follow one another.
    lockOf: ({ task }) => task.principal.sub,
    laneOf: (insert) => isLarge(insert) ? "large" : "batch",
    lengthOf: ({ length }) => length
  })
  return Effect.fnUntraced(function*(
    task: NewTask,
    maxActive: number,
    claim: IdempotencyClaim | undefined,
    entry: QueueEntry
  ) {
    const { length } = task.request
    const request = yield* encode(task.request, isLarge({ length }))
    return yield* insert({ length, request, task, maxActive, claim, entry })
  })
})
