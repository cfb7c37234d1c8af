/** Changes of tasks in Postgres. Guards in the statements enforce the rules; see `CommitStatement` and `CreateBatcher`. */
import { Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import * as Limits from "../../domain/Limits.ts"
import { isTerminal, sourcesOf, type TaskEvent, type TaskHead, type TaskId } from "../../domain/Task.ts"
import { changeOf } from "../../domain/TaskChange.ts"
import { IdempotencyKeyReused, TooManyActiveTasks } from "../../domain/TaskErrors.ts"
import { plus, type Timestamp } from "../../domain/Timestamp.ts"
import * as Utf8 from "../limits/Utf8.ts"
import { type Bindings, cancelInterrupted, commitStatement, currentState } from "./CommitStatement.ts"
import * as CreateBatcher from "./CreateBatcher.ts"
import { failWhenUnavailable, make as makeQueries, moment } from "./Queries.ts"
import { TaskNotifications } from "./TaskNotifications.ts"
import { type Commit, type Fence, type IdempotencyClaim, type NewTask, TaskWrites } from "./TaskWrites.ts"
import { WebhooksPending } from "./WebhooksPending.ts"

const startAcceptanceClock = `UPDATE tasks SET acceptance_deadline_at = ${moment("$3")}
  WHERE uuid = $1 AND run_id = $2 AND status = 'pending' AND acceptance_deadline_at IS NULL`

/** A large text is encoded in several turns of the event loop. */
const bindingsOf = Effect.fnUntraced(
  function*(event: TaskEvent, at: Timestamp, claim: IdempotencyClaim | undefined): Effect.fn.Return<Bindings> {
    const { coreState, error, pendingToolCalls, run, turn } = changeOf(event)
    return {
      at,
      error,
      pendingToolCalls: pendingToolCalls === null ? null : JSON.stringify(pendingToolCalls),
      turn: yield* Utf8.encodeNullish(turn),
      coreState: yield* Utf8.encodeNullish(coreState),
      newRunId: run?.runId,
      toolResults: yield* Utf8.encodeNullish(run?.results),
      userToken: run?.userToken,
      tokenId: run?.principal.tokenId,
      tokenIssuedAt: run?.principal.issuedAt,
      key: claim?.key,
      fingerprint: claim?.fingerprint,
      keyExpiresAt: plus(at, Limits.idempotencyKeyTtl)
    }
  }
)

interface Present {
  readonly head: TaskHead
  readonly repeated: boolean
  readonly revoked: boolean
}

/** Why a commit changed nothing. */
const refusalOf = (event: TaskEvent, { head, repeated, revoked }: Present, fence: Fence | undefined) => {
  if (repeated) return "NoEffect"
  if (isTerminal(head.status) || (fence !== undefined && fence.runId !== head.runId)) return "Superseded"
  return revoked && sourcesOf(event._tag).includes(head.status) ? "Revoked" : "NoEffect"
}

const isRepeatedEvent = (error: SqlError.SqlError) => error.reason._tag === "UniqueViolation"

export const layer = Layer.effect(
  TaskWrites,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const { execute, rows } = yield* makeQueries
    const { publish } = yield* TaskNotifications
    const webhooksPending = yield* WebhooksPending
    const insert = yield* CreateBatcher.make

    const announce = (uuid: TaskId, sendsWebhook: boolean) => {
      if (sendsWebhook) webhooksPending.openUnsafe()
      return publish(uuid)
    }

    return TaskWrites.of({
      create: Effect.fnUntraced(function*(task: NewTask, maxActive: number, claim?: IdempotencyClaim) {
        const { outcome, taskId } = yield* insert({ task, maxActive, claim })
        if (outcome === "too_many_active_tasks") return yield* new TooManyActiveTasks({ maximum: maxActive })
        if (outcome === "key_reused") return yield* new IdempotencyKeyReused({})
        return { taskId, isReplay: outcome === "replayed" }
      }),

      commit: Effect.fnUntraced(function*(uuid, event, at, fence, claim) {
        const key = { uuid, runId: fence?.runId, coreEventId: fence?.coreEventId }
        const { bind, decode, text } = commitStatement(event._tag)
        const moved = yield* sql.unsafe<object>(text, bind({ ...key, ...(yield* bindingsOf(event, at, claim)) })).pipe(
          Effect.catchIf(isRepeatedEvent, () => Effect.succeed([])),
          failWhenUnavailable
        )
        const [applied] = decode(moved)
        if (applied !== undefined) {
          const { sendsWebhook, ...head } = applied
          yield* announce(uuid, sendsWebhook)
          return { _tag: "Applied", head } satisfies Commit
        }
        const [present] = yield* rows(currentState, currentState.bind(key))
        if (present === undefined) return { _tag: "Unknown" } satisfies Commit
        const { repeated, revoked, ...head } = present
        return { _tag: refusalOf(event, { head, repeated, revoked }, fence), head } satisfies Commit
      }),

      cancelInterrupted: Effect.fnUntraced(function*(sub, at) {
        const moved = yield* rows(cancelInterrupted, cancelInterrupted.bind({ sub, at }))
        yield* Effect.forEach(moved, ({ sendsWebhook, uuid }) => announce(uuid, sendsWebhook), { discard: true })
        return moved
      }),

      startAcceptanceClock: (uuid, runId, deadline) => execute(startAcceptanceClock, [uuid, runId, deadline])
    })
  })
)
