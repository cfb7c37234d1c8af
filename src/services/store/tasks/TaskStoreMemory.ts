/** Every store of tasks and of webhooks in memory, and the one set of rows that they share. */
import { Effect, Layer } from "effect"
import type { TaskId } from "../../../domain/Task.ts"
import { plus } from "../../../domain/Timestamp.ts"
import { MemoryTables } from "../MemoryTables.ts"
import * as RunQueueMemory from "../queue/RunQueueMemory.ts"
import * as WebhookStoreMemory from "../webhooks/WebhookStoreMemory.ts"
import { StopOutbox } from "./StopOutbox.ts"
import * as TaskReadsMemory from "./TaskReadsMemory.ts"
import { TaskRetention } from "./TaskRetention.ts"
import * as TaskScansMemory from "./TaskScansMemory.ts"
import * as TaskWritesMemory from "./TaskWritesMemory.ts"

const layerRetention = Layer.effect(
  TaskRetention,
  Effect.map(MemoryTables, ({ claims, deliveries, provenOrigins, tasks }) => {
    const deleteRows = (uuid: TaskId) => {
      for (const [id, { taskId }] of deliveries) if (taskId === uuid) deliveries.delete(id)
      return tasks.delete(uuid)
    }
    return TaskRetention.of({
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
          const expired = [...claims].filter(([, { expiresAt }]) => expiresAt <= at).slice(0, limit)
          for (const [key] of expired) claims.delete(key)
          return expired.length
        })
    })
  })
)

const layerStops = Layer.effect(
  StopOutbox,
  Effect.map(MemoryTables, ({ stops, tasks }) =>
    StopOutbox.of({
      claim: (at, lease, limit) =>
        Effect.sync(() =>
          [...stops].filter(([, stop]) => stop.dueAt <= at).slice(0, limit).map(([runId, stop]) => {
            stop.attempts += 1
            stop.dueAt = plus(at, lease)
            const endedAt = tasks.get(stop.taskId)?.completedAt ?? null
            return { runId, taskId: stop.taskId, reason: stop.reason, attempt: stop.attempts, endedAt }
          })
        ),
      record: (runId) => Effect.sync(() => void stops.delete(runId)),
      postpone: (runId, until) =>
        Effect.sync(() => {
          const stop = stops.get(runId)
          if (stop !== undefined) stop.dueAt = until
        })
    }))
)

export const layer = Layer.mergeAll(
  TaskWritesMemory.layer,
  TaskReadsMemory.layer,
  TaskScansMemory.layer,
  layerRetention,
  layerStops,
  RunQueueMemory.layer,
  WebhookStoreMemory.layer
).pipe(Layer.provideMerge(MemoryTables.layer))
