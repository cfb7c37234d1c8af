/** The public JSON of a task. `GET /api/tasks/{uuid}` and webhooks carry the same bytes. */
import { encode, join, type OpaqueJson } from "./json/OpaqueJson.ts"
import { RawJson } from "./json/RawJson.ts"
import { Kind } from "./json/tables.ts"
import { type Writable, write } from "./json/Writer.ts"
import type { Metadata } from "./Metadata.ts"
import type { Task, TaskId, TaskSummary } from "./Task.ts"
import { format, formatOrNull } from "./Timestamp.ts"
import { waitingOn } from "./WaitingOn.ts"

type Fields = { readonly [field: string]: Writable }

/** The task summary: a row of the task list. It has no `turn`. */
export const summarize = (task: TaskSummary) => ({
  uuid: task.uuid,
  status: task.status,
  error: task.error,
  created_at: format(task.createdAt),
  completed_at: formatOrNull(task.completedAt),
  ...(task.pendingToolCalls === null
    ? {}
    : { pending_tool_calls: new RawJson(Kind.array, encode(task.pendingToolCalls)) })
})

/** The field `metadata` of `?include=metadata`. */
export const describeMetadata = (metadata: Metadata | null | undefined) => ({ metadata: metadata ?? {} })

/** The position of a page among all pages of a list. */
export const pageMeta = (total: number, { page, perPage }: { readonly page: number; readonly perPage: number }) => ({
  current_page: page,
  per_page: perPage,
  last_page: Math.max(1, Math.ceil(total / perPage)),
  total
})

/** The response of `GET /api/tasks`: the rows of one page with the fields that `include` adds, and its position among all pages. */
export const paginate = (
  rows: ReadonlyArray<TaskSummary>,
  total: number,
  wanted: Parameters<typeof pageMeta>[1],
  extrasOf: (uuid: TaskId) => Fields = () => ({})
) => ({
  data: rows.map((row) => ({ ...summarize(row), ...extrasOf(row.uuid) })),
  meta: pageMeta(total, wanted)
})

/** JSON of an object that has fields, without its closing brace. */
const open = (fields: Fields): ReadonlyArray<string | Uint8Array> => {
  const pieces = write(fields)
  const last = pieces.at(-1)
  return typeof last === "string" ? [...pieces.slice(0, -1), last.slice(0, -1)] : pieces
}

/** The Task object as JSON in pieces. The turn and the request are inserted without parsing: they may be large. */
export const toPieces = (
  task: TaskSummary & Pick<Task, "turn">,
  extras: Fields = {},
  request?: string
): ReadonlyArray<string | Uint8Array> => [
  ...open({ ...summarize(task), ...extras }),
  `,"turn":`,
  task.turn ?? "null",
  request === undefined ? "}" : `,"request":${request}}`
]

/** The same in one. */
export const toJson = (...given: Parameters<typeof toPieces>): OpaqueJson => join(toPieces(...given))

/** The field `waiting_on` of `?include=waiting_on`. */
export const describeWaiting = (...given: Parameters<typeof waitingOn>) => {
  const waiting = waitingOn(...given)
  if (waiting === null) return { waiting_on: null }
  const { for: what, party, position = null, silence, until } = waiting
  return {
    waiting_on: {
      party,
      for: what,
      position,
      until: format(until),
      silent_since: silence === undefined ? null : format(silence.since),
      hand_overs: silence?.redispatches ?? null
    }
  }
}
