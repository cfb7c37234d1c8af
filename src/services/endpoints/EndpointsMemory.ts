/** The store of webhook endpoints in memory: for the test kit and tests under TestClock. */
import { Duration, Effect, Layer, Option } from "effect"
import { fromText } from "../../domain/json/OpaqueJson.ts"
import * as Limits from "../../domain/Limits.ts"
import type { TaskStatus } from "../../domain/Task.ts"
import { plus, Timestamp } from "../../domain/Timestamp.ts"
import { type DeliveryKey, originOf } from "../../domain/Webhook.ts"
import { MemoryTables, type TaskRow } from "../store/MemoryTables.ts"
import type { AttemptOutcome, ClaimRequest } from "../store/webhooks/WebhookStore.ts"
import {
  attempts,
  bodyOf,
  type Endpoint,
  eventId,
  type EventKey,
  eventStatuses,
  type Format,
  giveUpAfter,
  keptWhileDisabled,
  limits,
  type LoggedDelivery,
  matches
} from "./Endpoint.ts"
import { type Disabled, type EndpointDelivery, EndpointsStore } from "./EndpointsStore.ts"

type Mutable<A> = { -readonly [Field in keyof A]: A[Field] }

interface EndpointRow {
  endpoint: Endpoint
  isProven: boolean
  lastPosition: number
  resumesAt: Timestamp | null
}

interface Row extends EventKey {
  readonly status: TaskStatus
  readonly format: Format
  readonly body: string
  readonly createdAt: Timestamp
  attempts: number
  attemptsBefore: number
  allowed: number
  isSending: boolean
  dueAt: Timestamp | null
  startedAt: Timestamp | null
  leasedUntil: Timestamp
  deliveredAt: Timestamp | null
  dropped: LoggedDelivery["dropped"]
  position: number | null
  log: ReadonlyArray<LoggedDelivery["attempts"][number]>
}

const stateOf = ({ deliveredAt, dueAt }: Row) =>
  dueAt !== null ? "pending" : deliveredAt !== null ? "delivered" : "failed"

const view = (row: Row): LoggedDelivery => ({
  endpointId: row.endpointId,
  taskId: row.taskId,
  revision: row.revision,
  status: row.status,
  state: stateOf(row),
  dropped: row.dropped,
  createdAt: row.createdAt,
  nextAttemptAt: row.isSending ? null : row.dueAt,
  attempts: row.startedAt === null || row.log.some(({ number }) => number === row.attempts) ? row.log : [...row.log, {
    number: row.attempts,
    startedAt: row.startedAt,
    duration: null,
    responseStatus: null,
    error: row.isSending ? null : "lost"
  }]
})

const keyOf = (key: EventKey) => `${key.endpointId} ${eventId(key)}`

const newRow = (fields: Pick<Row, keyof EventKey | "status" | "format" | "body" | "createdAt">): Row => ({
  ...fields,
  attempts: 0,
  attemptsBefore: 0,
  allowed: attempts,
  isSending: false,
  dueAt: fields.createdAt,
  startedAt: null,
  leasedUntil: fields.createdAt,
  deliveredAt: null,
  dropped: null,
  position: null,
  log: []
})

/** Newest first. */
const compareLog = (one: Row, other: Row) => other.createdAt - one.createdAt || (eventId(other) < eventId(one) ? -1 : 1)

const changeOf = (row: TaskRow, at: Timestamp) => ({
  ...row,
  sub: row.principal.sub,
  metadata: row.task.metadata,
  happenedAt: at,
  assistantId: row.task.assistantId
})

