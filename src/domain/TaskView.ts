/** The public JSON of a task. `GET /api/tasks/{uuid}` and webhooks carry the same bytes. */
import type { Deadlines } from "./Deadline.ts"
import type { Metadata } from "./Metadata.ts"
import { join, type OpaqueJson, toText } from "./OpaqueJson.ts"
import type { Task, TaskId, TaskSummary } from "./Task.ts"
import { format, formatOrNull } from "./Timestamp.ts"
import { waitingOn } from "./WaitingOn.ts"

/** The task summary: a row of the task list. It has no `turn`. */
export const summarize = (task: TaskSummary) => ({
  uuid: task.uuid,
  status: task.status,
  error: task.error,
  created_at: format(task.createdAt),
  completed_at: formatOrNull(task.completedAt),
  ...(task.pendingToolCalls === null ? {} : { pending_tool_calls: task.pendingToolCalls })
})

/** The field `metadata` of `?include=metadata`. */
export const describeMetadata = (metadata: Metadata | null | undefined) => ({ metadata: metadata ?? {} })

/** The response of `GET /api/tasks`: the rows of one page, with their metadata if it is given, and its position among all pages. */
export const paginate = (
  rows: ReadonlyArray<TaskSummary>,
  total: number,
  { page, perPage }: { readonly page: number; readonly perPage: number },
  metadata?: ReadonlyMap<TaskId, Metadata>
) => ({
  data: rows.map((row) => ({
    ...summarize(row),
    ...(metadata === undefined ? {} : describeMetadata(metadata.get(row.uuid)))
  })),
  meta: { current_page: page, per_page: perPage, last_page: Math.max(1, Math.ceil(total / perPage)), total }
})

/** The Task object as JSON. The turn and the request are inserted without parsing: they may be large. */
export const encode = (task: TaskSummary & Pick<Task, "turn">, extras: object = {}, request?: string): OpaqueJson =>
  join([
    `${JSON.stringify({ ...summarize(task), ...extras }).slice(0, -1)},"turn":`,
    task.turn ?? "null",
    request === undefined ? "}" : `,"request":${request}}`
  ])

const parse = (json: OpaqueJson | null) => json === null ? null : JSON.parse(toText(json))

/** The Task object as a value: what `encode` writes, without `JSON.stringify`. */
export const describe = (task: TaskSummary & Pick<Task, "turn">, extras: object = {}, request?: string) => ({
  ...summarize(task),
  ...extras,
  turn: parse(task.turn),
  ...(request === undefined ? {} : { request: JSON.parse(request) })
})

/** The field `waiting_on` of `?include=waiting_on`. */
export const describeWaiting = (task: Deadlines) => {
  const waiting = waitingOn(task)
  return { waiting_on: waiting === null ? null : { ...waiting, until: format(waiting.until) } }
}
