/**
 * Group commit for creates: concurrent creates share one statement, and so one round trip and one WAL flush. A single create is sent immediately.
 */
import { PgTypes } from "@effect/sql-pg"
import { type Cause, Effect, Exit, identity, Queue, Result, Schema } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import * as Limits from "../../domain/Limits.ts"
import { TaskId } from "../../domain/Task.ts"
import { plus } from "../../domain/Timestamp.ts"
import * as Utf8 from "../limits/Utf8.ts"
import { failWhenUnavailable, moment, query } from "./Queries.ts"
import type { IdempotencyClaim, NewTask } from "./TaskWrites.ts"

/** Statements in flight: one is planned and flushed while the next batch gathers. */
const concurrency = 2

const maxBatch = 64

/** Characters. A larger request gets its own statement, so that batches stay small. */
const largeRequest = 65_536

const Outcome = Schema.Struct({
  outcome: Schema.Literals(["created", "replayed", "key_reused", "too_many_active_tasks"]),
  taskId: TaskId
})
type Outcome = typeof Outcome.Type

interface Insert {
  /** `task.request` as UTF-8; null when it is small. */
  readonly bytes: Uint8Array | null
  readonly task: NewTask
  readonly maxActive: number
  readonly claim: IdempotencyClaim | undefined
}

interface Waiting extends Insert {
  readonly answer: (outcome: Effect.Effect<Outcome, SqlError.SqlError>) => void
}

const { bytea, float8, int4, text, uuid } = PgTypes.OID

interface Parameter {
  readonly oid: number
  readonly of: (insert: Insert) => string | number | Uint8Array | null
  /** The SQL that converts the bound value to the argument. */
  readonly as?: (bound: string) => string
}

const requestAsText: Parameter = { oid: text, of: ({ task }) => task.request }

/** The parameters of `create_task`, in its order. */
const parameters: ReadonlyArray<Parameter> = [
  { oid: uuid, of: ({ task }) => task.uuid },
  { oid: text, of: ({ task }) => task.principal.sub },
  { oid: uuid, of: ({ task }) => task.runId },
  { oid: text, of: ({ task }) => task.callbackUrl },
  { oid: int4, of: ({ task }) => task.maxExecutionTime },
  { oid: float8, of: ({ task }) => task.createdAt, as: moment },
  { oid: float8, of: ({ task }) => task.deadline, as: moment },
  { oid: float8, of: ({ task }) => task.acceptanceDeadline, as: moment },
  { oid: text, of: ({ task }) => task.principal.tokenId },
  { oid: float8, of: ({ task }) => task.principal.issuedAt, as: (seconds) => `to_timestamp(${seconds})` },
  { oid: bytea, of: ({ bytes }) => bytes, as: (bound) => `convert_from(${bound}, 'UTF8')` },
  { oid: text, of: ({ task }) => task.userToken },
  { oid: text, of: ({ task }) => task.callbackSecret },
  { oid: int4, of: ({ maxActive }) => maxActive },
  { oid: text, of: ({ claim }) => claim?.key ?? null },
  { oid: text, of: ({ claim }) => claim?.fingerprint ?? null },
  {
    oid: float8,
    of: ({ claim, task }) => claim === undefined ? null : plus(task.createdAt, Limits.idempotencyKeyTtl),
    as: moment
  }
]

/** The statement with the request bound as text or as bytes, and its values. */
const makeStatement = (isBytes: boolean) => {
  const all = parameters.map((parameter, index) => ({
    ...(parameter.oid === bytea && !isBytes ? requestAsText : parameter),
    name: `p${index}`
  }))
  // The large parameter is bound last: the driver copies its buffer when it grows for a later one.
  const bound = all.toSorted((one, other) => Number(one.oid === bytea) - Number(other.oid === bytea))
  return {
    ...query(
      Outcome,
      `SELECT created.outcome, created.task_uuid AS "taskId"
  FROM unnest(${bound.map((_, index) => `$${index + 1}`).join(", ")}) AS insert (${
        bound.map(({ name }) => name).join(", ")
      }),
  create_task(${all.map(({ as = identity, name }) => as(name)).join(", ")}) AS created`
    ),
    bind: (inserts: ReadonlyArray<Insert>) =>
      bound.map(({ of, oid }) => Result.getOrThrow(PgTypes.array(inserts.map(of), oid)))
  }
}

const ofTexts = makeStatement(false)
/** Postgres needs half as much again for a request that it decodes; the driver needs less for one that is encoded already. */
const ofBytes = makeStatement(true)

/**
 * A fault of the store fails every row of the batch. Any other fault is caused by one row: each row is retried alone.
 */
const isFaultOfStore = (cause: Cause.Cause<SqlError.SqlError>) =>
  cause.reasons.every((reason) => reason._tag === "Fail" && reason.error.isRetryable)

const isLarge = ({ bytes }: Insert) => bytes !== null

/** All statements lock users in the same order, which prevents deadlocks. */
const bySub = (one: Insert, other: Insert) => one.task.principal.sub < other.task.principal.sub ? -1 : 1

/** Returns a function that inserts one task as part of a batch and returns its outcome. */
export const make = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const waiting = yield* Queue.unbounded<Waiting>()

  const run = Effect.fnUntraced(function*(inserts: ReadonlyArray<Waiting>): Effect.fn.Return<void> {
    const statement = inserts.some(isLarge) ? ofBytes : ofTexts
    const exit = yield* Effect.exit(
      Effect.map(Effect.suspend(() => sql.unsafe(statement.text, statement.bind(inserts))), statement.decode)
    )
    if (Exit.isSuccess(exit)) {
      inserts.forEach(({ answer }, index) => answer(Effect.succeed(exit.value[index]!)))
    } else if (inserts.length === 1 || isFaultOfStore(exit.cause)) {
      for (const { answer } of inserts) answer(Effect.failCause(exit.cause))
    } else {
      yield* Effect.forEach(inserts, (insert) => run([insert]), { discard: true })
    }
  })

  const gather = Effect.fnUntraced(function*() {
    const gathered = yield* Queue.takeBetween(waiting, 1, maxBatch)
    const small = gathered.filter((insert) => !isLarge(insert))
    if (small.length > 0) yield* run(small.toSorted(bySub))
    yield* Effect.forEach(gathered.filter(isLarge), (insert) => run([insert]), { discard: true })
  })
  yield* Effect.replicateEffect(Effect.forkScoped(Effect.forever(gather())), concurrency)

  return Effect.fnUntraced(function*(insert: Omit<Insert, "bytes">) {
    const { request } = insert.task
    const bytes = request.length > largeRequest ? yield* Utf8.encode(request) : null
    return yield* failWhenUnavailable(
      Effect.callback<Outcome, SqlError.SqlError>((resume) => {
        Queue.offerUnsafe(waiting, { ...insert, bytes, answer: resume })
      })
    )
  })
})
