/** The queue in memory, by the rules of `QueueFunctions`. */
import { Effect, Layer } from "effect"
import { isRunning, type Room } from "../../../domain/Task.ts"
import * as TaskShard from "../../../domain/TaskShard.ts"
import { fromMicros, type Timestamp } from "../../../domain/Timestamp.ts"
import { headOf, liveRows, MemoryTables, type TaskRow, type WaitingRow } from "../MemoryTables.ts"
import {
  type AssistantQueue,
  listedAssistants,
  maxPosition,
  resumedClass,
  risesAfter,
  type RunLimits,
  RunQueue
} from "./RunQueue.ts"

type Tables = MemoryTables["Service"]

const inOrder = (one: WaitingRow, other: WaitingRow) =>
  one.ticket - other.ticket || one.since - other.since || (one.taskId < other.taskId ? -1 : 1)

const limitOf = ({ assistantLimits }: Tables, assistantId: number, { runsPerAssistant }: RunLimits) =>
  assistantLimits.get(assistantId)?.runs ?? runsPerAssistant ?? Infinity

const isPaused = ({ assistantLimits }: Tables, assistantId: number) =>
  assistantLimits.get(assistantId)?.isPaused === true

/** Whether an operator has set something that holds runs of the assistant. */
export const hasLimit = ({ assistantLimits }: Tables, assistantId: number) => {
  const found = assistantLimits.get(assistantId)
  return found !== undefined && (found.runs !== null || found.isPaused)
}

const held = (tables: Tables, assistantId?: number) =>
  liveRows(tables).filter((row) =>
    row.room === "held" && (assistantId === undefined || row.task.assistantId === assistantId)
  ).length

/** Puts the run of a task into the queue. */
export const enqueue = (tables: Tables, row: TaskRow): void => {
  const isResumed = row.status === "processing"
  const { assistantId, createdAt, priority, uuid } = row.task
  const since = isResumed ? row.events.at(-1)!.occurredAt : createdAt
  const own = [...tables.waiting.values()].filter((other) => other.sub === row.sub && other.class === priority)
  tables.waiting.set(uuid, {
    taskId: uuid,
    assistantId,
    sub: row.sub,
    class: isResumed ? resumedClass : priority,
    ticket: isResumed ? since : Math.max(tables.tickets.last, ...own.map(({ ticket }) => ticket + 1)),
    since
  })
}

/** The room of a new run. */
export const takeRoom = (tables: Tables, assistantId: number, waits: boolean, limits: RunLimits): Room | null => {
  if (waits) return "waiting"
  if (limits.runs === null && limits.runsPerAssistant === null && !hasLimit(tables, assistantId)) return null
  return tables.waiting.size === 0 && held(tables) < (limits.runs ?? Infinity) && !isPaused(tables, assistantId) &&
      held(tables, assistantId) < limitOf(tables, assistantId, limits)
    ? "held"
    : "waiting"
}

