/** Deliveries in Postgres; see `WebhookStatements`. */
import { PgTypes } from "@effect/sql-pg"
import { Array as Arr, Duration, Effect, Layer, Option } from "effect"
import * as Limits from "../../domain/Limits.ts"
import { OpaqueJson } from "../../domain/OpaqueJson.ts"
import * as OpenAiWebhook from "../../domain/OpenAiWebhook.ts"
import type { Task, TaskSummary } from "../../domain/Task.ts"
import * as TaskView from "../../domain/TaskView.ts"
import { array, make as makeQueries } from "./Queries.ts"
import * as Statements from "./WebhookStatements.ts"
import { type AttemptOutcome, type ClaimRequest, WebhookStore } from "./WebhookStore.ts"

const { float8, int4, text, uuid } = PgTypes.OID

const bindClaim = ({ at, leases, limit, permits, permitsOfOthers }: ClaimRequest) => [
  at,
  array([...permits.keys()], text),
  array([...permits.values()], int4),
  permitsOfOthers,
  limit,
  array(leases.map((lease) => Duration.toSeconds(lease)), float8)
]

const bindOutcomes = (outcomes: ReadonlyArray<AttemptOutcome>) => [
  array(outcomes.map(({ taskId }) => taskId), uuid),
  array(outcomes.map(({ revision }) => revision), int4),
  array(outcomes.map(({ attempt }) => attempt), int4),
  array(outcomes.map(({ endedAt }) => endedAt), float8),
  array(outcomes.map(({ duration }) => duration), int4),
  array(outcomes.map(({ responseStatus }) => responseStatus), int4),
  array(outcomes.map(({ error }) => error), text),
  array(outcomes.map(({ nextAttemptAt }) => nextAttemptAt), float8)
]

type BodyRow = TaskSummary & Pick<Task, "turn"> & OpenAiWebhook.ReportedChange & {
  readonly format: OpenAiWebhook.CallbackFormat
}

const encode = (row: BodyRow): OpaqueJson =>
  row.format === "openai" ? OpaqueJson.make(OpenAiWebhook.encode(row)) : TaskView.encode(row)

export const layer = Layer.effect(
  WebhookStore,
  Effect.map(makeQueries, ({ count, execute, first, rows }) =>
    WebhookStore.of({
      claim: (request) =>
        Effect.map(
          rows(Statements.claim, bindClaim(request)),
          (rows) => ({
            deliveries: rows.map((row) => {
              const { attempt, dueAt, isAfterLost, isLarge, isLast, origin, revision, secret, url, uuid: taskId } = row
              const body = isLarge ? null : encode(row)
              return {
                taskId,
                revision,
                url,
                origin,
                attempt,
                claimedAt: request.at,
                isLast,
                dueAt,
                isAfterLost,
                secret,
                body
              }
            }),
            hasMore: rows[0]?.hasMore ?? false
          })
        ),

      endLost: (at) => rows(Statements.endLost, [at]),

      body: ({ revision, taskId }) => Effect.map(first(Statements.body, [taskId, revision]), Option.map(encode)),

      postpone: ({ attempt, claimedAt, revision, taskId }, until) =>
        execute(Statements.postpone, [until, taskId, revision, attempt, claimedAt]),

      recordOutcomes: (outcomes) => Effect.suspend(() => execute(Statements.recordOutcomes, bindOutcomes(outcomes))),

      get: ({ revision, taskId }) => first(Statements.deliveryOfKey, [taskId, revision]),

      ofTask: (taskId) => Effect.map(rows(Statements.deliveriesOfTask, [taskId, Limits.listedDeliveries]), Arr.reverse),

      find: ({ limit, origin, state }) => rows(Statements.matchingDeliveries, [origin ?? null, limit, state ?? null]),

      redeliver: ({ revision, taskId }, at, secret, sub) =>
        Effect.map(
          first(Statements.redeliver, [
            at,
            taskId,
            revision,
            secret,
            sub,
            Limits.maxWebhookAttempts,
            Limits.redeliveries,
            Duration.toSeconds(Limits.redeliveryInterval)
          ]),
          Option.match({ onNone: () => "unknown", onSome: ({ outcome }) => outcome })
        ),

      redeliverFailed: (origin, limit, at) => count(Statements.redeliverFailed, [origin ?? null, limit, at])
    }))
)
