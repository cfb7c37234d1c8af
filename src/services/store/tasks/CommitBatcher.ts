/**
 * Group commit for events of tasks. `commit_tasks` locks and checks all rows, and then writes the events, the turns and the outbox
 * rows (webhook, stop), by the rules of `domain/Task`.
 */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Schema } from "effect"
import { isLarge } from "../../../domain/json/OpaqueJson.ts"
import { type TaskEvent, TaskHead, type TaskId } from "../../../domain/Task.ts"
import { changeOf, type TaskChange } from "../../../domain/TaskChange.ts"
import type { Timestamp } from "../../../domain/Timestamp.ts"
import { sendsWebhook } from "../../../domain/Webhook.ts"
import { Changes } from "../../signals/Changes.ts"
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
  readonly waits: boolean
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

const statement = makeStatement<Event, typeof Outcome>(
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
    records_acceptance: { oid: bool, of: ({ fence }) => fence?.recordsAcceptance === true },
    error: { oid: text, of: ({ change }) => change.error },
    pending_tool_calls: largeText(({ pendingToolCalls }) => pendingToolCalls),
    turn: largeText(({ turn }) => turn),
    report: { oid: text, of: ({ change }) => change.report },
    core_state: largeText(({ coreState }) => coreState),
    new_run_id: { oid: uuid, of: ({ change }) => change.run?.runId },
    tool_results: largeText(({ toolResults }) => toolResults),
    user_token: { oid: text, of: ({ change }) => change.run?.userToken },
    token_id: { oid: text, of: ({ change }) => change.run?.principal.tokenId },
    token_issued_at: seconds(({ change }) => change.run?.principal.issuedAt),
    key: { oid: text, of: ({ claim }) => claim?.key },
    fingerprint: { oid: text, of: ({ claim }) => claim?.fingerprint },
    waits: { oid: bool, of: ({ waits }) => waits },
    actor: { oid: text, of: ({ change }) => change.actor }
  }
)

/** Ids of tasks are not case-sensitive. */
const lockOf = ({ uuid }: Event) => uuid.toLowerCase()

/** Returns a function that commits one event as part of a batch, and publishes it if it applies. */
export const make = Effect.gen(function*() {
  const { rows } = yield* makeQueries
  const { publish, webhooks } = yield* Changes

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

  return Effect.fnUntraced(
    function*(...[uuid, event, at, fence, claim, waits = false]: Parameters<TaskWrites["Service"]["commit"]>) {
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
        waits,
        length,
        pendingToolCalls: yield* encode(pendingToolCalls, isLargeEvent),
        turn: yield* encode(turn, isLargeEvent),
        coreState: yield* encode(coreState, isLargeEvent),
        toolResults: yield* encode(run?.results, isLargeEvent)
      })
    }
  )
})
