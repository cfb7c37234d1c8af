/** The rows of the stores in memory, for tests under TestClock. One contract suite runs on these stores and on Postgres. */
import { Context, Layer } from "effect"
import { encode, type OpaqueJson } from "../../domain/OpaqueJson.ts"
import type { Principal } from "../../domain/Principal.ts"
import {
  isTerminal,
  type RunId,
  type TaskHead,
  type TaskId,
  type TaskStatus,
  type TaskSummary
} from "../../domain/Task.ts"
import type { Timestamp } from "../../domain/Timestamp.ts"
import type { ToolCall } from "../../domain/ToolCall.ts"
import type { DeliveryAttempt, DeliveryKey } from "../../domain/Webhook.ts"
import type { NewLeg } from "./FacadeLegs.ts"
import type { Claimed, RecordedEvent } from "./TaskReads.ts"
import type { NewTask } from "./TaskWrites.ts"

export interface TaskRow {
  readonly task: NewTask
  principal: Principal
  status: TaskStatus
  revision: number
  runId: RunId
  error: string | null
  completedAt: Timestamp | null
  acceptanceDeadline: Timestamp | null
  pendingToolCalls: ReadonlyArray<ToolCall> | null
  turn: OpaqueJson | null
  coreState: OpaqueJson | null
  toolResults: OpaqueJson | null
  userToken: string
  readonly coreEventIds: Set<string>
  readonly events: Array<RecordedEvent>
}

interface StopRow {
  readonly taskId: TaskId
  readonly reason: string
  attempts: number
  dueAt: Timestamp
}

export interface NewDelivery extends DeliveryKey {
  readonly status: TaskStatus
  readonly url: string
  readonly secret: string | null
  readonly body: OpaqueJson
  readonly createdAt: Timestamp
}

export interface DeliveryRow extends NewDelivery {
  readonly origin: string
  readonly isSigned: boolean
  secret: string | null
  allowed: number
  isSending: boolean
  isDelivered: boolean
  dueAt: Timestamp | null
  readonly attempts: Array<{ -readonly [Field in keyof DeliveryAttempt]: DeliveryAttempt[Field] }>
}

export class MemoryTables extends Context.Service<MemoryTables, {
  readonly tasks: Map<TaskId, TaskRow>
  readonly stops: Map<RunId, StopRow>
  /** Idempotency keys, by `claimKey`. */
  readonly claims: Map<string, Claimed & { readonly expiresAt: Timestamp }>
  /** By `deliveryId`. */
  readonly deliveries: Map<string, DeliveryRow>
  readonly legs: Array<NewLeg & { output: string | null }>
}>()("async-task-service/services/store/MemoryTables") {
  static readonly layer = Layer.sync(
    MemoryTables,
    () => ({ tasks: new Map(), stops: new Map(), claims: new Map(), deliveries: new Map(), legs: [] })
  )
}

type Tables = MemoryTables["Service"]

export const claimKey = (sub: string, key: string) => JSON.stringify([sub, key])

/** The claim of a user's key, unless it has expired. */
export const claimOf = ({ claims }: Tables, sub: string, key: string, at: Timestamp) => {
  const found = claims.get(claimKey(sub, key))
  return found !== undefined && found.expiresAt > at ? found : undefined
}

/** Bytes of UTF-8. */
export const bytesOf = (json: OpaqueJson) => encode(json).length

export const liveRows = ({ tasks }: Tables) => [...tasks.values()].filter((row) => !isTerminal(row.status))

export const byId = (a: TaskRow, b: TaskRow) => a.task.uuid < b.task.uuid ? -1 : 1

export const headOf = ({ acceptanceDeadline, revision, runId, status, task }: TaskRow): TaskHead => ({
  uuid: task.uuid,
  sub: task.principal.sub,
  status,
  revision,
  runId,
  maxExecutionTime: task.maxExecutionTime,
  deadline: task.deadline,
  acceptanceDeadline
})

export const summaryOf = ({ completedAt, error, pendingToolCalls, status, task }: TaskRow): TaskSummary => ({
  uuid: task.uuid,
  sub: task.principal.sub,
  status,
  error,
  createdAt: task.createdAt,
  completedAt,
  pendingToolCalls
})
