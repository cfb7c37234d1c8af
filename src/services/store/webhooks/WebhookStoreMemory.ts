import { Duration, Effect, Layer, Option, Struct } from "effect"
import * as Limits from "../../../domain/Limits.ts"
import type { TaskId } from "../../../domain/Task.ts"
import { plus, type Timestamp } from "../../../domain/Timestamp.ts"
import { type Delivery, deliveryId, type DeliveryKey, originOf } from "../../../domain/Webhook.ts"
import { makeFormatted } from "../../Extensions.ts"
import { type DeliveryRow, MemoryTables, type NewDelivery } from "../MemoryTables.ts"
import { type AttemptOutcome, type ClaimRequest, provenShare, type Redelivery, WebhookStore } from "./WebhookStore.ts"

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

/** Numbers the items of each key from 1, in their order. */
const numbered = <Item, Field extends string>(
  items: ReadonlyArray<Item>,
  field: Field,
  keyOf: (item: Item) => unknown
) => {
  const counts = new Map<unknown, number>()
  return items.map((item): Item & { readonly [Name in Field]: number } => {
    const count = (counts.get(keyOf(item)) ?? 0) + 1
    counts.set(keyOf(item), count)
    return Object.assign({}, item, { [field]: count } as { readonly [Name in Field]: number })
  })
}

/** The due deliveries whose origin and user have permits, and those that have one, in the order in which they are claimed. */
const rank = (
  { deliveries, provenOrigins }: MemoryTables["Service"],
  { at, lostBefore, permits }: ClaimRequest
): { readonly permitted: number; readonly ranked: ReadonlyArray<DeliveryRow> } => {
  const { byOrigin, byUser, ofProven, ofUnproven, ofUser, unproven } = permits
  const permitted = due(deliveries, at)
    .filter(({ allowed, attempts, dueAt, isSending }) =>
      attempts.length < allowed && (!isSending || (dueAt ?? 0) <= lostBefore)
    )
    .map((row) => {
      const isProven = byOrigin.get(row.origin)?.isProven ?? provenOrigins.has(row.origin)
      const ofThis = byUser.get(row.sub) ?? ofUser
      const ofOrigin = byOrigin.get(row.origin)?.permits ?? (isProven ? ofProven : ofUnproven)
      const ofPart = isProven ? Infinity : Math.min(unproven, ofThis.unproven)
      return { row, isProven, ofOrigin, ofUser: ofThis.total, ofPart }
    })
    .filter(({ ofPart, ofOrigin, ofUser }) => Math.min(ofOrigin, ofUser, ofPart) > 0)
  const ofOrigins = numbered(permitted, "inOrigin", ({ row }) => row.origin)
    .filter(({ inOrigin, ofOrigin }) => inOrigin <= ofOrigin)
    .toSorted((one, other) => one.inOrigin - other.inOrigin)
  const inTurns = numbered(ofOrigins, "turn", ({ isProven, row }) => JSON.stringify([row.sub, isProven]))
    .toSorted((one, other) => Number(other.isProven) - Number(one.isProven))
  const inOrder = numbered(inTurns, "inUser", ({ row }) => row.sub)
    .filter(({ inUser, ofPart, ofUser, turn }) => inUser <= ofUser && turn <= ofPart)
    .toSorted((one, other) => one.turn - other.turn)
  const ranked = numbered(inOrder, "position", ({ isProven }) => isProven)
    .filter(({ isProven, position }) => isProven || position <= unproven)
    .map(({ isProven, position, row }) => ({ row, position: isProven ? position : position * provenShare }))
    .toSorted((one, other) => one.position - other.position)
    .map(({ row }) => row)
  return { permitted: permitted.length, ranked }
}