const makeRows = () => {
  const endpoints = new Map<string, EndpointRow>()
  const deliveries = new Map<string, Row>()
  const ofEndpoint = (id: string) => [...deliveries.values()].filter(({ endpointId }) => endpointId === id)

  /** The same as the trigger in Postgres. */
  const enqueue = (task: TaskRow) => {
    const happenedAt = task.events.at(-1)?.occurredAt
    if (happenedAt === undefined || !eventStatuses.includes(task.status)) return
    const change = changeOf(task, happenedAt)
    for (const { endpoint } of endpoints.values()) {
      if (!matches(endpoint, change)) continue
      const { format, id } = endpoint
      const row = newRow({
        endpointId: id,
        taskId: task.uuid,
        revision: task.revision,
        status: task.status,
        format,
        body: bodyOf(change, format),
        createdAt: happenedAt
      })
      deliveries.set(keyOf(row), row)
    }
  }

  const claim = ({ at, leases, limit, lostBefore, permits }: ClaimRequest) => {
    const taken = new Map<string, number>()
    const isFree = ({ endpoint, isProven }: EndpointRow) => {
      const origin = originOf(endpoint.url ?? "")
      const known = permits.byOrigin.get(origin)
      const user = permits.byUser.get(endpoint.id) ?? permits.ofUser
      const proven = known?.isProven ?? isProven
      const most = Math.min(
        known?.permits ?? (proven ? permits.ofProven : permits.ofUnproven),
        user.total,
        proven ? Infinity : Math.min(permits.unproven, user.unproven)
      )
      const count = taken.get(origin) ?? 0
      if (count >= most) return false
      taken.set(origin, count + 1)
      return true
    }
    const due = [...deliveries.values()].filter(({ dueAt, endpointId, isSending, leasedUntil }) => {
      const row = endpoints.get(endpointId)
      return dueAt !== null && dueAt <= at && (!isSending || leasedUntil <= lostBefore) &&
        row !== undefined && row.endpoint.url !== null && row.endpoint.disabledAt === null && row.resumesAt === null
    }).toSorted((one, other) => (one.dueAt ?? 0) - (other.dueAt ?? 0))
    const claimed = due.flatMap((row): ReadonlyArray<readonly [Row, EndpointRow]> => {
      const endpoint = endpoints.get(row.endpointId)
      return endpoint !== undefined && isFree(endpoint) ? [[row, endpoint]] : []
    }).slice(0, limit)
    const made = claimed.map(([row, { endpoint, isProven }]): EndpointDelivery => {
      const { dueAt, isSending: isAfterLost } = row
      row.attempts += 1
      row.startedAt = at
      row.isSending = true
      row.leasedUntil = plus(
        at,
        leases[Math.min(row.attempts - row.attemptsBefore, leases.length) - 1] ?? Duration.zero
      )
      const { oldSecret, oldSecretUntil, secret, url } = endpoint
      return {
        taskId: row.taskId,
        revision: row.revision,
        sub: endpoint.id,
        url: url ?? "",
        origin: originOf(url ?? ""),
        isProven,
        secret,
        oldSecret,
        oldSecretUntil,
        status: row.status,
        format: row.format,
        happenedAt: row.createdAt,
        attemptsBefore: row.attemptsBefore,
        attempt: row.attempts,
        claimedAt: at,
        isLast: row.attempts >= row.allowed,
        dueAt: dueAt ?? at,
        isAfterLost,
        body: row.body.length > Limits.smallText ? null : fromText(row.body),
        bytes: row.body.length
      }
    })
    return { deliveries: made, hasMore: due.length > made.length && made.length > 0, oldest: at }
  }

  const recordOutcome = (outcome: AttemptOutcome): ReadonlyArray<Disabled> => {
    const { attempt, duration, endedAt, error, nextAttemptAt, responseStatus, sub: endpointId } = outcome
    const row = deliveries.get(keyOf({ ...outcome, endpointId }))
    if (row !== undefined && (error === null || (row.isSending && row.attempts === attempt))) {
      const made = { number: attempt, startedAt: row.startedAt ?? endedAt, duration, responseStatus, error }
      row.log = [...row.log.slice(1 - limits.loggedAttempts), made]
      row.isSending = false
      if (error === null) Object.assign(row, { deliveredAt: endedAt, dueAt: null })
      else row.dueAt = nextAttemptAt ?? (row.allowed > row.attempts ? endedAt : null)
    }
    const found = endpoints.get(endpointId)
    if (found === undefined || error === "not_sent") return []
    const { disabledAt, failingSince, updatedAt, url } = found.endpoint
    if (plus(endedAt, Duration.millis(-duration)) < updatedAt) return []
    found.isProven = responseStatus !== null
    if (error === null) found.endpoint = { ...found.endpoint, failingSince: null, succeededAt: endedAt }
    else found.endpoint = { ...found.endpoint, failingSince: failingSince ?? endedAt }
    const isFailing = error !== null && failingSince !== null && endedAt >= plus(failingSince, giveUpAfter)
    const reason = responseStatus === 410 ? "gone" : isFailing ? "failing" : undefined
    if (reason === undefined || disabledAt !== null) return []
    found.endpoint = { ...found.endpoint, disabledAt: endedAt, disabledReason: reason }
    return [{ id: endpointId, url, reason }]
  }

  return { endpoints, deliveries, ofEndpoint, enqueue, claim, recordOutcome }
}

type Rows = ReturnType<typeof makeRows>

