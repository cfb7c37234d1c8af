/** The REST interface of SPEC and CONTRACT 2 and 4, from which routes, OpenAPI document and typed client are made. */
import { Schema } from "effect"
import { Multipart } from "effect/http"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { CoreEvent } from "../../domain/CoreProtocol.ts"
import * as Limits from "../../domain/Limits.ts"
import { CreateTaskBody } from "../../domain/TaskRequest.ts"
import * as Errors from "./Errors.ts"
import * as Files from "./FileSchemas.ts"
import { Authorization, InternalAuthorization } from "./Middleware.ts"
import { finish } from "./OpenApiTransform.ts"
import * as Tasks from "./TaskSchemas.ts"
import { RevokeBody } from "./TokenSchemas.ts"

const uuid = { uuid: Schema.String }
const ofOneTask = [Errors.Forbidden, Errors.NotFound] as const
const ofAnyBody = [Errors.RequestTimeout, Errors.UnsupportedMediaType, Errors.ValidationFailed] as const
const ofBody = [...ofAnyBody, Errors.PayloadTooLarge, Errors.ServiceUnavailable] as const
const documented = (summary: string, description: string) => OpenApi.annotations({ summary, description })
const values = Schema.Union([Schema.String, Schema.Array(Schema.String)])

export class TasksGroup extends HttpApiGroup.make("tasks").add(
  HttpApiEndpoint.post("create", "/api/tasks", {
    payload: CreateTaskBody,
    success: Tasks.CreatedTaskView.pipe(HttpApiSchema.status(201)),
    error: [...ofBody, Errors.TooManyRequests]
  }).annotateMerge(
    documented("Create a task", "Queues a task and answers at once. Read it with the uuid, or be called back.")
  ),
  HttpApiEndpoint.get("list", "/api/tasks", {
    query: {
      status: Schema.optionalKey(values),
      "status[]": Schema.optionalKey(values),
      page: Schema.optionalKey(values),
      per_page: Schema.optionalKey(values)
    },
    success: Tasks.TaskPageView,
    error: Errors.ValidationFailed
  }).annotateMerge(documented("List tasks", "The caller's tasks, newest first.")),
  HttpApiEndpoint.get("get", "/api/tasks/:uuid", {
    params: uuid,
    query: { wait: Schema.optionalKey(values), include: Schema.optionalKey(values) },
    success: Tasks.TaskView,
    error: [...ofOneTask, Errors.ValidationFailed, Errors.TooManyRequests]
  }).annotateMerge(
    documented(
      "Read a task",
      "The task with its result. Poll it every second or two, or let `wait` hold the answer until there is something to do."
    )
  ),
  HttpApiEndpoint.get("events", "/api/tasks/:uuid/events", {
    params: uuid,
    success: HttpApiSchema.StreamSse({ data: Tasks.TaskEventView }),
    error: [...ofOneTask, Errors.ValidationFailed, Errors.TooManyRequests]
  }).annotateMerge(
    documented(
      "Follow a task",
      "Server-sent events: one for each transition and progress note, from the beginning or after `Last-Event-ID`. Ends after the terminal event."
    )
  ),
  HttpApiEndpoint.get("deliveries", "/api/tasks/:uuid/deliveries", {
    params: uuid,
    success: Tasks.DeliveriesView,
    error: ofOneTask
  }).annotateMerge(
    documented(
      "List webhook deliveries",
      `Every webhook of the task with its attempts, the newest ${Limits.listedDeliveries} at most.`
    )
  ),
  HttpApiEndpoint.post("redeliver", "/api/tasks/:uuid/deliveries/:id/redeliver", {
    params: { ...uuid, id: Schema.String },
    payload: Tasks.RedeliverBody,
    success: Tasks.DeliveryView.pipe(HttpApiSchema.status(202)),
    error: [...ofOneTask, ...ofBody, Errors.Conflict, Errors.TooManyRequests]
  }).annotateMerge(
    documented(
      "Send a webhook again",
      "Owes one more attempt, at once. Of a webhook that is pending anyway it hurries the next attempt. The body may be left out. "
        + `A user may request ${Limits.redeliveries} at once and then one each second, beyond which the answer is 429; after `
        + `${Limits.webhookAttemptsByHand} attempts of one webhook it is 409.`
    )
  ),
  HttpApiEndpoint.post("cancelInterrupted", "/api/tasks/cancel-interrupted", { success: Tasks.CanceledTasksView })
    .annotateMerge(
      documented(
        "Cancel all interrupted tasks",
        "Cancels every interrupted task of the caller at once. A request body is ignored."
      )
    ),
  HttpApiEndpoint.post("submitToolResults", "/api/tasks/:uuid/tool-results", {
    params: uuid,
    payload: Tasks.ToolResultsBody,
    success: Tasks.ResumedTaskView,
    error: [...ofOneTask, ...ofBody, Errors.Conflict]
  }).annotateMerge(
    documented(
      "Answer tool calls",
      "Sends the results of all pending calls of an interrupted task and resumes it. The token of this request becomes the task's own."
    )
  ),
  HttpApiEndpoint.post("cancel", "/api/tasks/:uuid/cancel", {
    params: uuid,
    payload: Tasks.CancelBody,
    success: Tasks.CanceledTaskView,
    error: [...ofOneTask, ...ofBody, Errors.Conflict]
  }).annotateMerge(documented("Cancel a task", "Cancels an interrupted task. The body may be left out."))
).middleware(Authorization).annotateMerge(
  OpenApi.annotations({ description: "Tasks: create, read, answer, cancel." })
) {}

