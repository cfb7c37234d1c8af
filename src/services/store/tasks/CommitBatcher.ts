/**
 * Group commit for events of tasks. `commit_tasks` locks and checks all rows, and then writes the events, the turns and the outbox
 * rows (webhook, stop). The rules of `domain/Task` are passed to it as parameters.
 */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Schema } from "effect"
import { isLarge } from "../../../domain/json/OpaqueJson.ts"
import * as Limits from "../../../domain/Limits.ts"
import { needsValidToken, sourcesOf, targetOf, type TaskEvent, TaskHead, type TaskId } from "../../../domain/Task.ts"
import { changeOf, type TaskChange } from "../../../domain/TaskChange.ts"
import { plus, type Timestamp } from "../../../domain/Timestamp.ts"
import { sendsWebhook } from "../../../domain/Webhook.ts"
import { Changes } from "../../signals/Changes.ts"
import { BooksUsage } from "../BooksUsage.ts"
import * as Batcher from "../sql/Batcher.ts"
import {
  encode,
  type LargeText,
  largeText,
  lengthOf,
  make as makeStatement,
  moment,
  seconds
} from "../sql/BatchStatement.ts"
import { make as makeQueries } from "../sql/Queries.ts"
import { headColumnsOf } from "./TaskColumns.ts"
import type { Commit, Fence, IdempotencyClaim, TaskWrites } from "./TaskWrites.ts"

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

const recordsFirst = ({ fence }: Event) => fence?.recordsAcceptance === true

const array = (values: ReadonlyArray<string>) => `{${values.join()}}`

const tokensOf = ({ usage }: TaskChange) => {
  if (usage === null || usage.tokens === null) return null
  const { cached, input, output, reasoning, total } = usage.tokens
  return `{${input},${output},${total},${cached},${reasoning}}`
}

const makeCommit = (booksUsage: boolean) =>
  makeStatement<Event, typeof Outcome>(
    Outcome,
    "commit_tasks",
    `called.outcome, called.has_first AS "recordedAcceptance", (called.head).callback_url IS NOT NULL AS "hasCallback", ${
      headColumnsOf("(called.head)")
    }`,
    {
      uuid: { oid: uuid, of: ({ uuid }) => uuid },
      run_id: { oid: uuid, of: ({ fence }) => fence?.runId },
      core_event_id: { oid: text, of: ({ fence }) => fence?.coreEventId },
      at: moment(({ at }) => at),
      type: { oid: text, of: ({ event }) => event._tag },
      sources: { oid: text, of: ({ event }) => array(sourcesOf(event._tag)) },
      target: { oid: text, of: ({ change }) => change.status },
      is_terminal: { oid: bool, of: ({ change }) => change.isTerminal },
      needs_token: { oid: bool, of: (event) => needsValidToken(event.event._tag) || recordsFirst(event) },
      sends_webhook: { oid: bool, of: ({ change }) => sendsWebhook(change.status) },
      stop_reason: { oid: text, of: ({ change }) => change.stopReason },
      error: { oid: text, of: ({ change }) => change.error },
      pending_tool_calls: largeText(({ pendingToolCalls }) => pendingToolCalls),
      turn: largeText(({ turn }) => turn),
      core_state: largeText(({ coreState }) => coreState),
      new_run_id: { oid: uuid, of: ({ change }) => change.run?.runId },
      tool_results: largeText(({ toolResults }) => toolResults),
      user_token: { oid: text, of: ({ change }) => change.run?.userToken },
      token_id: { oid: text, of: ({ change }) => change.run?.principal.tokenId },
      token_issued_at: seconds(({ change }) => change.run?.principal.issuedAt),
      key: { oid: text, of: ({ claim }) => claim?.key },
      fingerprint: { oid: text, of: ({ claim }) => claim?.fingerprint },
      key_expires_at: moment(({ at, claim }) => claim === undefined ? null : plus(at, Limits.idempotencyKeyTtl)),
      first_type: { oid: text, of: (event) => recordsFirst(event) ? first : null },
      first_sources: { oid: text, of: (event) => recordsFirst(event) ? array(sourcesOf(first)) : null },
      first_target: { oid: text, of: (event) => recordsFirst(event) ? targetOf(first) : null },
      model: { oid: text, of: ({ change }) => change.usage?.model },
      tokens: { oid: text, of: ({ change }) => tokensOf(change) },
      books_usage: { oid: bool, of: () => booksUsage }
    }
  )

/** Ids of tasks are not case-sensitive. */
const lockOf = ({ uuid }: Event) => uuid.toLowerCase()

/** Returns a function that commits one event as part of a batch, and publishes it if it applies. */
export const make = Effect.gen(function*() {
  const { rows } = yield* makeQueries
  const { publish, webhooks } = yield* Changes
  const statement = makeCommit(yield* BooksUsage)

  const run = Effect.fnUntraced(function*(events: ReadonlyArray<Event>) {
    const query = statement(events.some(isLarge))
    const outcomes = yield* rows(query, query.bind(events), query.longTexts(events))
    return yield* Effect.forEach(outcomes, (row, index): Effect.Effect<Commit> => {
      if (row.outcome === "Unknown") return Effect.succeed({ _tag: "Unknown" })
      const { hasCallback, outcome, recordedAcceptance, ...head } = row
      if (outcome !== "Applied") return Effect.succeed({ _tag: outcome, head })
      if (hasCallback && sendsWebhook(head.status)) webhooks.due(events[index]!.at)
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
    const { coreState, error, pendingToolCalls, run, turn } = change
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
