/** The rows of the stores in memory, for tests under TestClock. One contract suite runs on these stores and on Postgres. */
import { Context, Layer, Struct } from "effect"
import { encode, type OpaqueJson } from "../../domain/json/OpaqueJson.ts"
import type { Principal } from "../../domain/Principal.ts"
import {
  isTerminal,
  type RunId,
  type Task,
  TaskHead,
  type TaskId,
  type TaskStatus,
  TaskSummary
} from "../../domain/Task.ts"
import type { Timestamp } from "../../domain/Timestamp.ts"
import type { DeliveryAttempt, DeliveryKey } from "../../domain/Webhook.ts"
import type { AssistantLimit } from "./queue/RunQueue.ts"
import type { NewTask, RecordedEvent, UsedKey } from "./tasks/TaskStore.ts"

type Mutable<A> = { -readonly [Field in keyof A]: A[Field] }

export interface TaskRow extends Mutable<Task> {
  readonly task: NewTask
  principal: Principal
  coreState: OpaqueJson | null
  toolResults: OpaqueJson | null
  userToken: string
  readonly coreEventIds: Set<string>
  readonly events: Array<EventRow>
}

/** `report`: see `TurnReport`. `startedAt`: when the run that the event began left the queue. */
export interface EventRow extends RecordedEvent {
  readonly report: string | null
  startedAt?: Timestamp
}

/** A row of the queue, see the table `waiting_runs`. */
export interface WaitingRow {
  readonly taskId: TaskId
  readonly assistantId: number
  readonly sub: string
  readonly class: number
  ticket: number
  readonly since: Timestamp
}

interface StopRow {
  readonly taskId: TaskId
  readonly reason: string
  attempts: number
  dueAt: Timestamp
}

export interface NewDelivery extends DeliveryKey {
  readonly sub: string
  readonly status: TaskStatus
  readonly url: string
  readonly secret: string | null
  /** The task itself, when `format` is null. */
  readonly body: OpaqueJson
  readonly format: string | null
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
  readonly attempts: Array<Mutable<DeliveryAttempt>>
}

export class MemoryTables extends Context.Service<MemoryTables, {
  readonly tasks: Map<TaskId, TaskRow>
  readonly stops: Map<RunId, StopRow>
  /** Idempotency keys, by `keyId`. */
  readonly keys: Map<string, UsedKey & { readonly expiresAt: Timestamp }>
  /** Deliveries, by `deliveryId`. */
  readonly deliveries: Map<string, DeliveryRow>
  /** Origins whose last attempt had a response, and when. */
  readonly provenOrigins: Map<string, Timestamp>
  readonly waiting: Map<TaskId, WaitingRow>
  /** Limits, by the id of the assistant. */
  readonly assistantLimits: Map<number, AssistantLimit>
  /** The ticket that was served last. */
  readonly tickets: { last: number }
  /** Called after each change of a task, whose last event tells what happened: the triggers of extensions. */
  readonly onEvent: Array<(row: TaskRow) => void>
  /** Whether extensions have nothing to send that is due, for tests that wait until all is sent. */
  readonly isQuiet: Array<(at: Timestamp) => boolean>
}>()("async-task-service/services/store/MemoryTables") {
  static readonly layer = Layer.sync(
    MemoryTables,
    () => ({
      tasks: new Map(),
      stops: new Map(),
      keys: new Map(),
      deliveries: new Map(),
      provenOrigins: new Map(),
      waiting: new Map(),
      assistantLimits: new Map(),
      tickets: { last: 1 },
      onEvent: [],
      isQuiet: []
    })
  )
}

type Tables = MemoryTables["Service"]

export const keyId = (sub: string, key: string) => JSON.stringify([sub, key])

/** A user's idempotency key, unless it has expired. */
export const keyOf = ({ keys }: Tables, sub: string, key: string, at: Timestamp) => {
  const found = keys.get(keyId(sub, key))
  return found !== undefined && found.expiresAt > at ? found : undefined
}

/** Bytes of UTF-8. */
export const bytesOf = (json: OpaqueJson) => encode(json).length

export const liveRows = ({ tasks }: Tables) => [...tasks.values()].filter((row) => !isTerminal(row.status))

export const byId = (a: TaskRow, b: TaskRow) => a.task.uuid < b.task.uuid ? -1 : 1

const headFields = Struct.keys(TaskHead.fields)
const summaryFields = Struct.keys(TaskSummary.fields)

export const headOf = (row: TaskRow): TaskHead => Struct.pick(row, headFields)

export const summaryOf = (row: TaskRow): TaskSummary => Struct.pick(row, summaryFields)

export const taskOf = (row: TaskRow): Task => ({ ...summaryOf(row), ...headOf(row), turn: row.turn })
