/** The REST interface of SPEC and CONTRACT 2 and 4, from which routes, OpenAPI document and typed client are made. */
import { Schema } from "effect"
import { Multipart } from "effect/http"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { CoreEvent } from "../../domain/CoreProtocol.ts"
import { CreateTaskBody } from "../../domain/TaskRequest.ts"
import * as Errors from "./Errors.ts"
import * as Files from "./FileSchemas.ts"
import { Authorization, InternalAuthorization } from "./Middleware.ts"
import * as Tasks from "./TaskSchemas.ts"

const uuid = { uuid: Schema.String }
const ofOneTask = [Errors.Forbidden, Errors.NotFound] as const
const ofAnyBody = [Errors.RequestTimeout, Errors.UnsupportedMediaType, Errors.ValidationFailed] as const
const ofBody = [...ofAnyBody, Errors.PayloadTooLarge] as const
const values = Schema.Union([Schema.String, Schema.Array(Schema.String)])

export class TasksGroup extends HttpApiGroup.make("tasks").add(
  HttpApiEndpoint.post("create", "/api/tasks", {
    payload: CreateTaskBody,
    success: Tasks.CreatedTaskView.pipe(HttpApiSchema.status(201)),
    error: [...ofBody, Errors.TooManyRequests]
  }),
  HttpApiEndpoint.get("list", "/api/tasks", {
    query: {
      status: Schema.optionalKey(values),
      "status[]": Schema.optionalKey(values),
      page: Schema.optionalKey(values),
      per_page: Schema.optionalKey(values)
    },
    success: Tasks.TaskPageView,
    error: Errors.ValidationFailed
  }),
  HttpApiEndpoint.get("get", "/api/tasks/:uuid", { params: uuid, success: Tasks.TaskView, error: ofOneTask }),
  HttpApiEndpoint.post("cancelInterrupted", "/api/tasks/cancel-interrupted", { success: Tasks.CanceledTasksView }),
  HttpApiEndpoint.post("submitToolResults", "/api/tasks/:uuid/tool-results", {
    params: uuid,
    payload: Tasks.ToolResultsBody,
    success: Tasks.ResumedTaskView,
    error: [...ofOneTask, ...ofBody, Errors.Conflict]
  }),
  HttpApiEndpoint.post("cancel", "/api/tasks/:uuid/cancel", {
    params: uuid,
    payload: Tasks.CancelBody,
    success: Tasks.CanceledTaskView,
    error: [...ofOneTask, ...ofBody, Errors.Conflict]
  })
).middleware(Authorization) {}

export class FilesGroup extends HttpApiGroup.make("files").add(
  HttpApiEndpoint.post("upload", "/api/files", {
    payload: Schema.Struct({ file: Multipart.SingleFileSchema }).pipe(HttpApiSchema.asMultipartStream()),
    success: Files.UploadedFileView.pipe(HttpApiSchema.status(201)),
    error: [...ofAnyBody, Errors.BadGateway]
  }),
  HttpApiEndpoint.get("storageBase", "/api/storage/base", {
    success: Files.StorageBaseView,
    error: Errors.BadGateway
  })
).middleware(Authorization) {}

export class CoreGroup extends HttpApiGroup.make("core").add(
  HttpApiEndpoint.post("report", "/internal/core/events", {
    payload: CoreEvent,
    success: Tasks.ReportedView,
    error: [...ofBody, Errors.NotFound, Errors.RunConflict]
  })
).middleware(InternalAuthorization) {}

export class Api
  extends HttpApi.make("async-task-service").add(FilesGroup).add(TasksGroup).add(CoreGroup).annotateMerge(
    OpenApi.annotations({
      title: "Asynchronous Task Service",
      version: "1.0.0",
      description:
        "Runs AI-assistant tasks in the background: create, poll or be called back, answer tool calls, cancel."
    })
  )
{}
