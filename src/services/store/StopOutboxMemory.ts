import { Effect, Layer } from "effect"
import { plus } from "../../domain/Timestamp.ts"
import { MemoryTables } from "./MemoryTables.ts"
import { StopOutbox } from "./StopOutbox.ts"

export const layer = Layer.effect(
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
