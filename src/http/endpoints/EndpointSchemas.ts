/** Bodies and views of webhook endpoints. */
import { Schema } from "effect"
import { absentOr, isAtMostCharacters } from "../../domain/Fields.ts"
import { Metadata } from "../../domain/Metadata.ts"
import { WebhookUrl } from "../../domain/TaskRequest.ts"
import { parse } from "../../domain/Timestamp.ts"
import { AttemptError, DeliveryState } from "../../domain/Webhook.ts"
import { DisabledReason, EventType, eventTypes, Format, limits } from "../../services/endpoints/Endpoint.ts"
import { Count, DeliveryView, Moment, Uuid } from "../contract/TaskSchemas.ts"
import * as Parameters from "../Parameters.ts"

export const base = "/internal/webhook-endpoints"

const described = <S extends Schema.Top>(schema: S, description: string) => schema.annotate({ description })

const isUnique = Schema.makeFilter(
  (items: ReadonlyArray<unknown>) => new Set(items).size === items.length,
  { expected: "items that differ", toJsonSchema: () => ({ uniqueItems: true }) }
)

const Events = Schema.Array(EventType).check(
  Schema.isMinLength(1, { expected: `at least one of ${eventTypes.join(", ")}` }),
  isUnique
)
const Assistants = Schema.Array(
  Schema.Int.check(
    Schema.isBetween({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }, { expected: "the id of an assistant, from 1" })
  )
).check(
  Schema.isMinLength(1, { expected: "at least one id" }),
  Schema.isMaxLength(limits.assistants, { expected: `at most ${limits.assistants} ids` }),
  isUnique
)

const optional = {
  description: absentOr(
    Schema.String.check(isAtMostCharacters(limits.description)),
    `For people; up to ${limits.description} characters.`
  ),
  events: absentOr(Events, "Only these events; all by default."),
  assistant_ids: absentOr(Assistants, `Only of tasks of these assistants, up to ${limits.assistants}; all by default.`),
  metadata: absentOr(Metadata, "Only of tasks that have all of these pairs in their metadata."),
  format: absentOr(
    Format,
    "`default`: the task without `turn`. `full`: with it. `thin`: `uuid`, `sub`, `status` and `metadata`. `cloudevents`: a CloudEvent "
      + "in HTTP's binary form."
  ),
  disabled: absentOr(
    Schema.Boolean,
    "Nothing is sent to a disabled endpoint. Enabled again, it goes on with what is younger than 7 days."
  )
}

const url = Schema.NullOr(WebhookUrl).annotate({
  description: "Receives the events: absolute, http or https. `null`: nothing is sent, and the events are read."
})

export const CreateEndpoint = Schema.Struct({ url, ...optional }).annotate({
  identifier: "CreateWebhookEndpoint",
  description: "A webhook endpoint. Filters are and-ed. `null` means the same as absent, except for `url`."
})
export type CreateEndpoint = typeof CreateEndpoint.Type

export const UpdateEndpoint = Schema.Struct({
  url: Schema.optional(url).annotate({ description: "Receives the events; `null`: they are read." }),
  ...optional
}).annotate({
  identifier: "UpdateWebhookEndpoint",
  description: "The fields to change; `null` resets one to its default, except `disabled`, which it leaves unchanged."
})
export type UpdateEndpoint = typeof UpdateEndpoint.Type

export const RotateSecret = Schema.Struct({
  keep_old_for: absentOr(
    Schema.Int.check(
      Schema.isBetween({ minimum: 0, maximum: limits.keepOld.maximum }, {
        expected: `an integer between 0 and ${limits.keepOld.maximum}`
      })
    ),
    `Seconds for which the old secret signs too, ${limits.keepOld.default} by default.`
  )
}).annotate({ identifier: "RotateEndpointSecret", description: "The time for which the old secret still signs." })

export const TestEndpoint = Schema.Struct({
  event: absentOr(EventType, "The type of the sample; `task.completed` by default.")
}).annotate({ identifier: "TestEndpoint", description: "The sample to send." })

const isMoment = Schema.makeFilter((text: string) => parse(text) !== undefined, {
  expected: "a moment in ISO 8601 with its offset"
})
const MomentText = Schema.String.check(isMoment)

export const ReplayEndpoint = Schema.Struct({
  from: MomentText.annotateKey({ description: "Begin of the range, by the moment of the change." }),
  to: MomentText.annotateKey({ description: "End of the range." }),
  failed_only: absentOr(Schema.Boolean, "Only deliveries that never succeeded.")
}).annotate({ identifier: "ReplayEndpoint", description: "The events to send again." })