const makeRegistry = ({ deliveries, endpoints, ofEndpoint }: Rows) =>
  ({
    insert: (endpoint) =>
      Effect.sync(() => {
        if (endpoints.size >= limits.endpoints) return false
        endpoints.set(endpoint.id, { endpoint, isProven: false, lastPosition: 0, resumesAt: null })
        return true
      }),
    list: (after, limit) =>
      Effect.sync(() =>
        [...endpoints.values()].map(({ endpoint }) => endpoint)
          .filter(({ createdAt, id }) =>
            after === null || createdAt < after.at || (createdAt === after.at && id < after.id)
          )
          .toSorted((one, other) => other.createdAt - one.createdAt || (other.id < one.id ? -1 : 1))
          .slice(0, limit)
      ),
    get: (id) => Effect.sync(() => Option.map(Option.fromNullishOr(endpoints.get(id)), ({ endpoint }) => endpoint)),
    update: (id, changes, disabled, at) =>
      Effect.sync(() => {
        const row = endpoints.get(id)
        if (row === undefined) return Option.none()
        const { disabledAt, disabledReason } = row.endpoint
        const isEnabled = disabled === null && disabledAt !== null
        const state = isEnabled
          ? { disabledAt: null, disabledReason: null, failingSince: null }
          : disabled === undefined || disabled === null
          ? {}
          : { disabledAt: disabledAt ?? at, disabledReason: disabledReason ?? disabled }
        row.endpoint = { ...row.endpoint, ...changes, ...state, updatedAt: at }
        if (isEnabled) row.resumesAt = at
        return Option.some(row.endpoint)
      }),
    rotate: (id, secret, oldSecretUntil, at) =>
      Effect.sync(() => {
        const row = endpoints.get(id)
        if (row === undefined) return Option.none()
        const oldSecret = oldSecretUntil === null ? null : row.endpoint.secret
        row.endpoint = { ...row.endpoint, secret, oldSecret, oldSecretUntil, updatedAt: at }
        return Option.some(row.endpoint)
      }),
    resume: () =>
      Effect.sync(() => {
        for (const row of endpoints.values()) {
          const { resumesAt: at } = row
          if (at === null || row.endpoint.disabledAt !== null) continue
          const oldest = plus(at, Duration.negate(keptWhileDisabled))
          for (const delivery of ofEndpoint(row.endpoint.id)) {
            const { createdAt, deliveredAt, dropped, dueAt, isSending } = delivery
            if (createdAt > at || isSending) continue
            if (createdAt < oldest) {
              if (dueAt !== null) Object.assign(delivery, { dueAt: null, dropped: "too_old" })
            } else if (dueAt === null ? deliveredAt === null && dropped === null : dueAt > at) {
              const { attempts: before } = delivery
              Object.assign(delivery, { dueAt: at, attemptsBefore: before, allowed: before + attempts })
            }
          }
          row.resumesAt = null
        }
      }),
    // Nothing is encrypted.
    replaceSecret: () => Effect.void,
    remove: (id) =>
      Effect.sync(() => {
        for (const row of ofEndpoint(id)) deliveries.delete(keyOf(row))
        return endpoints.delete(id)
      })
  }) satisfies Partial<EndpointsStore["Service"]>

const isBehind = (row: Row, after: DeliveryKey & { readonly at: Timestamp } | null) =>
  after === null || row.createdAt < after.at || (row.createdAt === after.at && eventId(row) < eventId(after))

