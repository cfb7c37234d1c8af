/** Every store of tasks and of webhooks in memory, over one set of rows. */
import { Effect, Layer } from "effect"
import type { TaskId } from "../../domain/Task.ts"
import { plus } from "../../domain/Timestamp.ts"
import { FacadeLegs, turnEvents } from "./FacadeLegs.ts"
import { MemoryTables } from "./MemoryTables.ts"
import * as OperatorStoreMemory from "./OperatorStoreMemory.ts"
import { StopOutbox } from "./StopOutbox.ts"
import * as TaskReadsMemory from "./TaskReadsMemory.ts"
import { TaskRetention } from "./TaskRetention.ts"
import * as TaskScansMemory from "./TaskScansMemory.ts"
import * as TaskWritesMemory from "./TaskWritesMemory.ts"
import * as WebhookStoreMemory from "./WebhookStoreMemory.ts"

const layerRetention = Layer.effect(
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

const isTurn = (type: string) => turnEvents.some((name) => name === type)

const layerLegs = Layer.effect(
  FacadeLegs,
  Effect.map(MemoryTables, ({ legs, tasks }) => {
    const rowsOf = (taskId: string) => legs.filter((row) => row.taskId === taskId)
    return FacadeLegs.of({
      add: (leg) =>
        Effect.sync(() => {
          if (!rowsOf(leg.taskId).some((row) => row.leg === leg.leg)) legs.push({ ...leg, output: null })
        }),
      freeze: (taskId, leg, output) =>
        Effect.sync(() => {
          for (const row of rowsOf(taskId)) if (row.leg === leg) row.output = output
        }),
      find: (taskId, leg) =>
        Effect.sync(() => {
          const row = rowsOf(taskId).filter((row) => row.leg <= leg).toSorted((a, b) => b.leg - a.leg)[0]
          if (row === undefined) return undefined
          const types = (tasks.get(row.taskId)?.events ?? []).map(({ type }) => type)
          const { createdAt, output, request } = row
          return {
            leg: row.leg,
            request,
            output,
            createdAt,
            current: types.filter((type) => type === "ToolResultsSubmitted").length,
            hasTurn: types.slice(types.lastIndexOf("ToolResultsSubmitted") + 1).some(isTurn)
          }
        })
    })
  })
)

export const layer = Layer.mergeAll(
  TaskWritesMemory.layer,
  TaskReadsMemory.layer,
  TaskScansMemory.layer,
  layerRetention,
  layerStops,
  layerLegs,
  WebhookStoreMemory.layer
).pipe((stores) => Layer.provideMerge(OperatorStoreMemory.layer, stores), Layer.provide(MemoryTables.layer))
