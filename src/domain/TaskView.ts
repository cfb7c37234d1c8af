/** The public JSON of a task: what `GET` answers and a webhook carries, byte for byte the same (SPEC "Events"). */
import type { Task, TaskSummary } from "./Task.ts"
import { format } from "./Timestamp.ts"
import { waitingOn } from "./WaitingOn.ts"

/** SPEC "Task summary". */
export const summarize = (task: TaskSummary) => ({
  uuid: task.uuid,
  status: task.status,
  error: task.error,
  created_at: format(task.createdAt),
  completed_at: task.completedAt === null ? null : format(task.completedAt),
  ...(task.pendingToolCalls === null ? {} : { pending_tool_calls: task.pendingToolCalls })
})

/** SPEC "GET /api/tasks": rows of one page, and where it stands among all of them. */
export const paginate = (
  rows: ReadonlyArray<TaskSummary>,
  total: number,
  { page, perPage }: { readonly page: number; readonly perPage: number }
) => ({
  data: rows.map(summarize),
  meta: { current_page: page, per_page: perPage, last_page: Math.max(1, Math.ceil(total / perPage)), total }
})

/** SPEC "Task", as JSON text: the turn is spliced in unread, since it may be large. */
export const encode = (task: TaskSummary & Pick<Task, "turn">, extras: object = {}): string =>
  `${JSON.stringify({ ...summarize(task), ...extras }).slice(0, -1)},"turn":${task.turn ?? "null"}}`

/** CONTRACT 2: `waiting_on`, when it is asked for. */
export const describeWaiting = (task: Task) => {
  const waiting = waitingOn(task)
  return { waiting_on: waiting === null ? null : { ...waiting, until: format(waiting.until) } }
}
