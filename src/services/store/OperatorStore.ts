/**
 * Searches of operators over all users. Every statement reads a bounded number of rows, so that a search costs the same however
 * large the tables are: a page that reaches the bound says so, and its `next` continues behind the last row that was read.
 */
import { Context, type Effect, type Option } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { RunId, TaskHead, TaskId, TaskStatus, TaskSummary } from "../../domain/Task.ts"
import type { Timestamp } from "../../domain/Timestamp.ts"
import type { Delivery, DeliveryState } from "../../domain/Webhook.ts"
import type { History } from "./History.ts"
import type { RevocationRepository } from "./RevocationRepository.ts"
import type { TaskReads } from "./TaskReads.ts"
import type { TaskScans } from "./TaskScans.ts"
import type { WebhookStore } from "./WebhookStore.ts"

/** Characters of an error that operators see, and by which failures are grouped and found. */
export const errorLength = 500
/** Rows that one statement examines when an index cannot answer the whole filter. */
export const scannedRows = 20_000
/** The newest failures that are grouped. */
export const groupedFailures = 1000
export const listedOrigins = 200

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

interface Paged extends Range {
  readonly after: Position | null
  readonly limit: number
}

export interface TaskSearch extends Paged {
  readonly sub: string | null
  readonly status: TaskStatus | null
  /** The first `errorLength` characters; only with the status failed. */
  readonly error: string | null
}

/** Live tasks by id, which is their creation; failed ones of all users by their end; others by creation. Newest first. */
export const orderOf = ({ status, sub }: Pick<TaskSearch, "status" | "sub">): "live" | "failed" | "created" => {
  if (sub !== null || status === null || status === "completed" || status === "canceled") return "created"
  return status === "failed" ? "failed" : "live"
}

export interface FoundTask extends Omit<TaskSummary, "pendingToolCalls"> {
  readonly deadline: Timestamp
  readonly acceptanceDeadline: Timestamp | null
  readonly callbackUrl: string | null
  /** Names of the first pending client tools. */
  readonly pendingTools: ReadonlyArray<string>
}

export interface TaskDetail {
  readonly found: FoundTask
  readonly head: TaskHead
  /** Null when it is not stored. */
  readonly requestBytes: number | null
  readonly turnBytes: number | null
}

export interface Failure {
  readonly uuid: TaskId
  readonly error: string
  readonly at: Timestamp
}

export interface DueClock {
  readonly uuid: TaskId
  readonly sub: string
  readonly status: TaskStatus
  readonly clock: "acceptance" | "time_limit"
  readonly dueAt: Timestamp
}

export interface DueStop {
  readonly runId: RunId
  readonly taskId: TaskId
  readonly reason: string
  readonly attempts: number
  readonly dueAt: Timestamp
}

export interface DeliverySearch extends Paged {
  readonly origin: string | null
  readonly state: DeliveryState | null
  /** Error of the last attempt. */
  readonly error: string | null
}

export interface OriginStats {
  readonly origin: string
  readonly pending: number
  readonly failed: number
  /** Error of the newest failed delivery's last attempt. */
  readonly lastError: string | null
  readonly oldestFailedAt: Timestamp | null
}

type Read<A> = Effect.Effect<A, StoreUnavailable>

export class OperatorStore extends Context.Service<OperatorStore, {
  readonly tasks: (search: TaskSearch) => Read<Page<FoundTask>>
  readonly task: (uuid: TaskId) => Read<Option.Option<TaskDetail>>
  /** The newest `groupedFailures`, newest first. */
  readonly failures: (range: Range) => Read<ReadonlyArray<Failure>>
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
  /** The ids of the same. */
  readonly deliveryIds: (search: DeliverySearch) => Read<Page<Position>>
  /** The stores of other requests, on the connections of operators. */
  readonly scans: TaskScans["Service"]
  readonly reads: TaskReads["Service"]
  readonly webhooks: WebhookStore["Service"]
  readonly revocations: RevocationRepository["Service"]
  readonly history: History["Service"]
}>()("async-task-service/services/store/OperatorStore") {}

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
