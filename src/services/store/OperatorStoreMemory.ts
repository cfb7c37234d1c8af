/** Searches of operators in memory: for tests. */
import { Effect, Layer, Option } from "effect"
import type { Timestamp } from "../../domain/Timestamp.ts"
import { type Delivery, deliveryId } from "../../domain/Webhook.ts"
import { History } from "./History.ts"
import * as HistoryMemory from "./HistoryMemory.ts"
import { bytesOf, headOf, liveRows, MemoryTables, type TaskRow } from "./MemoryTables.ts"
import {
  type DeliverySearch,
  errorLength,
  type FoundTask,
  groupedFailures,
  listedOrigins,
  newestFirst,
  OperatorStore,
  orderOf,
  type OriginStats,
  pageOf,
  type Position,
  type Range,
  type TaskSearch
} from "./OperatorStore.ts"
import { RevocationRepository } from "./RevocationRepository.ts"
import { TaskReads } from "./TaskReads.ts"
import { TaskScans } from "./TaskScans.ts"
import { WebhookStore } from "./WebhookStore.ts"

const isIn = ({ from, to }: Range, at: Timestamp) => at >= from && at < to

/** The rows after a position, in the order of `compare`, with one more than a page. */
const after = <Key extends Position>(keys: ReadonlyArray<Key>, position: Position | null, limit: number) => {
  const rest = keys.toSorted(newestFirst).filter((key) => position === null || newestFirst(position, key) < 0)
  return pageOf(rest.slice(0, limit + 1), limit, undefined)
}

const shortError = (error: string | null) => error?.slice(0, errorLength) ?? null

const foundOf = (row: TaskRow): FoundTask => ({
  uuid: row.task.uuid,
  sub: row.task.principal.sub,
  status: row.status,
  error: shortError(row.error),
  createdAt: row.task.createdAt,
  completedAt: row.completedAt,
  deadline: row.task.deadline,
  acceptanceDeadline: row.acceptanceDeadline,
  callbackUrl: row.task.callbackUrl,
  pendingTools: (row.pendingToolCalls ?? []).map(({ name }) => name)
})

const findTasks = (rows: Iterable<TaskRow>, search: TaskSearch) => {
  const order = orderOf(search)
  const keys = [...rows].flatMap((row) => {
    const moment = order === "failed" ? row.completedAt : row.task.createdAt
    const isMatch = moment !== null && isIn(search, moment) &&
      (search.sub ?? row.task.principal.sub) === row.task.principal.sub &&
      (search.status ?? row.status) === row.status &&
      (search.error === null || shortError(search.error) === shortError(row.error))
    // Live tasks are ordered by id alone.
    return isMatch ? [{ at: moment, id: row.task.uuid, row }] : []
  })
  if (order !== "live") return after(keys, search.after, search.limit)
  const sorted = keys.toSorted((one, other) => one.id < other.id ? 1 : -1).filter(({ id }) =>
    search.after === null || id < search.after.id
  )
  return pageOf(sorted.slice(0, search.limit + 1), search.limit, undefined)
}

const lastErrorOf = ({ attempts }: Delivery) => attempts.at(-1)?.error ?? null

const findDeliveries = (all: ReadonlyArray<Delivery>, search: DeliverySearch) =>
  after(
    all.filter((delivery) =>
      isIn(search, delivery.createdAt) && (search.origin ?? delivery.origin) === delivery.origin &&
      (search.state ?? delivery.state) === delivery.state &&
      (search.error === null || search.error === lastErrorOf(delivery))
    ).map((delivery) => ({ at: delivery.createdAt, id: deliveryId(delivery), delivery })),
    search.after,
    search.limit
  )

const originsOf = (all: ReadonlyArray<Delivery>, range: Range): ReadonlyArray<OriginStats> => {
  const byOrigin = Map.groupBy(all, ({ origin }) => origin)
  return [...byOrigin].map(([origin, deliveries]): OriginStats => {
    const failed = deliveries.filter(({ createdAt, state }) => state === "failed" && isIn(range, createdAt))
      .toSorted((one, other) => one.createdAt - other.createdAt)
    const newest = failed.at(-1)
    return {
      origin,
      pending: deliveries.filter(({ state }) => state === "pending").length,
      failed: failed.length,
      lastError: newest === undefined ? null : lastErrorOf(newest),
      oldestFailedAt: failed[0]?.createdAt ?? null
    }
  }).filter(({ failed, pending }) => failed + pending > 0)
    .toSorted((one, other) =>
      other.failed - one.failed || other.pending - one.pending || (one.origin < other.origin ? -1 : 1)
    )
}

const make = Effect.gen(function*() {
  const tables = yield* MemoryTables
  const webhooks = yield* WebhookStore
  const allDeliveries = webhooks.find({ limit: Infinity })

  return OperatorStore.of({
    tasks: (search) =>
      Effect.sync(() => {
        const page = findTasks(tables.tasks.values(), search)
        return { ...page, rows: page.rows.map(({ row }) => foundOf(row)) }
      }),
    task: (uuid) =>
      Effect.sync(() =>
        Option.map(Option.fromNullishOr(tables.tasks.get(uuid)), (row) => ({
          found: foundOf(row),
          head: headOf(row),
          requestBytes: bytesOf(row.task.request),
          turnBytes: row.turn === null ? null : bytesOf(row.turn)
        }))
      ),
    failures: (range) =>
      Effect.sync(() =>
        [...tables.tasks.values()].flatMap(({ completedAt: at, error, status, task: { uuid } }) =>
          status === "failed" && at !== null && isIn(range, at)
            ? [{ uuid, error: shortError(error) ?? "", at, id: uuid }]
            : []
        ).toSorted(newestFirst).slice(0, groupedFailures)
      ),
    clocks: (limit) =>
      Effect.sync(() =>
        liveRows(tables).flatMap(({ acceptanceDeadline, status, task: { deadline, principal: { sub }, uuid } }) => {
          const task = { uuid, sub, status }
          const isPending = status === "pending" && acceptanceDeadline !== null
          return [
            ...(isPending ? [{ ...task, clock: "acceptance" as const, dueAt: acceptanceDeadline }] : []),
            { ...task, clock: "time_limit" as const, dueAt: deadline }
          ]
        }).toSorted((one, other) => one.dueAt - other.dueAt || (one.uuid < other.uuid ? -1 : 1)).slice(0, limit)
      ),
    stops: (limit) =>
      Effect.sync(() =>
        [...tables.stops].map(([runId, stop]) => ({ runId, ...stop }))
          .toSorted((one, other) => one.dueAt - other.dueAt).slice(0, limit)
      ),
    origins: (range) =>
      Effect.map(allDeliveries, (all) => {
        const origins = originsOf(all, range)
        return { origins: origins.slice(0, listedOrigins), isComplete: origins.length <= listedOrigins }
      }),
    deliveries: (search) =>
      Effect.map(allDeliveries, (all) => {
        const page = findDeliveries(all, search)
        return { ...page, rows: page.rows.map(({ delivery }) => delivery) }
      }),
    deliveryIds: (search) => Effect.map(allDeliveries, (all) => findDeliveries(all, search)),
    scans: yield* TaskScans,
    reads: yield* TaskReads,
    webhooks,
    revocations: yield* RevocationRepository,
    history: yield* History
  })
})

export const layer = Layer.effect(OperatorStore, make).pipe(Layer.provide(HistoryMemory.layer))