export const examples = {
  id: "whe_0192a4c8e1f24d7b9a3c5e7f10213243",
  secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwYXkz3Q1f0hE="
}

const view = {
  id: Schema.String.annotate({ description: "Identifier of the endpoint.", examples: [examples.id] }),
  url: described(Schema.NullOr(Schema.String), "Receives the events, without a password; null when they are read."),
  description: Schema.NullOr(Schema.String).annotate({ description: "For people." }),
  events: Schema.Array(EventType).annotate({ description: "The events that it receives." }),
  assistant_ids: Schema.NullOr(Schema.Array(Schema.Int)).annotate({ description: "Null means all." }),
  metadata: Schema.NullOr(Schema.Record(Schema.String, Schema.String)).annotate({
    description: "Null means all tasks."
  }),
  format: Format.annotate({ description: "The content of bodies." }),
  disabled: described(Schema.Boolean, "True while nothing is sent."),
  disabled_reason: Schema.NullOr(DisabledReason).annotate({
    description: "`manual`, `gone` (the receiver responded with 410) or `failing` (no success for 72 hours)."
  }),
  disabled_at: Schema.NullOr(Moment).annotate({ description: "Null unless disabled." }),
  failing_since: Schema.NullOr(Moment).annotate({ description: "The first failed attempt since the last success." }),
  last_success_at: Schema.NullOr(Moment).annotate({ description: "The last success, exact to a minute." }),
  old_secret_until: Schema.NullOr(Moment).annotate({ description: "Until then the secret before signs too." }),
  created_at: Moment,
  updated_at: Moment
}

export const EndpointView = Schema.Struct(view).annotate({
  identifier: "WebhookEndpoint",
  description: "A registered handler of events."
})

export const EndpointWithSecretView = Schema.Struct({
  ...view,
  secret: Schema.String.annotate({
    description: "Key of the signatures, for a library of Standard Webhooks. It is not shown again.",
    examples: [examples.secret]
  })
}).annotate({ identifier: "WebhookEndpointWithSecret", description: "A webhook endpoint with its new secret." })

const next = Schema.NullOr(Schema.String).annotate({
  description: "The `cursor` of the next page; null when nothing follows."
})

export const EndpointsView = Schema.Struct({
  data: Schema.Array(EndpointView).annotate({ description: "Newest first." }),
  next
}).annotate({ identifier: "WebhookEndpoints", description: "One page of the webhook endpoints." })

export const EndpointDeliveryView = Schema.Struct({
  ...DeliveryView.fields,
  type: EventType.annotate({ description: "Type of the event." }),
  task_uuid: described(Uuid, "The task."),
  dropped: Schema.NullOr(Schema.Literals(["too_old", "backlog"])).annotate({
    description:
      "Why it was given up: `too_old` (the endpoint was disabled or unread for 7 days) or `backlog` (too much was pending)."
  })
}).annotate({
  identifier: "EndpointDelivery",
  description: "The delivery of one event to an endpoint, with its attempts."
})

export const EndpointDeliveriesView = Schema.Struct({
  data: Schema.Array(EndpointDeliveryView).annotate({ description: "Newest first." }),
  next
}).annotate({ identifier: "EndpointDeliveries", description: "One page of an endpoint's log of 30 days." })

export const TestedView = Schema.Struct({
  id: described(Schema.String, "Identifier of the sample, sent as `webhook-id`."),
  type: EventType.annotate({ description: "Type of the sample." }),
  number: described(Count, "1, or 0 if nothing was sent because the endpoint has no URL."),
  started_at: Schema.NullOr(Moment).annotate({ description: "Begin of the attempt." }),
  duration_ms: Schema.NullOr(Count).annotate({ description: "Milliseconds." }),
  response_status: Schema.NullOr(Count).annotate({ description: "HTTP status of the response; null without one." }),
  error: Schema.NullOr(AttemptError).annotate({ description: "Class of the failure; null after a success." })
}).annotate({ identifier: "TestedEndpoint", description: "The attempt to send a sample." })

export const ReplayedView = Schema.Struct({
  enqueued: described(Count, "Deliveries that are sent again, a hundred a second."),
  left: described(Count, "Deliveries of the range beyond the maximum of one replay: begin the next one later.")
}).annotate({ identifier: "ReplayedEndpoint", description: "The number of events that are sent again." })

const paging = Parameters.paging(limits.page)

export const parameters = {
  list: paging,
  deliveries: { state: Parameters.oneOf("Only deliveries of this state.", DeliveryState.literals), ...paging }
}
