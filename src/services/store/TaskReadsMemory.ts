import { Effect, Layer, Option } from "effect"
import * as Limits from "../../domain/Limits.ts"
import { byId, claimOf, headOf, MemoryTables, summaryOf, type TaskRow } from "./MemoryTables.ts"
import { TaskReads } from "./TaskReads.ts"

const bytesOf = (text: string) => new TextEncoder().encode(text).length

const newestFirst = (a: TaskRow, b: TaskRow) => b.task.createdAt - a.task.createdAt || byId(b, a)

export const layer = Layer.effect(
  TaskReads,
  Effect.map(MemoryTables, (tables) => {
    const rows = tables.tasks
    return TaskReads.of({
      get: (uuid) =>
        Effect.sync(() =>
          Option.map(Option.fromNullishOr(rows.get(uuid)), (row) => ({
            ...summaryOf(row),
            turn: row.turn,
            revision: row.revision,
            runId: row.runId,
            deadline: row.task.deadline,
            acceptanceDeadline: row.acceptanceDeadline
          }))
        ),

      heads: (uuids) => Effect.sync(() => uuids.flatMap((uuid) => rows.get(uuid) ?? []).map(headOf)),

      list: ({ metadata, page, perPage, statuses, sub }) =>
        Effect.sync(() => {
          const matching = [...rows.values()]
            .filter((row) => row.task.principal.sub === sub && (statuses.length === 0 || statuses.includes(row.status)))
            .filter(({ task }) =>
              Object.entries(metadata ?? {}).every(([key, value]) => task.metadata?.[key] === value)
            )
            .toSorted(newestFirst)
          const start = (page - 1) * perPage
          return { tasks: matching.slice(start, start + perPage).map(summaryOf), total: matching.length }
        }),

      metadata: (sub, uuids) =>
        Effect.sync(() =>
          new Map(uuids.flatMap((uuid) => {
            const task = rows.get(uuid)?.task
            return task?.principal.sub === sub && task.metadata !== null ? [[uuid, task.metadata]] : []
          }))
        ),

      asked: (uuid) =>
        Effect.sync(() =>
          Option.fromNullishOr(rows.get(uuid)?.task).pipe(
            Option.filter(({ request }) => bytesOf(request) <= Limits.keptRequestBytes),
            Option.map(({ callbackUrl, maxExecutionTime, metadata, request }) => ({
              callbackUrl,
              maxExecutionTime,
              metadata,
              request
            }))
          )
        ),

      eventsAfter: (uuid, revision, limit) =>
        Effect.sync(() => (rows.get(uuid)?.events ?? []).filter((event) => event.revision > revision).slice(0, limit)),

      pendingRun: (uuid) =>
        Effect.sync(() =>
          Option.fromNullishOr(rows.get(uuid)).pipe(
            Option.filter(({ status }) => status === "pending" || status === "processing"),
            Option.map((row) => ({
              principal: row.principal,
              runId: row.runId,
              deadline: row.task.deadline,
              request: row.task.request,
              userToken: row.userToken,
              resume: row.toolResults === null ? null : { state: row.coreState, results: row.toolResults }
            }))
          )
        ),

      claimed: (sub, key, at) =>
        Effect.sync(() =>
          Option.map(
            Option.fromNullishOr(claimOf(tables, sub, key, at)),
            ({ fingerprint, taskId }) => ({ fingerprint, taskId })
          )
        )
    })
  })
)
