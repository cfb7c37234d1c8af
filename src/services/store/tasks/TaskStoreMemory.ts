/** The store of tasks in memory, by the rules of `TaskStoreSql`; and every store in memory, with the one set of rows that they share. */
import { Duration, Effect, Layer } from "effect"
import { dueAt } from "../../../domain/Deadline.ts"
import * as Revocation from "../../../domain/Revocation.ts"
import { isRunning, type TaskId } from "../../../domain/Task.ts"
import * as TaskShard from "../../../domain/TaskShard.ts"
import { now, plus } from "../../../domain/Timestamp.ts"
import { byId, headOf, liveRows, MemoryTables, type TaskRow } from "../MemoryTables.ts"
import * as RunQueueMemory from "../queue/RunQueueMemory.ts"
import { RevocationRepository, visibilityLag } from "../revocations/RevocationRepository.ts"
import * as WebhookStoreMemory from "../webhooks/WebhookStoreMemory.ts"
import * as TaskReadsMemory from "./TaskReadsMemory.ts"
import { type Page, sumStats, TaskStore } from "./TaskStore.ts"
import * as TaskWritesMemory from "./TaskWritesMemory.ts"

const nextOf = (row: TaskRow) => dueAt(headOf(row))

const isIn = (shards: Page[2], uuid: TaskId) => shards === undefined || shards.includes(TaskShard.of(uuid))

const layerTasks = Layer.effect(
  TaskStore,
  Effect.gen(function*() {
    const tables = yield* MemoryTables
    const { deliveries, keys, provenOrigins, stops, tasks } = tables
    const revocations = yield* RevocationRepository
    const pageOf = (isWanted: (row: TaskRow) => boolean, [after, limit, shards]: Page) =>
      Effect.sync(() =>
        liveRows(tables).toSorted(byId).filter((row) =>
          isWanted(row) && (after === undefined || row.task.uuid > after) && isIn(shards, row.task.uuid)
        ).slice(0, limit).map(headOf)
      )
    const deleteRows = (uuid: TaskId) => {
      for (const [id, { taskId }] of deliveries) if (taskId === uuid) deliveries.delete(id)
      return tasks.delete(uuid)
    }

    return TaskStore.of({
      ...(yield* TaskWritesMemory.make),
      ...(yield* TaskReadsMemory.make),

      running: (...page) => pageOf(({ room, status }) => isRunning(status) && room !== "waiting", page),
      dueWithin: (from, to, ...page) => pageOf(({ task: { deadline } }) => deadline > from && deadline <= to, page),
      nextDeadline: (shards) =>
        Effect.sync(() => {
          const deadlines = liveRows(tables).flatMap(({ task: { deadline, uuid } }) =>
            isIn(shards, uuid) ? deadline : []
          )
          return deadlines.toSorted((one, other) => one - other)[0] ?? null
        }),

      overdue: (at, limit) =>
        Effect.sync(() => liveRows(tables).filter((row) => nextOf(row) <= at).slice(0, limit).map(headOf)),

      revoked: Effect.fnUntraced(function*(within, limit) {
        const from = within === undefined ? undefined : plus(plus(yield* now, Duration.negate(within)), visibilityLag)
        const { revocations: recent } = yield* revocations.since(from)
        return liveRows(tables)
          .filter(({ principal, room, status }) =>
            (status === "processing" || room === "waiting") &&
            recent.some((revocation) => Revocation.covers(revocation, principal))
          )
          .slice(0, limit)
          .map(headOf)
      }),

      liveStats: Effect.sync(() =>
        sumStats(liveRows(tables).map((row) => ({ status: row.status, count: 1, next: nextOf(row) })))
      ),

      deleteTask: (uuid) => Effect.sync(() => typeof tasks.get(uuid)?.completedAt === "number" && deleteRows(uuid)),

      deleteEnded: (before, limit) =>
        Effect.sync(() => {
          const ended = [...tasks.values()].filter(({ completedAt, task }) =>
            completedAt !== null && completedAt <= before && !WebhookStoreMemory.isPending(deliveries, task.uuid)
          ).slice(0, limit)
          for (const { task } of ended) deleteRows(task.uuid)
          return ended.length
        }),

      deleteOrigins: (before, limit) =>
        Effect.sync(() => {
          const old = [...provenOrigins].filter(([, provenAt]) => provenAt <= before).slice(0, limit)
          for (const [origin] of old) provenOrigins.delete(origin)
          return old.length
        }),

      deleteExpiredKeys: (at, limit) =>
        Effect.sync(() => {
          const expired = [...keys].filter(([, { expiresAt }]) => expiresAt <= at).slice(0, limit)
          for (const [key] of expired) keys.delete(key)
          return expired.length
        }),

      claimStops: (at, lease, limit) =>
        Effect.sync(() =>
          [...stops].filter(([, stop]) => stop.dueAt <= at).slice(0, limit).map(([runId, stop]) => {
            stop.attempts += 1
            stop.dueAt = plus(at, lease)
            const endedAt = tasks.get(stop.taskId)?.completedAt ?? null
            return { runId, taskId: stop.taskId, reason: stop.reason, attempt: stop.attempts, endedAt }
          })
        ),
      deleteStop: (runId) => Effect.sync(() => void stops.delete(runId)),
      postponeStop: (runId, until) =>
        Effect.sync(() => {
          const stop = stops.get(runId)
          if (stop !== undefined) stop.dueAt = until
        })
    })
  })
)

export const layer = Layer.mergeAll(
  layerTasks,
  RunQueueMemory.layer,
  WebhookStoreMemory.layer
).pipe(Layer.provideMerge(MemoryTables.layer))
