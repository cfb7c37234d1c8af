import { Duration, Effect, Layer, Option } from "effect"
import * as Limits from "../../domain/Limits.ts"
import type { TaskId } from "../../domain/Task.ts"
import { plus, type Timestamp } from "../../domain/Timestamp.ts"
import { type Delivery, deliveryId, type DeliveryKey, originOf } from "../../domain/Webhook.ts"
import { type DeliveryRow, MemoryTables, type NewDelivery } from "./MemoryTables.ts"
import {
  type AttemptOutcome,
  type ClaimRequest,
  type DeliveryFilter,
  largeBody,
  type Redelivery,
  WebhookStore
} from "./WebhookStore.ts"

type Rows = MemoryTables["Service"]["deliveries"]

/** Inserts a delivery that is due immediately. */
export const enqueue = (rows: Rows, delivery: NewDelivery) =>
  rows.set(deliveryId(delivery), {
    ...delivery,
    origin: originOf(delivery.url),
    isSigned: delivery.secret !== null,
    allowed: Limits.webhookAttempts,
    isSending: false,
    isDelivered: false,
    dueAt: delivery.createdAt,
    attempts: []
  })

export const isPending = (rows: Rows, taskId: TaskId) =>
  [...rows.values()].some((row) => row.taskId === taskId && row.dueAt !== null)

const stateOf = (row: DeliveryRow) => row.dueAt !== null ? "pending" : row.isDelivered ? "delivered" : "failed"

const view = (row: DeliveryRow): Delivery => ({
  taskId: row.taskId,
  revision: row.revision,
  status: row.status,
  state: stateOf(row),
  origin: row.origin,
  createdAt: row.createdAt,
  nextAttemptAt: row.isSending ? null : row.dueAt,
  attempts: row.attempts.map((attempt, index) =>
    attempt.duration === null && !(row.isSending && index === row.attempts.length - 1)
      ? { ...attempt, error: "lost" }
      : { ...attempt }
  )
})

const due = (rows: Rows, at: Timestamp) =>
  [...rows.values()]
    .filter((row) => row.dueAt !== null && row.dueAt <= at)
    .toSorted((one, other) => (one.dueAt ?? 0) - (other.dueAt ?? 0))

/** Oldest first. */
const matching = (rows: Rows, filter: Pick<DeliveryFilter, "origin" | "state">) =>
  [...rows.values()].filter((row) =>
    (filter.origin === undefined || filter.origin === row.origin) &&
    (filter.state === undefined || filter.state === stateOf(row))
  ).toSorted((one, other) => one.createdAt - other.createdAt)

const claim = (rows: Rows, { at, leases, limit, permits, permitsOfOthers }: ClaimRequest) => {
  const left = new Map(permits)
  const candidates = due(rows, at).filter(({ allowed, attempts, origin }) =>
    attempts.length < allowed && (permits.get(origin) ?? permitsOfOthers) > 0
  )
  const deliveries = candidates.filter(({ origin }) => {
    const free = left.get(origin) ?? permitsOfOthers
    left.set(origin, free - 1)
    return free > 0
  }).slice(0, limit).map((row) => {
    row.attempts.push({
      number: row.attempts.length + 1,
      startedAt: at,
      duration: null,
      responseStatus: null,
      error: null
    })
    const attempt = row.attempts.length
    const { body, dueAt, isSending: isAfterLost, origin, revision, secret, taskId, url } = row
    row.dueAt = plus(at, leases[Math.min(attempt, leases.length) - 1] ?? Duration.zero)
    row.isSending = true
    const isLast = attempt >= row.allowed
    return {
      taskId,
      revision,
      url,
      origin,
      secret,
      body: body.length > largeBody ? null : body,
      attempt,
      claimedAt: at,
      isLast,
      dueAt: dueAt ?? at,
      isAfterLost
    }
  })
  return { deliveries, hasMore: candidates.length > deliveries.length && deliveries.length > 0 }
}

const endLost = (rows: Rows, at: Timestamp) =>
  due(rows, at).filter(({ allowed, attempts }) => attempts.length >= allowed).map((row) => {
    Object.assign(row, { dueAt: null, isSending: false })
    const { attempts, origin, revision, taskId } = row
    return { taskId, revision, origin, attempt: attempts.length }
  })

