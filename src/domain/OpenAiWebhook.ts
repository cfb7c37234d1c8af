/** Webhooks in the format of the OpenAI API. The bytes depend on the reported change only, so that each attempt has the same. */
import { Schema } from "effect"
import type { TaskId, TaskStatus } from "./Task.ts"
import { type Timestamp, unixSeconds } from "./Timestamp.ts"
import { deliveryId } from "./Webhook.ts"

/** The format of a task's webhooks; null means the task itself. */
export const CallbackFormat = Schema.NullOr(Schema.Literal("openai"))
export type CallbackFormat = typeof CallbackFormat.Type

/** The id of the response that a leg of a task is. */
export const responseId = (uuid: TaskId, leg: number): string => `resp_${uuid.replaceAll("-", "")}_${leg}`

export interface ReportedChange {
  readonly uuid: TaskId
  readonly revision: number
  readonly status: TaskStatus
  /** The number of the leg that the change ended. */
  readonly leg: number
  readonly happenedAt: Timestamp
}

const types: Partial<Record<TaskStatus, string>> = { failed: "response.failed", canceled: "response.cancelled" }

export const encode = ({ happenedAt, leg, revision, status, uuid }: ReportedChange): string =>
  JSON.stringify({
    id: deliveryId({ taskId: uuid, revision }),
    object: "event",
    created_at: unixSeconds(happenedAt),
    type: types[status] ?? "response.completed",
    data: { id: responseId(uuid, leg) }
  })
