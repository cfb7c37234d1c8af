/** Webhook endpoints: one registered handler of the events of all tasks, for operators and internal services. */
import { Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { limits } from "../../services/endpoints/Endpoint.ts"
import { type ErrorCodes, errorCodes as coreCodes } from "../contract/ErrorCodes.ts"
import * as Errors from "../contract/Errors.ts"
import { completedAt, createdAt, deliveryId, summary } from "../contract/Examples.ts"
import { header, operation, refusal } from "../contract/Operation.ts"
import { OperatorAuthorization } from "../OperatorRoutes.ts"
import * as Parameters from "../Parameters.ts"
import * as Views from "./EndpointSchemas.ts"

export const errorCodes = {
  endpoint_not_found: [404, "There is no such webhook endpoint."],
  endpoint_is_sent: [409, "The endpoint has a URL: only events of an endpoint whose `url` is null can be read."],
  too_many_endpoints: [409, `There are ${limits.endpoints} webhook endpoints, the maximum.`],
  too_many_readers: [429, "The node has the maximum number of event streams of endpoints."]
} as const satisfies ErrorCodes

const { base } = Views

const ofEndpoint = { id: Schema.String }
const readErrors = [Errors.NotFound, Errors.ValidationFailed, Errors.ServiceUnavailable] as const
const changeErrors = [Errors.NotFound, ...Errors.jsonErrors] as const

const { id } = Views.examples
const event = `evt_${deliveryId}`

const readOnly = "The token may only read, or a web page of another origin sent the request with a session."
const unknown = refusal(errorCodes, "endpoint_not_found")
const owned = { 404: unknown }

const described = (docs: Parameters<typeof operation>[0]) =>
  operation({
    ...docs,
    bodyBytes: limits.request,
    responses: { 403: readOnly, ...docs.responses },
    path: {
      id: { description: "Identifier of the endpoint.", example: id },
      delivery: { description: "Identifier of a delivery, as `webhook-id` has it.", example: event }
    }
  })

export class EndpointsGroup extends HttpApiGroup.make("webhookEndpoints").add(
  HttpApiEndpoint.post("create", base, {
    payload: Views.CreateEndpoint,
    success: Views.EndpointWithSecretView.pipe(HttpApiSchema.status(201)),
    error: [...Errors.jsonErrors, Errors.Conflict]
  }).annotateMerge(described({
    name: "createWebhookEndpoint",
    summary: "Register a webhook endpoint",
    description:
      "Receives the events of all tasks that its filters select, from now on. The response has the secret, which is not shown again.",
    request: { url: "https://hooks.example.com/tasks", description: "The CRM", metadata: { project: "crm" } },
    responses: {
      201: { description: "The new endpoint with its secret.", headers: ["Location"] },
      409: refusal(errorCodes, "too_many_endpoints"),
      422: "A field is invalid, or webhooks may not go to the host of `url`."
    }
  })),
  HttpApiEndpoint.get("list", base, {
    success: Views.EndpointsView,
    error: [Errors.ValidationFailed, Errors.ServiceUnavailable]
  }).annotateMerge(described({
    name: "listWebhookEndpoints",
    summary: "List webhook endpoints",
    description: "Newest first.",
    parameters: Parameters.documented(Views.parameters.list),
    responses: { 200: "One page of the webhook endpoints." }
  })),
  HttpApiEndpoint.get("get", `${base}/:id`, {
    params: ofEndpoint,
    success: Views.EndpointView,
    error: readErrors
  }).annotateMerge(described({
    name: "getWebhookEndpoint",
    summary: "Read a webhook endpoint",
    description: "Its definition, and how it is doing.",
    responses: { 200: "The endpoint and how it is doing, without its secret.", 404: unknown }
  })),
  HttpApiEndpoint.patch("update", `${base}/:id`, {
    params: ofEndpoint,
    payload: Views.UpdateEndpoint,
    success: Views.EndpointView,
    error: changeErrors
  }).annotateMerge(described({
    name: "updateWebhookEndpoint",
    summary: "Change a webhook endpoint",
    description:
      "Filters and format apply to later events. An endpoint that is enabled goes on with what is younger than 7 days.",
    request: { disabled: false },
    responses: {
      ...owned,
      200: "The endpoint as it is now.",
      422: "A field is invalid, or webhooks may not go to the host of `url`."
    }
  })),
  HttpApiEndpoint.delete("remove", `${base}/:id`, {
    params: ofEndpoint,
    success: HttpApiSchema.NoContent,
    error: readErrors
  }).annotateMerge(described({
    name: "deleteWebhookEndpoint",
    summary: "Delete a webhook endpoint",
    description: "Ends its deliveries and deletes its log.",
    responses: { ...owned, 204: "The endpoint is gone, and receives nothing more." }
  })),
  HttpApiEndpoint.post("rotateSecret", `${base}/:id/rotate-secret`, {
    params: ofEndpoint,
    payload: Views.RotateSecret,
    success: Views.EndpointWithSecretView,
    error: changeErrors
  }).annotateMerge(described({
    name: "rotateEndpointSecret",
    summary: "Replace the secret",
    description:
      "From now on the new secret signs, and the old one too for a while: `webhook-signature` then has two entries. The body is optional.",
    isBodyOptional: true,
    request: { keep_old_for: limits.keepOld.default },
    responses: { ...owned, 200: "The endpoint with its new secret, which is not shown again." }
  })),
  HttpApiEndpoint.post("test", `${base}/:id/test`, {
    params: ofEndpoint,
    payload: Views.TestEndpoint,
    success: Views.TestedView,
    error: changeErrors
  }).annotateMerge(described({
    name: "testWebhookEndpoint",
    summary: "Send a sample",
    description:
      "Sends a sample now, once, also to a disabled endpoint, and returns the attempt. The body is optional.",
    isBodyOptional: true,
    request: { event: "task.failed" },
    responses: { ...owned, 200: "The attempt to send the sample, whatever its outcome." }
  })),
  HttpApiEndpoint.get("deliveries", `${base}/:id/deliveries`, {
    params: ofEndpoint,
    success: Views.EndpointDeliveriesView,
    error: readErrors
  }).annotateMerge(described({
    name: "listEndpointDeliveries",
    summary: "List deliveries",
    description: "The log of an endpoint, newest first, kept for 30 days.",
    parameters: Parameters.documented(Views.parameters.deliveries),
    responses: { 200: "One page of the log of the endpoint.", 404: unknown }
  })),
  HttpApiEndpoint.post("redeliver", `${base}/:id/deliveries/:delivery/redeliver`, {
    params: { ...ofEndpoint, delivery: Schema.String },
    success: Views.EndpointDeliveryView.pipe(HttpApiSchema.status(202)),
    error: readErrors
  }).annotateMerge(described({
    name: "redeliverEvent",
    summary: "Send an event again",
    description: "Makes one more attempt with the same body and the same `webhook-id`. Of a pending delivery it "
      + "does not count: the pause before its next attempt begins again.",
    responses: {
      202: "The event is sent again now, or when the endpoint is enabled. The body is its delivery.",
      404: refusal(coreCodes, "delivery_not_found", "There is no such webhook endpoint, or it has no such delivery.")
    }
  })),
  HttpApiEndpoint.post("replay", `${base}/:id/replay`, {
    params: ofEndpoint,
    payload: Views.ReplayEndpoint,
    success: Views.ReplayedView.pipe(HttpApiSchema.status(202)),
    error: changeErrors
  }).annotateMerge(described({
    name: "replayEndpoint",
    summary: "Send the events of a range again",
    description:
      `Sends the deliveries of the log that are not pending again, the oldest first, a hundred a second, at most ${limits.replay} in one request.`,
    request: { from: createdAt, to: completedAt, failed_only: true },
    responses: { ...owned, 202: "The number of deliveries of the range that are sent again." }
  })),
  HttpApiEndpoint.get("events", `${base}/:id/events`, {
    params: ofEndpoint,
    success: Schema.String.pipe(HttpApiSchema.asText({ contentType: "text/event-stream" })),
    error: [...readErrors, Errors.Forbidden, Errors.Conflict, Errors.TooManyRequests]
  }).annotateMerge(described({
    name: "readEndpointEvents",
    summary: "Read events as a stream",
    description:
      "Server-sent events of an endpoint whose `url` is null: `event` is the type, `data` the body. Begins with the oldest event of its log, or "
      + "behind `Last-Event-ID`, and ends when the endpoint is deleted or gets a `url`, or the node stops. Needs a token that may write.",
    parameters: [
      header("Last-Event-ID", "The `id` of the last event that was received.", {
        type: "string",
        pattern: "^\\d{1,15}$"
      })
    ],
    stream: { description: "Server-sent events, each with the body of an event as its `data`.", type: "string" },
    response: `id: 1\nevent: task.completed\ndata: ${
      JSON.stringify({
        id: event,
        type: "task.completed",
        created_at: completedAt,
        data: { task: summary }
      })
    }\n\n`,
    responses: {
      200: "The stream of the events of the endpoint. It ends when the node stops.",
      404: unknown,
      409: refusal(errorCodes, "endpoint_is_sent"),
      429: refusal(errorCodes, "too_many_readers")
    }
  }))
).middleware(OperatorAuthorization).annotateMerge(
  OpenApi.annotations({ description: "Webhook endpoints: one handler of the events of all tasks." })
) {}

export class EndpointsApi extends HttpApi.make("async-task-service-webhook-endpoints").add(EndpointsGroup) {}
