/**
 * Searches of operators over all users. Every statement reads a bounded number of rows, so that a search costs the same however
 * large the tables are: a page that reaches the bound says so, and its `next` continues behind the last row that was read.
 */
import { Context, type Effect, type Option, Schema, SchemaGetter, Struct } from "effect"
import type { Revocation } from "../../domain/Revocation.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { RunId, TaskHead, TaskId, TaskStatus, TaskSummary } from "../../domain/Task.ts"
import { Timestamp } from "../../domain/Timestamp.ts"
import { namesOf } from "../../domain/ToolCall.ts"
import type { Delivery, DeliveryKey } from "../../domain/Webhook.ts"
import type { TaskStore } from "../store/tasks/TaskStore.ts"
import type { WebhookStore } from "../store/webhooks/WebhookStore.ts"
import type { History } from "./History.ts"
import type { DeliverySelection, Selection, TaskSelection } from "./Selection.ts"
import type { UserStorage } from "./StoredBytes.ts"

/** Characters of an error that operators see, and in which failures are found. */
export const errorLength = 500
/** Rows that one statement examines when an index cannot answer the whole filter. */
export const scannedRows = 20_000
/** The newest failures that are grouped. */
export const groupedFailures = 10_000
export const listedOrigins = 200
/** The newest tasks whose times are measured. */
export const measuredTasks = 5000
export const listedAssistants = 100
/** Names of the pending tools of a task. */
const shownTools = 20
/** The oldest live tasks that are examined for progress. */
export const examinedRuns = 20_000

/** Milliseconds: until the first report of the core, and from there to the end. */
export const Durations = Schema.Struct({
  assistantId: Schema.NullOr(Schema.Finite),
  tasks: Schema.Int,
  waitingP50: Schema.Finite,
  waitingP95: Schema.Finite,
  runningP50: Schema.Finite,
  runningP95: Schema.Finite,
  /** Tasks of the range that were examined, of all assistants. */
  examined: Schema.Int
})
export interface Durations extends Schema.Schema.Type<typeof Durations> {}

/** The key of a row: its moment, and its id among rows of the same moment. */
export interface Position {
  readonly at: Timestamp
  readonly id: string
}

export interface Page<Row> {
  readonly rows: ReadonlyArray<Row>
  /** The position of the last row that was read; null when no further row can match. */
  readonly next: Position | null
  /** False when the bound of examined rows ended the search before the page was full. */
  readonly isComplete: boolean
}

export interface Range {
  readonly from: Timestamp
  readonly to: Timestamp
}

interface Paging {
  readonly after: Position | null
  readonly limit: number
}

/** A task whose id begins with the text is found outside of the range too. */
export type TaskSearch = TaskSelection & Paging
export type DeliverySearch = DeliverySelection & Paging

/** From the beginning of the stored calls. Postgres reads no JSON with texts that it cannot store. */
const ToolNames = Schema.NullOr(Schema.String).pipe(
  Schema.decodeTo(Schema.Array(Schema.String), {
    decode: SchemaGetter.transform((calls) => calls === null ? [] : namesOf(calls).slice(0, shownTools)),
    encode: SchemaGetter.forbidden(() => "only decoded")
  })
)

export const FoundTask = Schema.Struct({
  ...Struct.omit(TaskSummary.fields, ["pendingToolCalls"]),
  deadline: Timestamp,
  acceptanceDeadline: Schema.NullOr(Timestamp),
  callbackUrl: Schema.NullOr(Schema.String),
  /** Names of the first pending client tools. */
  pendingTools: ToolNames
})
export type FoundTask = typeof FoundTask.Type

export interface TaskDetail {
  readonly found: FoundTask
  readonly head: TaskHead
  /** Null when it is not stored. */
  readonly requestBytes: number | null
  readonly turnBytes: number | null
}

export const Failure = Schema.Struct({
  uuid: TaskId,
  sub: Schema.String,
  assistantId: Schema.NullOr(Schema.Finite),
  error: Schema.String,
  at: Timestamp
})
export type Failure = typeof Failure.Type

/** A task whose core has reported nothing since a moment. */
export const StuckRun = Schema.Struct({ ...TaskHead.fields, createdAt: Timestamp, progressAt: Timestamp })
export type StuckRun = typeof StuckRun.Type