export class FilesGroup extends HttpApiGroup.make("files").add(
  HttpApiEndpoint.post("upload", "/api/files", {
    payload: Schema.Struct({ file: Multipart.SingleFileSchema }).pipe(HttpApiSchema.asMultipartStream()),
    success: Files.UploadedFileView.pipe(HttpApiSchema.status(201)),
    error: [...ofAnyBody, Errors.BadGateway, Errors.TooManyRequests]
  }).annotateMerge(
    documented(
      "Upload a file",
      "Streams one file to the assistant backend, whose rules apply beside the limits of size and format."
    )
  ),
  HttpApiEndpoint.get("storageBase", "/api/storage/base", {
    success: Files.StorageBaseView,
    error: Errors.BadGateway
  }).annotateMerge(documented("Find the storage", "Where files are downloaded from, without a token."))
).middleware(Authorization).annotateMerge(
  OpenApi.annotations({ description: "Files: upload, and where to download." })
) {}

export class CoreGroup extends HttpApiGroup.make("core").add(
  HttpApiEndpoint.post("report", "/internal/core/events", {
    payload: CoreEvent,
    success: Tasks.ReportedView,
    error: [...ofBody, Errors.NotFound, Errors.RunConflict]
  }).annotateMerge(
    documented("Report on a run", "For the processing core: what became of a run. 409 tells it to stop.")
  )
).middleware(InternalAuthorization).annotateMerge(
  OpenApi.annotations({ description: "For the processing core, with an internal token." })
) {}

export class TokensGroup extends HttpApiGroup.make("tokens").add(
  HttpApiEndpoint.post("revoke", "/internal/tokens/revoke", {
    payload: RevokeBody,
    success: HttpApiSchema.NoContent,
    error: ofBody
  }).annotateMerge(
    documented(
      "Revoke tokens",
      "For those who issue tokens: refuses them from now on, on every node within 5 seconds. Tasks that are processing "
        + "with one fail at once, pending ones as soon as they would start; interrupted ones wait for another token."
    )
  )
).middleware(InternalAuthorization).annotateMerge(
  OpenApi.annotations({ description: "For those who issue tokens, with an internal token." })
) {}

export class OperationsGroup extends HttpApiGroup.make("operations").add(
  HttpApiEndpoint.get("metrics", "/internal/metrics", {
    success: Schema.String.pipe(HttpApiSchema.asText())
  }).annotateMerge(
    documented("Read the metrics", "Of this node, in Prometheus's text format.")
  )
).middleware(InternalAuthorization).annotateMerge(
  OpenApi.annotations({ description: "For operators, with an internal token." })
) {}

export class Api
  extends HttpApi.make("async-task-service").add(FilesGroup).add(TasksGroup).add(CoreGroup).add(TokensGroup).add(
    OperationsGroup
  )
    .annotateMerge(
      OpenApi.annotations({
        title: "Asynchronous Task Service",
        version: "1.0.0",
        description:
          "Runs AI-assistant tasks in the background: create, poll or be called back, answer tool calls, cancel. Fields may be "
          + "added to answers at any time: tolerate what you do not know.",
        transform: finish
      })
    )
{}
