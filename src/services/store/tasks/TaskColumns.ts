/**
 * The columns of `tasks`, each described once. What a new task gives is inserted by `create_tasks`, whose parameters and columns
 * follow from this list; the columns that a statement reads follow from the fields of its schema.
 */
import { PgTypes } from "@effect/sql-pg"
import { Struct } from "effect"
import { activeStatuses, runningStatuses, TaskHead, type TaskStatus, TaskSummary } from "../../../domain/Task.ts"
import { KeptFields } from "../../../domain/TaskRequest.ts"
import * as TaskShard from "../../../domain/TaskShard.ts"
import { fromMicros } from "../../../domain/Timestamp.ts"
import { micros, moment } from "../sql/Queries.ts"
import type { NewTask } from "./TaskStore.ts"

const { float8, int4, text, uuid } = PgTypes.OID

interface Type {
  /** The type of the bound value. */
  readonly oid: number
  /** The SQL that converts the bound value. */
  readonly as?: (bound: string) => string
  /** The SQL that converts the column to what the field's schema decodes. */
  readonly read?: (column: string) => string
}

const types = {
  bigint: { oid: float8, as: (bound: string) => `${bound}::bigint`, read: (column: string) => `${column}::float8` },
  integer: { oid: int4 },
  text: { oid: text },
  timestamptz: { oid: float8, as: moment, read: micros },
  uuid: { oid: uuid }
} satisfies Record<string, Type>

interface Column {
  readonly name: string
  readonly type: keyof typeof types
  /** Its value in a new task; otherwise it is the column's default. */
  readonly of?: (task: NewTask) => string | number | null
}

/** The columns, by the field that has the value. */
export const columns = {
  uuid: { name: "uuid", type: "uuid", of: ({ uuid }) => uuid },
  sub: { name: "sub", type: "text", of: ({ principal }) => principal.sub },
  status: { name: "status", type: "text" },
  revision: { name: "revision", type: "integer" },
  turnRevision: { name: "turn_revision", type: "integer" },
  runId: { name: "run_id", type: "uuid", of: ({ runId }) => runId },
  error: { name: "error", type: "text" },
  pendingToolCalls: { name: "pending_tool_calls", type: "text" },
  callbackUrl: { name: "callback_url", type: "text", of: ({ callbackUrl }) => callbackUrl },
  callbackFormat: { name: "callback_format", type: "text", of: ({ callbackFormat }) => callbackFormat },
  maxExecutionTime: { name: "max_execution_time", type: "integer", of: ({ maxExecutionTime }) => maxExecutionTime },
  createdAt: { name: "created_at", type: "timestamptz", of: ({ createdAt }) => createdAt },
  completedAt: { name: "completed_at", type: "timestamptz" },
  deadline: { name: "deadline_at", type: "timestamptz", of: ({ deadline }) => deadline },
  acceptanceDeadline: {
    name: "acceptance_deadline_at",
    type: "timestamptz",
    of: ({ acceptanceDeadline }) => acceptanceDeadline
  },
  resumedAt: { name: "resumed_at", type: "timestamptz" },
  lastEventAt: { name: "last_event_at", type: "timestamptz" },
  redispatches: { name: "hand_overs", type: "integer" },
  tokenId: { name: "token_id", type: "text", of: ({ principal }) => principal.tokenId },
  tokenIssuedAt: {
    name: "token_issued_at",
    type: "timestamptz",
    of: ({ principal: { issuedAt } }) => issuedAt === null ? null : fromMicros(issuedAt * 1_000_000)
  },
  assistantId: { name: "assistant_id", type: "bigint", of: ({ assistantId }) => assistantId },
  priority: { name: "priority", type: "integer", of: ({ priority }) => priority },
  room: { name: "room", type: "text" },
  queueRevision: { name: "queue_revision", type: "integer" }
} as const satisfies Record<string, Column>

const all: Readonly<Record<string, Column>> = columns

/** The columns that a new task gives, with the types of their values. */
export const given = Object.values(all).flatMap(({ name, of, type }) =>
  of === undefined ? [] : [{ name, type, of, ...types[type] satisfies Type as Type }]
)

type Field = keyof typeof columns

/** The columns of `fields`, as a statement reads them. `row` is the expression of the row, or of that of each field. */
export const columnsOf = (fields: ReadonlyArray<Field>, row: string | ((field: Field) => string) = "tasks") =>
  fields.map((field) => {
    const { name, type } = columns[field]
    const { read }: Type = types[type]
    const column = `${typeof row === "string" ? row : row(field)}.${name}`
    return `${read?.(column) ?? column} AS "${field}"`
  }).join(", ")

/** The columns of a `TaskHead`. */
export const headColumnsOf = (row: string) => columnsOf(Struct.keys(TaskHead.fields), row)
export const headColumns = headColumnsOf("tasks")

/** The columns of a `TaskSummary`, with the tool calls as JSON. */
export const summaryColumnsOf = (row: (field: Field) => string) => columnsOf(Struct.keys(TaskSummary.fields), row)
export const summaryColumns = summaryColumnsOf(() => "tasks")

/** The columns of a `TaskSummary` and a `TaskHead`. */
export const taskColumns = columnsOf(Struct.keys({ ...TaskSummary.fields, ...TaskHead.fields }))

/** The columns of `KeptFields`; the metadata have a table of their own. */
export const keptColumns = columnsOf(Struct.keys(Struct.omit(KeptFields.fields, ["metadata"])))

/** Statuses as SQL writes them. A partial index has the same text as the statements that use it. */
const listOf = (statuses: ReadonlyArray<TaskStatus>) => `(${statuses.map((status) => `'${status}'`).join(", ")})`

export const isLive = `status IN ${listOf(activeStatuses)}`

/** Whether the core has the run, or is to get it. */
export const isRunning = `status IN ${listOf(runningStatuses)}`

/** The same without runs that wait in the queue. */
export const isDispatched = `${isRunning} AND room IS DISTINCT FROM 'waiting'`

/** Whether the task is live, for the tasks of one user. No other index has this condition, so that the planner has one to choose. */
export const notEnded = "completed_at IS NULL"

/** `TaskShard.of` in SQL. */
export const shardOf = (uuid: string) => `(('x' || right(${uuid}::text, 4))::bit(16)::int % ${TaskShard.count})`
