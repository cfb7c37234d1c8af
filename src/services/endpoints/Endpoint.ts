/** Webhook endpoints: their definition, the schedule of their attempts, and what is sent to them. Everything here is pure. */
import { Duration, Schedule, Schema } from "effect"
import { fromValue, type OpaqueJson, toText } from "../../domain/json/OpaqueJson.ts"
import * as Metadata from "../../domain/Metadata.ts"
import { isTaskId, TaskId, TaskStatus, type TaskSummary } from "../../domain/Task.ts"
import * as TaskView from "../../domain/TaskView.ts"
import { format as formatMoment, Timestamp } from "../../domain/Timestamp.ts"
import { type Delays, DeliveryAttempt, deliveryId, type DeliveryKey, DeliveryState } from "../../domain/Webhook.ts"

export const limits = {
  endpoints: 100,
  /** Characters. */
  description: 500,
  assistants: 100,
  /** Bytes of a body; a larger one becomes `thin`. */
  body: 1024 * 1024,
  /** Bytes of a request about an endpoint. */
  request: 64 * 1024,
  /** Seconds for which a rotated secret still signs. */
  keepOld: { default: 86_400, maximum: 604_800 },
  /** Rows of a page. */
  page: { default: 25, maximum: 100 },
  /** Deliveries of one replay, and the pause between them. */
  replay: 10_000,
  replayPause: Duration.millis(10),
  /** Attempts that the log keeps of a delivery. */
  loggedAttempts: 50,
  /** Readers of event streams on a node, and events that are read together. */
  readers: 100,
  readRows: 100
} as const

/** How long a disabled or unread endpoint's deliveries wait. */
export const keptWhileDisabled = Duration.days(7)

const statuses = ["interrupted", "completed", "failed", "canceled"] as const satisfies ReadonlyArray<TaskStatus>
export const eventStatuses: ReadonlyArray<TaskStatus> = statuses

export const EventType = Schema.Literals(["task.interrupted", "task.completed", "task.failed", "task.canceled"])
export type EventType = typeof EventType.Type
export const eventTypes = EventType.literals

/** The type of the event of a change to one of `eventStatuses`. */
export const typeOf = (status: TaskStatus) => `task.${status}` as EventType

export const Format = Schema.Literals(["default", "full", "thin", "cloudevents"])
export type Format = typeof Format.Type

export const DisabledReason = Schema.Literals([
  /** Disabled by an operator. */
  "manual",
  /** The receiver responded with 410. */
  "gone",
  /** No attempt succeeded for 72 hours. */
  "failing"
])
export type DisabledReason = typeof DisabledReason.Type

/** The part of an endpoint that operators set. */
export const Definition = Schema.Struct({
  /** Null: nothing is sent, and the events are read. */
  url: Schema.NullOr(Schema.String),
  description: Schema.NullOr(Schema.String),
  events: Schema.Array(EventType),
  /** Null means all. */
  assistantIds: Schema.NullOr(Schema.Array(Schema.Int)),
  /** Pairs that a task must have; null means all tasks. */
  metadata: Schema.NullOr(Schema.Record(Schema.String, Schema.String)),
  format: Format
})
export interface Definition extends Schema.Schema.Type<typeof Definition> {}

export const defaults: Definition = {
  url: null,
  description: null,
  events: eventTypes,
  assistantIds: null,
  metadata: null,
  format: "default"
}

/** Encrypted secrets. The old one signs too, until its moment. */
export const SealedSecrets = Schema.Struct({
  secret: Schema.String,
  oldSecret: Schema.NullOr(Schema.String),
  oldSecretUntil: Schema.NullOr(Timestamp)
})
export interface SealedSecrets extends Schema.Schema.Type<typeof SealedSecrets> {}

export const Endpoint = Schema.Struct({
  id: Schema.String,
  ...Definition.fields,
  ...SealedSecrets.fields,
  disabledAt: Schema.NullOr(Timestamp),
  disabledReason: Schema.NullOr(DisabledReason),
  /** The end of the first failed attempt since the last success. */
  failingSince: Schema.NullOr(Timestamp),
  /** Exact to a minute. */
  succeededAt: Schema.NullOr(Timestamp),
  createdAt: Timestamp,
  updatedAt: Timestamp
})
export interface Endpoint extends Schema.Schema.Type<typeof Endpoint> {}