export const layer = Layer.effect(
  RunQueue,
  Effect.map(MemoryTables, (tables) => {
    const { assistantLimits, tasks, tickets, waiting } = tables
    const rows = () => [...waiting.values()]
    const running = () => liveRows(tables).filter(({ room, status }) => isRunning(status) && room !== "waiting")
    const oldest = (of: ReadonlyArray<WaitingRow>): Timestamp | null =>
      of.length === 0 ? null : fromMicros(Math.min(...of.map(({ since }) => since)))
    const ofAssistant = (assistantId: number): AssistantQueue => {
      const own = rows().filter((row) => row.assistantId === assistantId)
      return {
        ...(assistantLimits.get(assistantId) ?? { runs: null, isPaused: false }),
        assistantId,
        running: running().filter(({ task }) => task.assistantId === assistantId).length,
        waiting: own.length,
        oldestWaitingSince: oldest(own)
      }
    }

    return RunQueue.of({
      read: Effect.sync(() => {
        const ids = [
          ...running().map(({ task }) => task.assistantId),
          ...rows().map(({ assistantId }) => assistantId),
          ...assistantLimits.keys()
        ]
        return {
          running: running().length,
          waiting: waiting.size,
          oldestWaitingSince: oldest(rows()),
          assistants: [...new Set(ids)].map(ofAssistant).toSorted((one, other) =>
            other.waiting - one.waiting || other.running - one.running || one.assistantId - other.assistantId
          ).slice(0, listedAssistants)
        }
      }),
      positions: (uuids) =>
        Effect.sync(() => {
          const order = rows().toSorted((one, other) => other.class - one.class || inOrder(one, other))
          return new Map(
            order.flatMap(({ taskId }, index) =>
              uuids.includes(taskId) ? [[taskId, Math.min(index + 1, maxPosition)] as const] : []
            )
          )
        }),
      setAssistant: (assistantId, change) =>
        Effect.sync(() => {
          const before = assistantLimits.get(assistantId) ?? { runs: null, isPaused: false }
          assistantLimits.set(assistantId, { ...before, ...change })
          for (const row of running()) if (row.task.assistantId === assistantId) row.room ??= "held"
          return ofAssistant(assistantId)
        }),
      admit: ({ at, floor, limits, most, servedAt, shards }) =>
        Effect.sync(() => {
          const served = [...servedAt]
          const mine = () => rows().filter(({ taskId }) => shards?.includes(TaskShard.of(taskId)) !== false)
          const isOpen = (row: WaitingRow) =>
            held(tables, row.assistantId) < limitOf(tables, row.assistantId, limits) &&
            (row.class === resumedClass || !isPaused(tables, row.assistantId))
          /** The class in which the first row of a class is now. */
          const rankOf = (row: WaitingRow) =>
            row.class === resumedClass
              ? Infinity
              : row.class + Math.max(0, Math.floor((at - Math.max(row.since, servedAt[row.class]!)) / risesAfter))
          const heads: Array<ReturnType<typeof headOf>> = []
          const raised = new Set<number>()
          while (heads.length < most && held(tables) < (limits.runs ?? Infinity)) {
            const open = mine().filter(isOpen).toSorted(inOrder)
            const firsts = [...new Map(open.toReversed().map((row) => [row.class, row])).values()].map((row) => ({
              row,
              // Only the first row of a class rises.
              rank: raised.has(row.class) ? row.class : rankOf(row)
            }))
            const [next] = firsts.toSorted((one, other) =>
              other.rank === one.rank ? inOrder(one.row, other.row) : other.rank - one.rank
            )
            if (next === undefined) break
            const { row: { class: own, taskId, ticket } } = next
            raised.add(own)
            served[own] = at
            waiting.delete(taskId)
            if (own !== resumedClass) tickets.last = Math.max(tickets.last, ticket)
            const task = tasks.get(taskId)
            if (task?.room !== "waiting") continue
            task.room = "held"
            task.queueRevision++
            // The core cannot know a resumed run from before.
            if (task.resumedAt !== null) task.resumedAt = at
            if (own === resumedClass) task.events.at(-1)!.startedAt = at
            heads.push(headOf(task))
          }
          const outcome = mine().length === 0 && heads.length === 0 ? "empty" : heads.length >= most ? "more" : "full"
          return { outcome, heads, floor, servedAt: served }
        }),
      putBack: (uuid, runId) =>
        Effect.sync(() => {
          const row = tasks.get(uuid)
          if (row === undefined) return undefined
          const mayBeAtCore = row.status === "pending" || (row.status === "processing" && row.resumedAt !== null)
          if (row.runId === runId && row.room !== "waiting" && mayBeAtCore) {
            row.room = "waiting"
            row.acceptanceDeadline = null
            row.queueRevision++
            enqueue(tables, row)
            const own = rows().filter((other) => other.sub === row.sub && other.class !== resumedClass)
            for (const [, group] of Map.groupBy(own, (other) => other.class)) {
              const sorted = group.map(({ ticket }) => ticket).toSorted((one, other) => one - other)
              const byAge = group.toSorted((one, other) =>
                one.since - other.since || (one.taskId < other.taskId ? -1 : 1)
              )
              for (const [index, other] of byAge.entries()) other.ticket = sorted[index]!
            }
          }
          return headOf(row)
        }),
      count: (uuids) =>
        Effect.sync(() => {
          for (const row of running()) if (uuids.includes(row.task.uuid)) row.room ??= "held"
        })
    })
  })
)
