/** Deliveries in Postgres; see `WebhookStatements`. */
import { Array as Arr, Duration, Effect, Layer, Option } from "effect"
import type { OpaqueJson } from "../../../domain/json/OpaqueJson.ts"
import * as Limits from "../../../domain/Limits.ts"
import * as TaskView from "../../../domain/TaskView.ts"
import { makeFormatted } from "../../Extensions.ts"
import { PendingWork } from "../PendingWork.ts"
import { make as makeQueries } from "../sql/Queries.ts"
import * as WebhookClaim from "./WebhookClaim.ts"
import * as Statements from "./WebhookStatements.ts"
import { WebhookStore } from "./WebhookStore.ts"

export const layer = Layer.effect(
  WebhookStore,
  Effect.map(
    Effect.all([makeQueries, makeFormatted, PendingWork]),
    ([{ execute, first, rows }, formatted, pending]) => {
      pending.add("webhooks", (soon) => Statements.dueSoon(soon))
      return WebhookStore.of({
        claim: Effect.fnUntraced(function*(request) {
          const claimed = yield* rows(WebhookClaim.claim, WebhookClaim.bind(request))
          const bodies = new Map<unknown, OpaqueJson>()
          for (const [format, changes] of Map.groupBy(claimed, (row) => row.format)) {
            if (format === null) continue
            // One that cannot be built now is built again before it is sent: the claim has already counted the attempt.
            const found = yield* Effect.orElseSucceed(formatted(format, changes), () => [])
            for (const [row, body] of Arr.zip(changes, found)) if (Option.isSome(body)) bodies.set(row, body.value)
          }
          const deliveries = claimed.map((row) => {
            const isReady = row.format === null && row.bytes <= Limits.smallText
            const body = isReady ? TaskView.toJson(row) : bodies.get(row) ?? null
            // The body has these already, which may be long.
            const { pendingToolCalls: _calls, turn: _turn, uuid: taskId, ...delivery } = row
            return { ...delivery, taskId, claimedAt: request.at, body }
          })
          return { deliveries, hasMore: claimed[0]?.hasMore ?? false, oldest: claimed[0]?.oldest ?? null }
        }),

        oldestDue: (at) =>
          Effect.map(first(Statements.oldestDue, { at }), (found) => Option.getOrUndefined(found)?.dueAt ?? null),

        endLost: (at) => rows(Statements.endLost, { at }),

        body: Effect.fnUntraced(function*({ revision, taskId }) {
          const found = Option.getOrUndefined(yield* first(Statements.body, [taskId, revision]))
          if (found === undefined) return Option.none()
          if (found.format === null) return Option.some(TaskView.toJson(found))
          const [body = Option.none()] = yield* formatted(found.format, [found])
          return body
        }),

        postpone: ({ attempt, claimedAt, revision, taskId }, until) =>
          execute(Statements.postpone, { at: until, task: taskId, revision, attempt, claimedAt }),

        recordOutcomes: (outcomes) =>
          Effect.suspend(() => execute(Statements.recordOutcomes, Statements.bindOutcomes(outcomes))),

        get: ({ revision, taskId }) => first(Statements.deliveryOfKey, [taskId, revision]),

        ofTask: (taskId) =>
          Effect.map(rows(Statements.deliveriesOfTask, [taskId, Limits.listedDeliveries]), Arr.reverse),

        redeliver: ({ revision, taskId }, at, secret, sub) =>
          Effect.map(
            first(Statements.redeliver, {
              at,
              task: taskId,
              revision,
              secret,
              sub,
              maxAttempts: Limits.maxWebhookAttempts,
              maxRedeliveries: Limits.redeliveries,
              seconds: Duration.toSeconds(Limits.redeliveryInterval)
            }),
            Option.match({ onNone: () => "unknown", onSome: ({ outcome }) => outcome })
          )
      })
    }
  )
)
