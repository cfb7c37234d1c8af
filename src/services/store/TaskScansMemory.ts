import { Duration, Effect, Layer } from "effect"
import * as Revocation from "../../domain/Revocation.ts"
import * as TaskShard from "../../domain/TaskShard.ts"
import { now, plus, Timestamp } from "../../domain/Timestamp.ts"
import { byId, headOf, liveRows, MemoryTables, type TaskRow } from "./MemoryTables.ts"
import { RevocationRepository, visibilityLag } from "./RevocationRepository.ts"
import { sumStats, TaskScans } from "./TaskScans.ts"

/** The next deadline of a live task. */
const nextOf = ({ acceptanceDeadline, status, task }: TaskRow) =>
  Timestamp.make(Math.min(task.deadline, status === "pending" ? acceptanceDeadline ?? Infinity : Infinity))

const statsOf = (rows: Iterable<TaskRow>) =>
  sumStats([...rows].map((row) => ({
    status: row.status,
    count: 1,
    next: row.completedAt === null ? nextOf(row) : null
  })))

export const layer = Layer.effect(
  TaskScans,
  Effect.gen(function*() {
    const tables = yield* MemoryTables
    const revocations = yield* RevocationRepository
    return TaskScans.of({
      live: (after, limit, shards) =>
        Effect.sync(() =>
          liveRows(tables).toSorted(byId).filter(({ task: { uuid } }) =>
            (after === undefined || uuid > after) && (shards === undefined || shards.includes(TaskShard.of(uuid)))
          ).slice(0, limit).map(headOf)
        ),

      overdue: (at, limit) =>
        Effect.sync(() => liveRows(tables).filter((row) => nextOf(row) <= at).slice(0, limit).map(headOf)),

      revoked: Effect.fnUntraced(function*(within, limit) {
        const from = within === undefined ? undefined : plus(plus(yield* now, Duration.negate(within)), visibilityLag)
        const { revocations: recent } = yield* revocations.since(from)
        return liveRows(tables)
          .filter(({ principal, status }) =>
            status === "processing" && recent.some((revocation) => Revocation.covers(revocation, principal))
          )
          .slice(0, limit)
          .map(headOf)
      }),

      stats: Effect.sync(() => statsOf(tables.tasks.values())),
      liveStats: Effect.sync(() => statsOf(liveRows(tables)))
    })
  })
)
