/**
 * Group commit for events of tasks. `commit_task` locks and checks each row, and then writes the event, the turn and the outbox
 * rows (webhook, stop). The rules of `domain/Task` are passed to it as parameters.
 */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Schema } from "effect"
import * as Limits from "../../domain/Limits.ts"
import { isLarge } from "../../domain/OpaqueJson.ts"
import { needsValidToken, sourcesOf, targetOf, type TaskEvent, TaskHead, type TaskId } from "../../domain/Task.ts"
import { changeOf, type TaskChange } from "../../domain/TaskChange.ts"
import { plus, type Timestamp } from "../../domain/Timestamp.ts"
import { sendsWebhook } from "../../domain/Webhook.ts"
import * as Batcher from "./Batcher.ts"
import {
  encode,
  type LargeText,
  largeText,
  lengthOf,
  make as makeStatement,
  moment,
  seconds
} from "./BatchStatement.ts"
import { make as makeQueries } from "./Queries.ts"
import { headColumnsOf } from "./TaskColumns.ts"
import { TaskNotifications } from "./TaskNotifications.ts"
import type { Commit, Fence, IdempotencyClaim, TaskWrites } from "./TaskWrites.ts"
import { WebhooksPending } from "./WebhooksPending.ts"

interface Event {
  readonly uuid: TaskId
  readonly event: TaskEvent
  readonly change: TaskChange
  readonly at: Timestamp
  readonly fence: Fence | undefined
  readonly claim: IdempotencyClaim | undefined
  /** Characters. */
  readonly length: number
  readonly pendingToolCalls: LargeText
  readonly turn: LargeText
  readonly coreState: LargeText
  readonly toolResults: LargeText
}

const { bool, text, uuid } = PgTypes.OID

const Outcome = Schema.Union([
  Schema.Struct({ outcome: Schema.Literal("Unknown") }),
  Schema.Struct({
    ...TaskHead.fields,
    outcome: Schema.Literals(["Applied", "NoEffect", "Superseded", "Revoked"]),
    hasCallback: Schema.Boolean,
    recordedAcceptance: Schema.Boolean
  })
])

/** The event that may be recorded together with the next one, before it. */
const first = "Accepted"

/** The parameters are those of `commit_task`, in its order. */
const statement = makeStatement<Event, typeof Outcome>(
  Outcome,
  "commit_task",
  `called.outcome, called.has_first AS "recordedAcceptance", (called.head).callback_url IS NOT NULL AS "hasCallback", ${
    headColumnsOf("(called.head)")
  }`,
  [
    { oid: uuid, of: ({ uuid }) => uuid },
    { oid: uuid, of: ({ fence }) => fence?.runId },
    { oid: text, of: ({ fence }) => fence?.coreEventId },
    moment(({ at }) => at),
    { oid: text, of: ({ event }) => event._tag },
    { oid: text, of: ({ event }) => `{${sourcesOf(event._tag).join()}}`, as: (bound) => `${bound}::text[]` },
    { oid: text, of: ({ change }) => change.status },
    { oid: bool, of: ({ change }) => change.isTerminal },
    { oid: bool, of: ({ event, fence }) => needsValidToken(event._tag) || fence?.recordsAcceptance === true },
    { oid: bool, of: ({ change }) => sendsWebhook(change.status) },
    { oid: text, of: ({ change }) => change.stopReason },
    { oid: text, of: ({ change }) => change.error },
    largeText(({ pendingToolCalls }) => pendingToolCalls),
    largeText(({ turn }) => turn),
    largeText(({ coreState }) => coreState),
    { oid: uuid, of: ({ change }) => change.run?.runId },
    largeText(({ toolResults }) => toolResults),
    { oid: text, of: ({ change }) => change.run?.userToken },
    { oid: text, of: ({ change }) => change.run?.principal.tokenId },
    seconds(({ change }) => change.run?.principal.issuedAt),
    { oid: text, of: ({ claim }) => claim?.key },
    { oid: text, of: ({ claim }) => claim?.fingerprint },
    moment(({ at, claim }) => claim === undefined ? null : plus(at, Limits.idempotencyKeyTtl)),
    {
      oid: bool,
      of: ({ fence }) => fence?.recordsAcceptance === true,
      as: (bound) => `CASE WHEN ${bound} THEN '${first}' END, '{${sourcesOf(first).join()}}', '${targetOf(first)}'`
    }
  ]
)

/** Ids of tasks are not case-sensitive. */
const lockOf = ({ uuid }: Event) => uuid.toLowerCase()

/** Returns a function that commits one event as part of a batch, and publishes it if it applies. */
export const make = Effect.gen(function*() {
  const { rows } = yield* makeQueries
  const { publish } = yield* TaskNotifications
  const webhooksPending = yield* WebhooksPending

  const run = Effect.fnUntraced(function*(events: ReadonlyArray<Event>) {
    const query = statement(events.some(isLarge))
    const outcomes = yield* rows(query, query.bind(events))
    return yield* Effect.forEach(outcomes, (row): Effect.Effect<Commit> => {
      if (row.outcome === "Unknown") return Effect.succeed({ _tag: "Unknown" })
      const { hasCallback, outcome, recordedAcceptance, ...head } = row
      if (outcome !== "Applied") return Effect.succeed({ _tag: outcome, head })
      if (hasCallback && sendsWebhook(head.status)) webhooksPending.openUnsafe()
      return Effect.as(publish(head.uuid, head), { _tag: outcome, head, recordedAcceptance })
    })
  })

  const commit = yield* Batcher.make({
    run,
    keyOf: lockOf,
    lockOf,
    // An idempotency key is a second lock, whose order is not that of the tasks. A statement with one row cannot deadlock, since it takes the key's lock after the task's.
    laneOf: (event) => isLarge(event) ? "large" : event.claim === undefined ? "batch" : "single",
    lengthOf: ({ length }) => length
  })

  return Effect.fnUntraced(function*(...[uuid, event, at, fence, claim]: Parameters<TaskWrites["Service"]["commit"]>) {
    const change = changeOf(event)
    const { coreState, error, run, turn } = change
    const pendingToolCalls = change.pendingToolCalls === null ? null : JSON.stringify(change.pendingToolCalls)
    const length = lengthOf([turn, coreState, pendingToolCalls, error, run?.results])
    const isLargeEvent = isLarge({ length })
    return yield* commit({
      uuid,
      event,
      change,
      at,
      fence,
      claim,
      length,
      pendingToolCalls: yield* encode(pendingToolCalls, isLargeEvent),
      turn: yield* encode(turn, isLargeEvent),
      coreState: yield* encode(coreState, isLargeEvent),
      toolResults: yield* encode(run?.results, isLargeEvent)
    })
  })
})
