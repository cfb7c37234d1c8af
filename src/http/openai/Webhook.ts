/** Webhooks of tasks that were created here: events of the OpenAI API. */
import { Array as Arr, Effect } from "effect"
import { OpaqueJson } from "../../domain/json/OpaqueJson.ts"
import type { TaskStatus } from "../../domain/Task.ts"
import { unixSeconds } from "../../domain/Timestamp.ts"
import { deliveryId } from "../../domain/Webhook.ts"
import type { CallbackFormat } from "../../services/Extensions.ts"
import { FacadeLegs } from "../../services/facades/FacadeLegs.ts"
import * as Ids from "./Ids.ts"

/** The `callback_format` of the tasks. */
export const name = "openai"

const types: Partial<Record<TaskStatus, string>> = { failed: "response.failed", canceled: "response.cancelled" }

export const makeFormat = Effect.map(
  FacadeLegs,
  ({ endedBy }): CallbackFormat => (changes) =>
    Effect.map(
      endedBy(changes),
      (legs) =>
        Arr.zipWith(changes, legs, ({ happenedAt, revision, status, uuid }, leg) =>
          OpaqueJson.make(JSON.stringify({
            id: deliveryId({ taskId: uuid, revision }),
            object: "event",
            created_at: unixSeconds(happenedAt),
            type: types[status] ?? "response.completed",
            data: { id: Ids.responseId({ uuid, leg }) }
          })))
    )
)
