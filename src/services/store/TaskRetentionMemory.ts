import { Effect, Layer } from "effect"
import type { TaskId } from "../../domain/Task.ts"
import { MemoryTables } from "./MemoryTables.ts"
import { TaskRetention } from "./TaskRetention.ts"
import * as WebhookStoreMemory from "./WebhookStoreMemory.ts"

export const layer = Layer.effect(
  TaskRetention,
  Effect.map(MemoryTables, ({ claims, deliveries, legs, tasks }) => {
    const deleteRows = (uuid: TaskId) => {
      for (const [id, { taskId }] of deliveries) if (taskId === uuid) deliveries.delete(id)
      legs.splice(0, legs.length, ...legs.filter(({ taskId }) => taskId !== uuid))
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

      deleteExpiredKeys: (at, limit) =>
        Effect.sync(() => {
          const expired = [...claims].filter(([, { expiresAt }]) => expiresAt <= at).slice(0, limit)
          for (const [key] of expired) claims.delete(key)
          return expired.length
        })
    })
  })
)