const postpone = (rows: Rows, claim: Parameters<WebhookStore["Service"]["postpone"]>[0], until: Timestamp) => {
  const row = rows.get(deliveryId(claim))
  if (row === undefined || row.attempts.length !== claim.attempt) return
  const last = row.attempts.at(-1)
  if (last?.startedAt !== claim.claimedAt || last.duration !== null) return
  if (!row.isSending && (row.dueAt !== null || row.isDelivered)) return
  row.attempts.pop()
  Object.assign(row, { dueAt: until, isSending: false })
}

const recordOutcome = (rows: Rows, outcome: AttemptOutcome) => {
  const row = rows.get(deliveryId(outcome))
  if (row === undefined) return
  const { duration, error, responseStatus } = outcome
  Object.assign(row.attempts[outcome.attempt - 1] ?? {}, { duration, error, responseStatus })
  const isLatest = row.attempts.length === outcome.attempt && row.isSending
  if (error === null) Object.assign(row, { isDelivered: true, secret: null, dueAt: null, isSending: false })
  else if (isLatest) Object.assign(row, { dueAt: outcome.nextAttemptAt, isSending: false })
}

/** By user: the moment until which the redelivery limit is used up. */
type Usage = Map<string, Timestamp>

const isAllowed = (usedUntil: Usage, sub: string, at: Timestamp) => {
  for (const [user, until] of usedUntil) if (until <= at) usedUntil.delete(user)
  const until = plus(usedUntil.get(sub) ?? at, Limits.redeliveryInterval)
  if (until > plus(at, Duration.times(Limits.redeliveryInterval, Limits.redeliveries))) return false
  usedUntil.set(sub, until)
  return true
}

const redeliver = (
  rows: Rows,
  usedUntil: Usage,
  ...[key, at, secret, sub]: Parameters<WebhookStore["Service"]["redeliver"]>
): Redelivery => {
  const row = rows.get(deliveryId(key))
  if (row === undefined) return "unknown"
  if (row.isSigned && row.secret === null && secret === null) return "needs_secret"
  if (sub !== null && row.attempts.length >= Limits.maxWebhookAttempts) return "exhausted"
  if (sub !== null && !isAllowed(usedUntil, sub, at)) return "too_many"
  row.secret ??= row.isSigned ? secret : null
  if (row.dueAt === null) row.allowed = row.attempts.length + 1
  if (!row.isSending && (row.dueAt === null || row.dueAt > at)) row.dueAt = at
  return "enqueued"
}

export const layer = Layer.effect(
  WebhookStore,
  Effect.map(MemoryTables, ({ deliveries: rows }) => {
    const usedUntil: Usage = new Map()
    const find = (key: DeliveryKey) => Option.fromNullishOr(rows.get(deliveryId(key)))
    return WebhookStore.of({
      claim: (request) => Effect.sync(() => claim(rows, request)),
      endLost: (at) => Effect.sync(() => endLost(rows, at)),
      body: (key) => Effect.sync(() => Option.map(find(key), ({ body }) => body)),
      postpone: (claim, until) => Effect.sync(() => postpone(rows, claim, until)),

      recordOutcomes: (outcomes) => Effect.sync(() => outcomes.forEach((outcome) => recordOutcome(rows, outcome))),
      get: (key) => Effect.sync(() => Option.map(find(key), view)),
      ofTask: (taskId) =>
        Effect.sync(() =>
          [...rows.values()].filter((row) => row.taskId === taskId).slice(-Limits.listedDeliveries).map(view)
        ),
      find: (filter) => Effect.sync(() => matching(rows, filter).toReversed().slice(0, filter.limit).map(view)),
      redeliver: (...call) => Effect.sync(() => redeliver(rows, usedUntil, ...call)),
      redeliverFailed: (origin, limit, at) =>
        Effect.sync(() => {
          const failed = matching(rows, { origin, state: "failed" }).slice(0, limit)
          for (const row of failed) redeliver(rows, usedUntil, row, at, null, null)
          return failed.length
        })
    })
  })
)
