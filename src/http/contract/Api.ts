/** The REST interface. Routes, OpenAPI document and typed client are derived from it; `http/README.md` is the reference. */
import { Schema } from "effect"
import { Multipart } from "effect/http"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { CoreReports } from "../../domain/CoreProtocol.ts"
import * as Limits from "../../domain/Limits.ts"
import { errorCodes } from "./ErrorCodes.ts"
import * as Errors from "./Errors.ts"
import { completedAt, turn, uuid } from "./Examples.ts"
import * as Files from "./FileSchemas.ts"
import { Authorization, CoreAuthorization, InternalAuthorization, MetricsAuthorization } from "./Middleware.ts"
import { finish, taskWebhook } from "./OpenApiTransform.ts"
import { operation, refusal } from "./Operation.ts"
import { TasksGroup } from "./TasksApi.ts"
import { ReportedEventsView, ReportedView } from "./TaskSchemas.ts"
import { RevokeBody } from "./TokenSchemas.ts"

class FilesGroup extends HttpApiGroup.make("files").add(
  HttpApiEndpoint.post("upload", "/api/files", {
    payload: Schema.Struct({ file: Multipart.SingleFileSchema }).pipe(HttpApiSchema.asMultipartStream()),
    success: Files.UploadedFileView.pipe(HttpApiSchema.status(201)),
    error: [...Errors.bodyErrors, Errors.NotFound, Errors.BadGateway, Errors.TooManyRequests]
  }).annotateMerge(
    operation({
      name: "uploadFile",
      summary: "Upload a file",
      description:
        "Streams one file to the assistant backend, whose own rules apply in addition to the limits of size and format. "
        + "A form with a second `file` is refused.",
      response: {
        type: "file",
        file: { id: "17", name: "report.pdf", mime_type: "application/pdf", provider_data: { path: "17/report.pdf" } }
      },
      responses: {
        201: "The assistant backend stored the file. The body is an input item.",
        404: refusal(errorCodes, "files_not_kept"),
        408: "The upload stalled: no data arrived in time.",
        422: "The file or the form was refused; `errors` has the field `file`, or is the assistant backend's own.",
        429: refusal(errorCodes, "too_many_uploads")
      }
    })
  ),
  HttpApiEndpoint.get("storageBase", "/api/storage/base", {
    success: Files.StorageBaseView,
    error: [Errors.NotFound, Errors.BadGateway]
  }).annotateMerge(
    operation({
      name: "getStorageBase",
      summary: "Get the storage URL",
      description: "Returns the base URL of the storage. Downloads from it need no token.",
      response: { url: "https://storage.example.com/public" },
      responses: { 200: "The public base URL of the storage.", 404: refusal(errorCodes, "files_not_kept") }
    })
  )
).middleware(Authorization).annotateMerge(
  OpenApi.annotations({ description: "Files: upload, and the URL for downloads." })
) {}

class CoreGroup extends HttpApiGroup.make("core").add(
  HttpApiEndpoint.post("report", "/internal/core/events", {
    payload: CoreReports,
    success: Schema.Union([ReportedView, ReportedEventsView]),
    error: [...Errors.jsonErrors, Errors.NotFound, Errors.RunConflict]
  }).annotateMerge(
    operation({
      name: "reportCoreEvent",
      summary: "Report an event of a run",
      description:
        "For the processing core. After a 409 the core must stop the run. `{events: […]}` reports several of any runs at once, in up to 1 MiB: the "
        + "answer has what became of each.",
      request: {
        task_id: uuid,
        run_id: "019ac5d2-8001-7b10-a5f3-90b1c2d3e4f5",
        event_id: "evt-1",
        type: "completed",
        turn
      },
      bodyBytes: Limits.coreEventBytes,
      response: { status: "completed", applied: true },
      responses: {
        200: "The event was recorded, or had no effect: `applied` is false then.",
        409: {
          description: "The run is not the task's current one, or the task has ended: stop the run.",
          example: {
            message: "The run is not the task's current one, or the task has ended: stop it.",
            code: "run_superseded",
            status: "canceled"
          }
        }
      }
    })
  )
).middleware(CoreAuthorization).annotateMerge(
  OpenApi.annotations({ description: "For the processing core, with its token for events." })
) {}

class TokensGroup extends HttpApiGroup.make("tokens").add(
  HttpApiEndpoint.post("revoke", "/internal/tokens/revoke", {
    payload: RevokeBody,
    success: HttpApiSchema.NoContent,
    error: Errors.jsonErrors
  }).annotateMerge(
    operation({
      name: "revokeTokens",
      summary: "Revoke tokens",
      description: "For token issuers. Every node refuses the tokens within 5 seconds. Tasks that are processing "
        + "with one fail immediately, pending ones as soon as they would start; interrupted ones wait for another token.",
      request: { sub: "user-1", issued_before: completedAt },
      responses: { 204: "The revocation is stored and takes effect within 5 seconds on every node." }
    })
  )
).middleware(InternalAuthorization).annotateMerge(
  OpenApi.annotations({ description: "For token issuers, with an internal token." })
) {}

class OperationsGroup extends HttpApiGroup.make("operations").add(
  HttpApiEndpoint.get("metrics", "/internal/metrics", {
    success: Schema.String.pipe(HttpApiSchema.asText())
  }).annotateMerge(
    operation({
      name: "getMetrics",
      summary: "Read the metrics",
      description: "Metrics of this node in Prometheus's text format.",
      response: "# TYPE task_active gauge\ntask_active 3\n",
      responses: { 200: "The current metrics of this node." }
    })
  )
).middleware(MetricsAuthorization).annotateMerge(
  OpenApi.annotations({
    description: "For operators and Prometheus, with an internal token or one that may only read."
  })
) {}

/** The calls of clients: the document at `/openapi.json`. */
export class PublicApi extends HttpApi.make("async-task-service").add(TasksGroup, FilesGroup).annotateMerge(
  OpenApi.annotations({
    title: "Asynchronous Task Service",
    description:
      "Runs AI-assistant tasks in the background: create, poll or receive webhooks, submit tool results, cancel. Responses "
      + "may gain fields at any time: ignore fields that you do not know.",
    transform: finish({ taskChanged: taskWebhook })
  })
) {}

/** The calls of the processing core and token issuers: the document at `/internal/openapi.json`, with those of extensions. */
export class InternalApi
  extends HttpApi.make("async-task-service").add(CoreGroup, TokensGroup, OperationsGroup).annotateMerge(
    OpenApi.annotations({
      title: "Asynchronous Task Service: internal interface",
      description:
        "Calls of token issuers and operators, with one of `INTERNAL_TOKENS` as the bearer token, and of the processing core, with one of "
        + "`CORE_EVENT_TOKENS`.\n\n"
        + "Typed RPC has more calls: `POST /rpc` with one JSON message per line, for example `{\"_tag\":\"Request\",\"id\":\"1\","
        + "\"tag\":\"Tasks.list\",\"payload\":{\"sub\":\"alice\"},\"headers\":[]}`. The response is an `Exit` line with the same "
        + "`requestId`, whose `exit` is `{\"_tag\":\"Success\",\"value\":…}` or a typed failure.",
      transform: finish({})
    })
  )
{}

export class Api extends PublicApi.add(CoreGroup, TokensGroup, OperationsGroup) {}