const claim = (tables: MemoryTables["Service"], request: ClaimRequest) => {
  const { at, leases, limit, permits: { byOrigin } } = request
  const { permitted, ranked } = rank(tables, request)
  const deliveries = ranked.slice(0, limit).map((row) => {
    row.attempts.push({
      number: row.attempts.length + 1,
      startedAt: at,
      duration: null,
      responseStatus: null,
      error: null
    })
    const attempt = row.attempts.length
    const { body, dueAt, isSending } = row
    row.dueAt = plus(at, leases[Math.min(attempt, leases.length) - 1] ?? Duration.zero)
    row.isSending = true
    return {
      ...Struct.pick(row, ["taskId", "revision", "sub", "url", "origin", "secret"]),
      happenedAt: row.createdAt,
      isProven: byOrigin.get(row.origin)?.isProven ?? tables.provenOrigins.has(row.origin),
      body: row.format !== null || body.length > Limits.smallText ? null : body,
      bytes: body.length,
      attempt,
      claimedAt: at,
      isLast: attempt >= row.allowed,
      dueAt: dueAt ?? at,
      isAfterLost: isSending
    }
  })
  return { deliveries, hasMore: permitted > deliveries.length && deliveries.length > 0, oldest: null }
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

const recordOutcome = ({ deliveries: rows }: MemoryTables["Service"], outcome: AttemptOutcome) => {
  const row = rows.get(deliveryId(outcome))
  if (row === undefined) return
  const { duration, error, responseStatus } = outcome
  Object.assign(row.attempts[outcome.attempt - 1] ?? {}, { duration, error, responseStatus })
  const isLatest = row.attempts.length === outcome.attempt && row.isSending
  if (error === null) Object.assign(row, { isDelivered: true, secret: null, dueAt: null, isSending: false })
  else if (isLatest) {
    const asked = row.allowed === row.attempts.length + 1 ? outcome.endedAt : null
    Object.assign(row, { dueAt: outcome.nextAttemptAt ?? asked, isSending: false })
  }
}

/** An origin is proven if one of the attempts had a response. */
const prove = ({ provenOrigins }: MemoryTables["Service"], outcomes: ReadonlyArray<AttemptOutcome>) => {
  const made = outcomes.filter(({ error }) => error !== "not_sent")
  for (const isProven of [false, true]) {
    for (const { endedAt, origin } of made.filter(({ responseStatus }) => (responseStatus !== null) === isProven)) {
      if (isProven) provenOrigins.set(origin, endedAt)
      else provenOrigins.delete(origin)
    }
  }
}

/** The moment until which the redelivery limit is used up, by user. */
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
  else if (row.isSending) row.allowed = Math.max(row.allowed, row.attempts.length + 1)
  if (!row.isSending && (row.dueAt === null || row.dueAt > at)) row.dueAt = at
  return "enqueued"
}

export const layer = Layer.effect(
  WebhookStore,
  Effect.map(Effect.all([MemoryTables, makeFormatted]), ([tables, formatted]) => {
    const { deliveries: rows } = tables
    const usedUntil: Usage = new Map()
    const find = (key: DeliveryKey) => Option.fromNullishOr(rows.get(deliveryId(key)))
    return WebhookStore.of({
      claim: (request) => Effect.sync(() => claim(tables, request)),
      oldestDue: (at) =>
        Effect.sync(() => due(rows, at).find(({ allowed, attempts }) => attempts.length < allowed)?.dueAt ?? null),
      endLost: (at) => Effect.sync(() => endLost(rows, at)),
      body: (key) =>
        Effect.suspend(() => {
          const row = Option.getOrUndefined(find(key))
          if (row === undefined) return Effect.succeedNone
          const { body, createdAt, format, revision, status, taskId } = row
          return format === null
            ? Effect.succeedSome(body)
            : Effect.map(
              formatted(format, [{ uuid: taskId, revision, status, happenedAt: createdAt }]),
              ([formattedBody = Option.none()]) => formattedBody
            )
        }),
      postpone: (claim, until) => Effect.sync(() => postpone(rows, claim, until)),

      recordOutcomes: (outcomes) =>
        Effect.sync(() => {
          for (const outcome of outcomes) recordOutcome(tables, outcome)
          prove(tables, outcomes)
        }),
      get: (key) => Effect.sync(() => Option.map(find(key), view)),
      ofTask: (taskId) =>
        Effect.sync(() =>
          [...rows.values()].filter((row) => row.taskId === taskId).slice(-Limits.listedDeliveries).map(view)
        ),
      redeliver: (...call) => Effect.sync(() => redeliver(rows, usedUntil, ...call))
    })
  })
)
