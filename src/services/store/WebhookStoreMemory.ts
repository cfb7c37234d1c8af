/**
 * Deliveries in memory, inserted by `TaskRepositoryMemory`. One contract suite runs on this store and on the SQL store.
 */
import { Duration, Effect, Option } from "effect"
import * as Limits from "../../domain/Limits.ts"
import type { TaskId, TaskStatus } from "../../domain/Task.ts"
import { plus, type Timestamp } from "../../domain/Timestamp.ts"
import { type Delivery, type DeliveryAttempt, deliveryId, type DeliveryKey, originOf } from "../../domain/Webhook.ts"
import type { DeliveryFilter, Redelivery, WebhookStore } from "./WebhookStore.ts"

interface NewDelivery extends DeliveryKey {
  readonly status: TaskStatus
  readonly url: string
  readonly secret: string | null
  readonly body: string
  readonly createdAt: Timestamp
}

interface Row extends NewDelivery {
  readonly origin: string
  readonly isSigned: boolean
  secret: string | null
  allowed: number
  isSending: boolean
  isDelivered: boolean
  dueAt: Timestamp | null
  readonly attempts: Array<{ -readonly [Field in keyof DeliveryAttempt]: DeliveryAttempt[Field] }>
}

const stateOf = (row: Row) => row.dueAt !== null ? "pending" : row.isDelivered ? "delivered" : "failed"

const view = (row: Row): Delivery => ({
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

export const make = () => {
  const rows = new Map<string, Row>()

  const due = (at: Timestamp) =>
    [...rows.values()]
      .filter((row) => row.dueAt !== null && row.dueAt <= at)
      .toSorted((one, other) => (one.dueAt ?? 0) - (other.dueAt ?? 0))

  const matching = (filter: DeliveryFilter) =>
    [...rows.values()].filter((row) =>
      (filter.origin === undefined || filter.origin === row.origin) &&
      (filter.state === undefined || filter.state === stateOf(row)) &&
      (filter.since === undefined || filter.since <= row.createdAt) &&
      (filter.before === undefined || row.createdAt < filter.before)
    ).toSorted((one, other) => one.createdAt - other.createdAt)

  /** By user: the moment until which the redelivery limit is used up. */
  const usedUntil = new Map<string, Timestamp>()

  const isAllowed = (sub: string, at: Timestamp) => {
    for (const [user, until] of usedUntil) if (until <= at) usedUntil.delete(user)
    const until = plus(usedUntil.get(sub) ?? at, Limits.redeliveryInterval)
    if (until > plus(at, Duration.times(Limits.redeliveryInterval, Limits.redeliveries))) return false
    usedUntil.set(sub, until)
    return true
  }

  const redeliver = (key: DeliveryKey, at: Timestamp, secret: string | null, sub: string | null): Redelivery => {
    const row = rows.get(deliveryId(key))
    if (row === undefined) return "unknown"
    if (row.isSigned && row.secret === null && secret === null) return "needs_secret"
    if (sub !== null && row.attempts.length >= Limits.webhookAttemptsByHand) return "exhausted"
    if (sub !== null && !isAllowed(sub, at)) return "too_many"
    row.secret ??= row.isSigned ? secret : null
    if (row.dueAt === null) row.allowed = row.attempts.length + 1
    if (!row.isSending && (row.dueAt === null || row.dueAt > at)) row.dueAt = at
    return "enqueued"
  }

  const store: WebhookStore["Service"] = {
    claim: ({ at, leases, limit, permits, permitsOfOthers }) =>
      Effect.sync(() => {
        const spent = due(at).filter((row) => row.attempts.length >= row.allowed)
        for (const row of spent) Object.assign(row, { dueAt: null, isSending: false })
        const left = new Map(permits)
        return due(at).filter(({ origin }) => {
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
          const { dueAt, isSending: isAfterLost } = row
          row.dueAt = plus(at, leases[Math.min(attempt, leases.length) - 1] ?? Duration.zero)
          row.isSending = true
          const { body, origin, revision, secret, taskId, url } = row
          const isLast = attempt >= row.allowed
          return { taskId, revision, url, origin, secret, body, attempt, isLast, dueAt: dueAt ?? at, isAfterLost }
        })
      }),

    body: (key) => Effect.sync(() => Option.fromNullishOr(rows.get(deliveryId(key))?.body)),

    recordOutcomes: (outcomes) =>
      Effect.sync(() => {
        for (const outcome of outcomes) {
          const row = rows.get(deliveryId(outcome))
          if (row === undefined) continue
          const { duration, error, responseStatus } = outcome
          Object.assign(row.attempts[outcome.attempt - 1] ?? {}, { duration, error, responseStatus })
          const isLatest = row.attempts.length === outcome.attempt && row.isSending
          if (error === null) Object.assign(row, { isDelivered: true, secret: null, dueAt: null, isSending: false })
          else if (isLatest) Object.assign(row, { dueAt: outcome.nextAttemptAt, isSending: false })
        }
      }),

    get: (key) => Effect.sync(() => Option.map(Option.fromNullishOr(rows.get(deliveryId(key))), view)),

    ofTask: (taskId) =>
      Effect.sync(() =>
        [...rows.values()].filter((row) => row.taskId === taskId).slice(-Limits.listedDeliveries).map(view)
      ),

    find: (filter) => Effect.sync(() => matching(filter).toReversed().slice(0, filter.limit).map(view)),

    redeliver: (...call) => Effect.sync(() => redeliver(...call)),

    redeliverFailed: (filter, at) =>
      Effect.sync(() => {
        const failed = matching({ ...filter, state: "failed" }).slice(0, filter.limit)
        for (const row of failed) redeliver(row, at, null, null)
        return failed.length
      })
  }

  return {
    store,
    enqueue: (delivery: NewDelivery) => {
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
    },
    isPending: (taskId: TaskId) => [...rows.values()].some((row) => row.taskId === taskId && row.dueAt !== null),
    release: (taskId: TaskId) => {
      for (const [id, row] of rows) if (row.taskId === taskId) rows.delete(id)
    }
  }
}