export const isEndpointId = (text: string): boolean => /^whe_[0-9a-f]{32}$/.test(text)

/** Identifies a delivery. */
export interface EventKey extends DeliveryKey {
  readonly endpointId: string
}

/** The id of an event, sent as `webhook-id`: the same for every endpoint. */
export const eventId = (key: DeliveryKey): string => `evt_${deliveryId(key)}`

export const parseEventId = (text: string): DeliveryKey | undefined => {
  const [, taskId, revision] = /^evt_(.{36})-(\d{1,9})$/.exec(text) ?? []
  return isTaskId(taskId) ? { taskId, revision: Number(revision) } : undefined
}

/** A row of an endpoint's log. */
export const LoggedDelivery = Schema.Struct({
  endpointId: Schema.String,
  taskId: TaskId,
  revision: Schema.Int,
  status: TaskStatus,
  state: DeliveryState,
  /** Why a failed delivery was given up before its last attempt. */
  dropped: Schema.NullOr(Schema.Literals(["too_old", "backlog"])),
  createdAt: Timestamp,
  nextAttemptAt: Schema.NullOr(Timestamp),
  attempts: Schema.Array(DeliveryAttempt)
})
export interface LoggedDelivery extends Schema.Schema.Type<typeof LoggedDelivery> {}

/** An endpoint without a success for so long is disabled. */
export const giveUpAfter = Duration.hours(72)

const early = [
  "5 seconds",
  "30 seconds",
  "2 minutes",
  "10 minutes",
  "1 hour",
  "3 hours",
  "6 hours",
  "12 hours"
] as const
const late = Array.from({ length: 5 }, (_, index) => Duration.hours(24 + 12 * index))
/** The moments of the attempts after the first, from its end. The last is `giveUpAfter`. */
const moments = [...early.map(Duration.fromInputUnsafe), ...late]

/** Attempts of one round. */
export const attempts = moments.length + 1

/** The delays between the attempts. */
export const delays: Delays = moments
  .map((moment, index): Delays => Schedule.duration(Duration.subtract(moment, moments[index - 1] ?? Duration.zero)))
  .reduce((schedule, delay) => Schedule.concat(schedule, delay))

/** The purpose of a sealed secret. */
export const secretPurpose = "endpoint-secret"

/** A change of a task, as far as bodies show it. */
export interface Change
  extends Pick<TaskSummary, "uuid" | "status" | "error" | "createdAt" | "completedAt" | "pendingToolCalls">
{
  readonly revision: number
  readonly happenedAt: Timestamp
  readonly sub: string
  readonly metadata: Metadata.Metadata | null
  readonly turn: OpaqueJson | null
}

/** Whether an endpoint receives the event of a change. */
export const matches = (
  { assistantIds, events, metadata }: Definition,
  change: Pick<Change, "status" | "metadata"> & { readonly assistantId: number | null }
): boolean =>
  events.includes(typeOf(change.status)) &&
  (assistantIds === null || (change.assistantId !== null && assistantIds.includes(change.assistantId))) &&
  (metadata === null || Metadata.hasAll(change.metadata, metadata))

const taskOf = (change: Change, format: Format): string => {
  if (format === "thin") {
    const { metadata, status, sub, uuid } = change
    return toText(fromValue({ uuid, sub, status, metadata: metadata ?? {} }))
  }
  return format === "full"
    ? toText(TaskView.toJson(change))
    : toText(fromValue(TaskView.summarize(change)))
}

/** The body of an event: that of `thin` if it would be larger than `limits.body`. The trigger in Postgres writes the same. */
export const bodyOf = (change: Change, format: Format): string => {
  const wrap = (task: string) =>
    format === "cloudevents"
      ? `{"task":${task}}`
      : `{"id":"${eventId({ taskId: change.uuid, revision: change.revision })}","type":"${typeOf(change.status)}",`
        + `"created_at":"${formatMoment(change.happenedAt)}","data":{"task":${task}}}`
  const body = wrap(taskOf(change, format))
  return new TextEncoder().encode(body).length > limits.body ? wrap(taskOf(change, "thin")) : body
}
