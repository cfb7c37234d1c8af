/** The REST interface. Routes, OpenAPI document and typed client are derived from it; `http/README.md` is the reference. */
import { Schema } from "effect"
import { Multipart } from "effect/http"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { CoreEvent } from "../../domain/CoreProtocol.ts"
import * as Limits from "../../domain/Limits.ts"
import { CreateTaskBody } from "../../domain/TaskRequest.ts"
import { RerunBody } from "../../domain/TaskRerun.ts"
import * as Errors from "./Errors.ts"
import * as Files from "./FileSchemas.ts"
import { Authorization, InternalAuthorization } from "./Middleware.ts"
import { finish, taskWebhook } from "./OpenApiTransform.ts"
import { OperatorGroup } from "./OperatorApi.ts"
import * as Tasks from "./TaskSchemas.ts"
import { RevokeBody } from "./TokenSchemas.ts"

const uuid = { uuid: Schema.String }
const taskErrors = [Errors.Forbidden, Errors.NotFound] as const
const bodyErrors = [Errors.RequestTimeout, Errors.UnsupportedMediaType, Errors.ValidationFailed] as const
const jsonErrors = [...bodyErrors, Errors.PayloadTooLarge, Errors.ServiceUnavailable] as const
const documented = (summary: string, description: string) => OpenApi.annotations({ summary, description })
const values = Schema.Union([Schema.String, Schema.Array(Schema.String)])

class TasksGroup extends HttpApiGroup.make("tasks").add(
  HttpApiEndpoint.post("create", "/api/tasks", {
    payload: CreateTaskBody,
    success: Tasks.CreatedTaskView.pipe(HttpApiSchema.status(201)),
    error: [...jsonErrors, Errors.TooManyRequests]
  }).annotateMerge(
    documented(
      "Create a task",
      "Queues a task and returns immediately. The answer is `turn.output` of the task: read it with `GET /api/tasks/{uuid}?wait=60`, "
        + "which responds when the task ends or is interrupted and after 60 s at the latest, or receive webhooks at `callback_url`."
    )
  ),
  HttpApiEndpoint.get("list", "/api/tasks", {
    query: Schema.StructWithRest(
      Schema.Struct({
        status: Schema.optionalKey(values),
        page: Schema.optionalKey(values),
        per_page: Schema.optionalKey(values),
        include: Schema.optionalKey(values)
      }),
      [Schema.Record(Schema.TemplateLiteral(["metadata[", Schema.String, "]"]), values)]
    ),
    success: Tasks.TaskPageView,
    error: Errors.ValidationFailed
  }).annotateMerge(documented("List tasks", "The caller's tasks, newest first.")),
  HttpApiEndpoint.get("get", "/api/tasks/:uuid", {
    params: uuid,
    query: { wait: Schema.optionalKey(values), include: Schema.optionalKey(values) },
    success: Tasks.TaskView,
    error: [...taskErrors, Errors.ValidationFailed, Errors.TooManyRequests]
  }).annotateMerge(
    documented(
      "Read a task",
      "The task with its result. Poll it every 1 to 2 seconds, or use `wait` to hold the response until the task ends or is interrupted."
    )
  ),
  HttpApiEndpoint.post("rerun", "/api/tasks/:uuid/rerun", {
    params: uuid,
    payload: RerunBody,
    success: Tasks.CreatedTaskView.pipe(HttpApiSchema.status(201)),
    error: [...taskErrors, ...jsonErrors, Errors.Conflict, Errors.TooManyRequests]
  }).annotateMerge(
    documented(
      "Run a task again",
      "Creates a task with the request of a live or ended task. The body is optional: its fields replace those of the request, "
        + "`null` removes an optional field. `callback_secret` is never copied."
    )
  ),
  HttpApiEndpoint.delete("delete", "/api/tasks/:uuid", {
    params: uuid,
    success: HttpApiSchema.NoContent,
    error: [...taskErrors, Errors.Conflict]
  }).annotateMerge(
    documented(
      "Delete a task",
      "Deletes a task that has ended, with its result, events and webhooks; pending webhooks are not sent. A repeated create with "
        + "the task's `Idempotency-Key` still returns the first response."
    )
  ),
  HttpApiEndpoint.get("events", "/api/tasks/:uuid/events", {
    params: uuid,
    query: { include: Schema.optionalKey(values) },
    success: HttpApiSchema.StreamSse({ data: Tasks.TaskEventView }),
    error: [...taskErrors, Errors.ValidationFailed, Errors.TooManyRequests]
  }).annotateMerge(
    documented(
      "Follow a task",
      "Server-sent events: one for each transition and progress note, from creation on or after `Last-Event-ID`. The stream ends after the final event."
    )
  ),
  HttpApiEndpoint.get("deliveries", "/api/tasks/:uuid/deliveries", {
    params: uuid,
    success: Tasks.DeliveriesView,
    error: taskErrors
  }).annotateMerge(
    documented(
      "List webhook deliveries",
      `The webhooks of the task with their attempts: the newest ${Limits.listedDeliveries} at most.`
    )
  ),
  HttpApiEndpoint.post("redeliver", "/api/tasks/:uuid/deliveries/:id/redeliver", {
    params: { ...uuid, id: Schema.String },
    payload: Tasks.RedeliverBody,
    success: Tasks.DeliveryView.pipe(HttpApiSchema.status(202)),
    error: [...taskErrors, ...jsonErrors, Errors.Conflict, Errors.TooManyRequests]
  }).annotateMerge(
    documented(
      "Send a webhook again",
      "Makes one more attempt immediately; for a pending webhook, makes the next attempt immediately. The body is optional. "
        + `A user may request ${Limits.redeliveries} in a row and then one per second; more return 429. After `
        + `${Limits.maxWebhookAttempts} attempts of one webhook the response is 409.`
    )
  ),
  HttpApiEndpoint.post("cancelInterrupted", "/api/tasks/cancel-interrupted", { success: Tasks.CanceledTasksView })
    .annotateMerge(
      documented(
        "Cancel all interrupted tasks",
        "Cancels every interrupted task of the caller. A request body is ignored."
      )
    ),
  HttpApiEndpoint.post("submitToolResults", "/api/tasks/:uuid/tool-results", {
    params: uuid,
    payload: Tasks.ToolResultsBody,
    success: Tasks.ResumedTaskView,
    error: [...taskErrors, ...jsonErrors, Errors.Conflict]
  }).annotateMerge(
    documented(
      "Submit tool results",
      "Submits the results of all pending calls of an interrupted task and resumes it. The token of this request becomes the task's own."
    )
  ),
  HttpApiEndpoint.post("cancel", "/api/tasks/:uuid/cancel", {
    params: uuid,
    payload: Tasks.CancelBody,
    success: Tasks.CanceledTaskView,
    error: [...taskErrors, ...jsonErrors, Errors.Conflict]
  }).annotateMerge(documented("Cancel a task", "Cancels an interrupted task. The body is optional."))
).middleware(Authorization).annotateMerge(
  OpenApi.annotations({ description: "Tasks: create, read, submit tool results, cancel." })
) {}