const makeLog = ({ deliveries, endpoints, ofEndpoint }: Rows) =>
  ({
    deliveries: (id, state, after, limit) =>
      Effect.sync(() =>
        ofEndpoint(id).filter((row) => (state === null || stateOf(row) === state) && isBehind(row, after))
          .toSorted(compareLog).slice(0, limit).map(view)
      ),
    delivery: (key) => Effect.sync(() => Option.map(Option.fromNullishOr(deliveries.get(keyOf(key))), view)),
    redeliver: (key, at) =>
      Effect.sync(() => {
        const row = deliveries.get(keyOf(key))
        if (row === undefined) return false
        const isFinished = row.dueAt === null
        if (isFinished || row.isSending) row.allowed = Math.max(row.attempts + 1, isFinished ? 0 : row.allowed)
        // An attempt by hand does not count toward the schedule.
        if (!row.isSending && row.dueAt !== null && row.dueAt > at && row.attempts > row.attemptsBefore) {
          row.allowed += 1
          row.attemptsBefore += 1
        }
        if (!row.isSending) row.dueAt = Timestamp.make(Math.min(row.dueAt ?? at, at))
        row.dropped = null
        return true
      }),
    replay: (id, { failedOnly, from, to }, at, limit) =>
      Effect.sync(() => {
        const matched = ofEndpoint(id).filter(({ createdAt, deliveredAt, dueAt }) =>
          createdAt >= from && createdAt <= to && dueAt === null && (!failedOnly || deliveredAt === null)
        ).toSorted(compareLog).toReversed()
        const enqueued = matched.slice(0, limit)
        for (const [index, row] of enqueued.entries()) {
          const dueAt = plus(at, Duration.times(limits.replayPause, index))
          Object.assign(row, { dueAt, dropped: null, attemptsBefore: row.attempts, allowed: row.attempts + attempts })
        }
        return { enqueued: enqueued.length, left: matched.length - enqueued.length }
      }),
    addSample: ({ attempt, happenedAt, ...sample }) =>
      Effect.sync(() => {
        const row: Mutable<Row> = newRow({ ...sample, createdAt: happenedAt })
        row.allowed = 1
        if (attempt !== null) {
          const deliveredAt = attempt.error === null ? happenedAt : null
          Object.assign(row, { attempts: 1, dueAt: null, startedAt: attempt.startedAt, deliveredAt, log: [attempt] })
        }
        deliveries.set(keyOf(row), row)
      }),
    read: (id, after, at) =>
      Effect.sync(() => {
        const endpoint = endpoints.get(id)
        if (endpoint === undefined) return []
        for (const row of ofEndpoint(id).filter(({ dueAt }) => dueAt !== null)) {
          Object.assign(row, { position: ++endpoint.lastPosition, dueAt: null, deliveredAt: at })
        }
        return ofEndpoint(id).flatMap((row) =>
          row.position !== null && row.position > after
            ? [{ position: row.position, key: row, status: row.status, body: row.body }]
            : []
        ).toSorted((one, other) => one.position - other.position)
      })
  }) satisfies Partial<EndpointsStore["Service"]>

export const layer = Layer.effect(
  EndpointsStore,
  Effect.map(MemoryTables, ({ isQuiet, onEvent }) => {
    const rows = makeRows()
    const { deliveries, endpoints } = rows
    onEvent.push(rows.enqueue)
    const isSent = (id: string) => {
      const row = endpoints.get(id)
      return row !== undefined && row.endpoint.url !== null && row.endpoint.disabledAt === null
    }
    isQuiet.push((at) =>
      [...deliveries.values()].every(({ dueAt, endpointId, isSending }) =>
        dueAt === null || !isSent(endpointId) || (!isSending && dueAt > at)
      )
    )
    const find = (sub: string, key: DeliveryKey) => deliveries.get(keyOf({ ...key, endpointId: sub }))
    return EndpointsStore.of({
      ...makeRegistry(rows),
      ...makeLog(rows),
      outbox: {
        claim: (request) => Effect.sync(() => rows.claim(request)),
        oldestDue: () => Effect.succeed(null),
        body: (delivery) =>
          Effect.sync(() =>
            Option.map(Option.fromNullishOr(find(delivery.sub, delivery)), ({ body }) => fromText(body))
          ),
        postpone: (delivery, until) =>
          Effect.sync(() => {
            const row = find(delivery.sub, delivery)
            if (row === undefined || !row.isSending || row.attempts !== delivery.attempt) return
            Object.assign(row, { attempts: row.attempts - 1, isSending: false, dueAt: until })
          }),
        recordOutcomes: (outcomes) => Effect.sync(() => outcomes.flatMap(rows.recordOutcome)),
        committed: () => {}
      },
      deleteBefore: (before) =>
        Effect.sync(() => {
          for (const [key, { createdAt }] of deliveries) if (createdAt < before) deliveries.delete(key)
          return 0
        }),
      dropOld: (before) =>
        Effect.sync(() => {
          const old = [...deliveries.values()].filter(({ dueAt, endpointId, isSending }) =>
            dueAt !== null && !isSending && dueAt < before && !isSent(endpointId)
          )
          for (const row of old) Object.assign(row, { dueAt: null, dropped: "too_old" })
          return old.length
        }),
      dropBacklog: () => Effect.succeed(0),
      health: Effect.sync(() =>
        [...endpoints.values()].map(({ endpoint: { disabledReason, failingSince } }) => ({
          disabledReason,
          failingSince,
          oldestDue: null
        }))
      )
    })
  })
)
