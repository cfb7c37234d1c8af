import { Effect, Layer } from "effect"
import { FacadeLegs, turnEvents } from "./FacadeLegs.ts"
import { MemoryTables } from "./MemoryTables.ts"

const isTurn = (type: string) => turnEvents.some((name) => name === type)

export const layer = Layer.effect(
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
