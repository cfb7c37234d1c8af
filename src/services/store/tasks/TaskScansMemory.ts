import { Duration, Effect, Layer } from "effect"
import { dueAt } from "../../../domain/Deadline.ts"
import * as Revocation from "../../../domain/Revocation.ts"
import type { TaskId } from "../../../domain/Task.ts"
import * as TaskShard from "../../../domain/TaskShard.ts"
import { now, plus } from "../../../domain/Timestamp.ts"
import { byId, headOf, liveRows, MemoryTables, type TaskRow } from "../MemoryTables.ts"
import { RevocationRepository, visibilityLag } from "../revocations/RevocationRepository.ts"
import { type Page, sumStats, TaskScans } from "./TaskScans.ts"

const nextOf = (row: TaskRow) => dueAt(headOf(row))

const isIn = (shards: Page[2], uuid: TaskId) => shards === undefined || shards.includes(TaskShard.of(uuid))

export const layer = Layer.effect(
  TaskScans,
  Effect.gen(function*() {
    const tables = yield* MemoryTables
    const revocations = yield* RevocationRepository
    const pageOf = (isWanted: (row: TaskRow) => boolean, [after, limit, shards]: Page) =>
      Effect.sync(() =>
        liveRows(tables).toSorted(byId).filter((row) =>
          isWanted(row) && (after === undefined || row.task.uuid > after) && isIn(shards, row.task.uuid)
        ).slice(0, limit).map(headOf)
      )
    return TaskScans.of({
      running: (...page) => pageOf(({ room, status }) => status !== "interrupted" && room !== "waiting", page),
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
      )
    })
  })
)