export interface StuckRuns {
  /** The oldest first. */
  readonly runs: ReadonlyArray<StuckRun>
  readonly total: number
  /** False when only the oldest `examinedRuns` live tasks were examined. */
  readonly isComplete: boolean
}

export const DueClock = Schema.Struct({
  uuid: TaskId,
  sub: Schema.String,
  status: TaskStatus,
  clock: Schema.Literals(["acceptance", "time_limit"]),
  dueAt: Timestamp
})
export type DueClock = typeof DueClock.Type

export const DueStop = Schema.Struct({
  runId: RunId,
  taskId: TaskId,
  reason: Schema.String,
  attempts: Schema.Int,
  dueAt: Timestamp
})
export type DueStop = typeof DueStop.Type

export const OriginStats = Schema.Struct({
  origin: Schema.String,
  pending: Schema.Int,
  failed: Schema.Int,
  /** Error of the newest failed delivery's last attempt. */
  lastError: Schema.NullOr(Schema.String),
  oldestFailedAt: Schema.NullOr(Timestamp)
})
export type OriginStats = typeof OriginStats.Type

/** A revocation with the moment of its last change. */
export interface ListedRevocation extends Position {
  readonly revocation: Revocation
}

type Read<A> = Effect.Effect<A, StoreUnavailable>

export class OperatorStore extends Context.Service<OperatorStore, {
  readonly tasks: (search: TaskSearch) => Read<Page<FoundTask>>
  readonly task: (uuid: TaskId) => Read<Option.Option<TaskDetail>>
  /** Those that exist, in the order of the ids. */
  readonly tasksById: (ids: ReadonlyArray<TaskId>) => Read<ReadonlyArray<FoundTask>>
  readonly deliveriesById: (keys: ReadonlyArray<DeliveryKey>) => Read<ReadonlyArray<Delivery>>
  readonly count: (selection: Selection) => Read<number>
  /** Newest first. */
  readonly keys: (selection: Selection, after: Position | null, limit: number) => Read<Page<Position>>
  /** The newest `groupedFailures`, newest first. */
  readonly failures: (range: Range) => Read<ReadonlyArray<Failure>>
  /** The times of tasks that were created in the range and have completed or failed, by assistant, most tasks first. */
  readonly durations: (range: Range) => Read<ReadonlyArray<Durations>>
  /** Pending and processing tasks without progress since before a moment. */
  readonly stuck: (before: Timestamp, limit: number) => Read<StuckRuns>
  /** The next deadlines of live tasks, earliest first. */
  readonly clocks: (limit: number) => Read<ReadonlyArray<DueClock>>
  /** Pending stop requests, earliest first. */
  readonly stops: (limit: number) => Read<ReadonlyArray<DueStop>>
  /** Origins with pending or failed deliveries, most failures first. The range applies to failures. */
  readonly origins: (
    range: Range
  ) => Read<{ readonly origins: ReadonlyArray<OriginStats>; readonly isComplete: boolean }>
  /** Newest first. */
  readonly deliveries: (search: DeliverySearch) => Read<Page<Delivery>>
  /** Newest first, after a listed one. */
  readonly revocations: (after: Position | null, limit: number) => Read<ReadonlyArray<ListedRevocation>>
  /** Users who keep the most, the largest first. */
  readonly largestUsers: (limit: number) => Read<ReadonlyArray<UserStorage>>
  /** Reads of the stores of other requests, on the connections of operators. */
  readonly store: Pick<TaskStore["Service"], "eventsAfter" | "get" | "heads" | "liveStats">
  readonly webhooks: WebhookStore["Service"]
  readonly history: History["Service"]
}>()("async-task-service/services/operator/OperatorStore") {}

/** Makes a page of the matching keys, of which one more than `limit` was read, and of the last key that was examined. */
export const pageOf = <Key extends Position>(
  matches: ReadonlyArray<Key>,
  limit: number,
  edge: Position | undefined
): Page<Key> => {
  const last = matches[limit - 1]
  if (matches.length > limit && last !== undefined) {
    return { rows: matches.slice(0, limit), next: { at: last.at, id: last.id }, isComplete: true }
  }
  return {
    rows: matches,
    next: edge === undefined ? null : { at: edge.at, id: edge.id },
    isComplete: edge === undefined
  }
}
