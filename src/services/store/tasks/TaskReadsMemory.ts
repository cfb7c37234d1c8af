/** Reads of known tasks in memory. */
import { Effect, Option, Struct } from "effect"
import * as Excerpt from "../../../domain/Excerpt.ts"
import { encode, textOf } from "../../../domain/json/OpaqueJson.ts"
import * as Limits from "../../../domain/Limits.ts"
import { hasAll } from "../../../domain/Metadata.ts"
import { isRunning, type TaskId } from "../../../domain/Task.ts"
import { KeptFields } from "../../../domain/TaskRequest.ts"
import { byId, bytesOf, headOf, keyOf, MemoryTables, summaryOf, taskOf, type TaskRow } from "../MemoryTables.ts"
import { idPattern, matchesIn } from "./TaskSearch.ts"
import { type NewTask, partOf, type PendingRun, type TaskFilter, type TaskSearched } from "./TaskStore.ts"

const newestFirst = (a: TaskRow, b: TaskRow) => b.task.createdAt - a.task.createdAt || byId(b, a)

const runOf = ({ coreState, principal, runId, task, toolResults, userToken }: TaskRow): PendingRun => ({
  principal,
  runId,
  deadline: task.deadline,
  request: task.request,
  userToken,
  resume: toolResults === null ? null : { state: coreState, results: toolResults }
})

type Rows = ReadonlyMap<TaskId, TaskRow>

/** The values of `of` for those `uuids` that are tasks of `sub`. */
const foundIn = <A>(rows: Rows, sub: string, uuids: ReadonlyArray<TaskId>, of: (task: NewTask) => A | null) =>
  new Map(uuids.flatMap((uuid): ReadonlyArray<readonly [TaskId, A]> => {
    const task = rows.get(uuid)?.task
    const found = task?.principal.sub === sub ? of(task) : null
    return found === null ? [] : [[uuid, found]]
  }))

const excerptsOf = (rows: Rows, sub: string, uuids: ReadonlyArray<TaskId>) =>
  foundIn(rows, sub, uuids, ({ request }) => Excerpt.of(textOf(encode(request))))

/** The tasks of a user that are chosen. */
const chosenOf = (
  rows: Rows,
  { assistantId = null, from = null, statuses, sub, to = null }: Omit<TaskFilter, "page" | "perPage">
) =>
  [...rows.values()].filter(({ status, task }) =>
    task.principal.sub === sub && (statuses.length === 0 || statuses.includes(status)) &&
    (assistantId === null || task.assistantId === assistantId) &&
    (from === null || task.createdAt >= from) && (to === null || task.createdAt < to)
  )

const search = (rows: Rows, sub: string, { text, ...chosen }: TaskSearched) => {
  const own = chosenOf(rows, { sub, ...chosen })
  const [wanted, pattern] = [text.toLowerCase(), idPattern(text)]
  const parts = pattern?.split("%").filter((part) => part !== "") ?? []
  const isNamed = ({ task, uuid }: TaskRow) =>
    (parts.length > 0 && parts.every((part) => uuid.includes(part))) ||
    Object.entries(task.metadata ?? {}).some(([key, value]) => `${key}: ${value}`.toLowerCase().includes(wanted))
  const ids = own.map(({ uuid }) => uuid)
  return [...new Set([...own.filter(isNamed).map(({ uuid }) => uuid), ...matchesIn(excerptsOf(rows, sub, ids), text)])]
}

export const make = Effect.map(MemoryTables, (tables) => {
  const rows = tables.tasks
  return partOf({
    get: (uuid) => Effect.sync(() => Option.map(Option.fromNullishOr(rows.get(uuid)), taskOf)),

    outline: (uuid) =>
      Effect.sync(() =>
        Option.map(Option.fromNullishOr(rows.get(uuid)), (row) => ({
          ...taskOf(row),
          turnBytes: row.turn === null ? 0 : bytesOf(row.turn)
        }))
      ),

    turn: (uuid) => Effect.sync(() => Option.fromNullishOr(rows.get(uuid)?.turn)),

    heads: (uuids) => Effect.sync(() => uuids.flatMap((uuid) => rows.get(uuid) ?? []).map(headOf)),

    list: ({ metadata, page, perPage, uuids, ...chosen }) =>
      Effect.sync(() => {
        const matching = chosenOf(rows, chosen)
          .filter(({ task, uuid }) => hasAll(task.metadata, metadata ?? {}) && (uuids?.includes(uuid) ?? true))
          .toSorted(newestFirst)
        const start = (page - 1) * perPage
        return { tasks: matching.slice(start, start + perPage).map(summaryOf), total: matching.length }
      }),

    metadata: (sub, uuids) => Effect.sync(() => foundIn(rows, sub, uuids, ({ metadata }) => metadata)),

    excerpts: (sub, uuids) => Effect.sync(() => excerptsOf(rows, sub, uuids)),

    assistants: (sub, uuids) => Effect.sync(() => foundIn(rows, sub, uuids, ({ assistantId }) => assistantId)),

    search: (sub, wanted) => Effect.sync(() => search(rows, sub, wanted)),

    storedRequest: (uuid) =>
      Effect.sync(() =>
        Option.fromNullishOr(rows.get(uuid)?.task).pipe(
          Option.filter(({ request }) => bytesOf(request) <= Limits.keptRequestBytes),
          Option.map(Struct.pick([...Struct.keys(KeptFields.fields), "request"]))
        )
      ),

    eventsAfter: (uuid, revision, limit) =>
      Effect.sync(() =>
        (rows.get(uuid)?.events ?? []).filter((event) => event.revision > revision).slice(0, limit).map(
          Struct.omit(["report"])
        )
      ),

    pendingRun: (uuid) =>
      Effect.sync(() =>
        Option.fromNullishOr(rows.get(uuid)).pipe(
          Option.filter(({ status }) => isRunning(status)),
          Option.map(runOf)
        )
      ),

    usedKey: (sub, key, at) =>
      Effect.sync(() =>
        Option.map(Option.fromNullishOr(keyOf(tables, sub, key, at)), Struct.pick(["fingerprint", "taskId"]))
      )
  })
})