class FilesGroup extends HttpApiGroup.make("files").add(
  HttpApiEndpoint.post("upload", "/api/files", {
    payload: Schema.Struct({ file: Multipart.SingleFileSchema }).pipe(HttpApiSchema.asMultipartStream()),
    success: Files.UploadedFileView.pipe(HttpApiSchema.status(201)),
    error: [...bodyErrors, Errors.BadGateway, Errors.TooManyRequests]
  }).annotateMerge(
    documented(
      "Upload a file",
      "Streams one file to the assistant backend, whose own rules apply in addition to the limits of size and format. "
        + "A form with a second `file` is refused."
    )
  ),
  HttpApiEndpoint.get("storageBase", "/api/storage/base", {
    success: Files.StorageBaseView,
    error: Errors.BadGateway
  }).annotateMerge(
    documented("Get the storage URL", "Returns the base URL of the storage. Downloads from it need no token.")
  )
).middleware(Authorization).annotateMerge(
  OpenApi.annotations({ description: "Files: upload, and the URL for downloads." })
) {}

class CoreGroup extends HttpApiGroup.make("core").add(
  HttpApiEndpoint.post("report", "/internal/core/events", {
    payload: CoreEvent,
    success: Tasks.ReportedView,
    error: [...jsonErrors, Errors.NotFound, Errors.RunConflict]
  }).annotateMerge(
    documented("Report an event of a run", "For the processing core. After a 409 the core must stop the run.")
  )
).middleware(InternalAuthorization).annotateMerge(
  OpenApi.annotations({ description: "For the processing core, with an internal token." })
) {}

class TokensGroup extends HttpApiGroup.make("tokens").add(
  HttpApiEndpoint.post("revoke", "/internal/tokens/revoke", {
    payload: RevokeBody,
    success: HttpApiSchema.NoContent,
    error: jsonErrors
  }).annotateMerge(
    documented(
      "Revoke tokens",
      "For token issuers. Every node refuses the tokens within 5 seconds. Tasks that are processing "
        + "with one fail immediately, pending ones as soon as they would start; interrupted ones wait for another token."
    )
  )
).middleware(InternalAuthorization).annotateMerge(
  OpenApi.annotations({ description: "For token issuers, with an internal token." })
) {}

class OperationsGroup extends HttpApiGroup.make("operations").add(
  HttpApiEndpoint.get("metrics", "/internal/metrics", {
    success: Schema.String.pipe(HttpApiSchema.asText())
  }).annotateMerge(
    documented("Read the metrics", "Metrics of this node in Prometheus's text format.")
  )
).middleware(InternalAuthorization).annotateMerge(
  OpenApi.annotations({ description: "For operators, with an internal token." })
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

/** The calls of the processing core, token issuers and operators: the document at `/internal/openapi.json`. */
export class InternalApi
  extends HttpApi.make("async-task-service").add(CoreGroup, TokensGroup, OperationsGroup, OperatorGroup).annotateMerge(
    OpenApi.annotations({
      title: "Asynchronous Task Service: internal interface",
      description:
        "Calls of the processing core, token issuers and operators, with one of `INTERNAL_TOKENS` as the bearer token.\n\n"
        + "Typed RPC has more calls: `POST /rpc` with one JSON message per line, for example `{\"_tag\":\"Request\",\"id\":\"1\","
        + "\"tag\":\"Tasks.list\",\"payload\":{\"sub\":\"alice\"},\"headers\":[]}`. The response is an `Exit` line with the same "
        + "`requestId`, whose `exit` is `{\"_tag\":\"Success\",\"value\":…}` or a typed failure.",
      transform: finish({})
    })
  )
{}

export class Api extends PublicApi.add(CoreGroup, TokensGroup, OperationsGroup, OperatorGroup) {}
