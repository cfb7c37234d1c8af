/** The group `tasks` of the REST interface. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Limits from "../../domain/Limits.ts"
import { CreateTaskBody } from "../../domain/TaskRequest.ts"
import { RerunBody } from "../../domain/TaskRerun.ts"
import { errorCodes } from "./ErrorCodes.ts"
import * as Errors from "./Errors.ts"
import { completedAt, createdAt, deliveryId, summary, turn, uuid } from "./Examples.ts"
import { Authorization } from "./Middleware.ts"
import { schemaRef } from "./OpaqueSchemas.ts"
import { header, idempotencyKey, integer, operation, query, refusal } from "./Operation.ts"
import * as Tasks from "./TaskSchemas.ts"

const ofTask = { uuid: Schema.String }
const taskErrors = [Errors.Forbidden, Errors.NotFound] as const
const values = Schema.Union([Schema.String, Schema.Array(Schema.String)])
const statusQuery =
  "Only tasks of these statuses: one value, or several with commas. Repeated parameters (`status=…&status=…` "
  + "or `status[]=…`) are accepted too. An empty or unknown value is 422."

const include = (description: string, names: ReadonlyArray<string>) =>
  query("include", description, { type: "array", items: { type: "string", enum: names } }, {
    style: "form",
    explode: false
  })

const toolCall = { id: "call_1", name: "get_calendar", arguments: { day: "2026-11-23" } }

const delivery = {
  id: deliveryId,
  status: "completed",
  state: "delivered",
  created_at: completedAt,
  next_attempt_at: null,
  attempts: [
    { number: 1, started_at: completedAt, duration_ms: 84, response_status: 200, error: null, hint: null }
  ]
}

export class TasksGroup extends HttpApiGroup.make("tasks").add(
  HttpApiEndpoint.post("create", "/api/tasks", {
    payload: CreateTaskBody,
    success: Tasks.CreatedTaskView.pipe(HttpApiSchema.status(201)),
    error: [...Errors.jsonErrors, Errors.TooManyRequests]
  }).annotateMerge(
    operation({
      name: "createTask",
      summary: "Create a task",
      description:
        "Queues a task and returns immediately. The answer is `turn.output` of the task: read it with `GET /api/tasks/{uuid}?wait=50`, "
        + "which responds when the task ends or is interrupted and after 50 s at the latest, or receive webhooks at `callback_url`.",
      parameters: [idempotencyKey],
      // It succeeds on a fresh installation, so that the first try completes.
      request: { assistant_id: 1, input: [{ type: "text", text: "What is 6 * 7?" }] },
      response: { uuid, status: "pending", max_execution_time: 86_400 },
      responses: {
        201: {
          description:
            "The task was created and is queued. With a repeated `Idempotency-Key`, the task of the first request.",
          headers: ["Location"]
        },
        429: refusal(errorCodes, "too_many_active_tasks", "The user has the maximum number of active tasks.")
      }
    })
  ),
  HttpApiEndpoint.get("list", "/api/tasks", {
    // Also pairs of metadata, and the parameters of extensions.
    query: Schema.StructWithRest(
      Schema.Struct({
        status: Schema.optionalKey(values),
        page: Schema.optionalKey(values),
        per_page: Schema.optionalKey(values),
        include: Schema.optionalKey(values),
        q: Schema.optionalKey(values),
        assistant_id: Schema.optionalKey(values),
        from: Schema.optionalKey(values),
        to: Schema.optionalKey(values)
      }),
      [Schema.Record(Schema.String, values)]
    ),
    success: Tasks.TaskPageView,
    error: Errors.ValidationFailed
  }).annotateMerge(operation({
    name: "listTasks",
    summary: "List tasks",
    description: "The caller's tasks, newest first.",
    parameters: [
      query("status", statusQuery, { type: "array", minItems: 1, items: schemaRef("TaskStatus") }, {
        style: "form",
        explode: false
      }),
      query("page", "Page number, from 1.", integer(1, Number.MAX_SAFE_INTEGER, 1)),
      query("per_page", "Page size.", integer(1, Limits.perPage.maximum, Limits.perPage.default)),
      query(
        "metadata",
        "Only tasks with these pairs of metadata, each as `metadata[key]=value`.",
        {
          type: "object",
          maxProperties: Limits.metadataFilters,
          additionalProperties: { type: "string", minLength: 1 }
        },
        { style: "deepObject", explode: true }
      ),
      query(
        "q",
        "Only tasks with this text in their id, in their metadata or in their excerpt, whatever the case. It searches the ids and "
          + "metadata of the caller's newest 10,000 tasks, and the excerpts of the newest 1,000.",
        { type: "string", minLength: 1, maxLength: Limits.searchLength }
      ),
      query(
        "assistant_id",
        "Only tasks of this assistant.",
        integer(1, Number.MAX_SAFE_INTEGER, undefined)
      ),
      query("from", "Only tasks created at this moment or later.", {
        type: "string",
        format: "date-time"
      }),
      query("to", "Only tasks created before this moment.", { type: "string", format: "date-time" }),
      include(
        "`metadata` adds the metadata of each task, `excerpt` the beginning of its request, `waiting_on` the party that has to act "
          + "next, and `assistant` the `assistant_id`.",
        ["metadata", "excerpt", "waiting_on", "assistant"]
      )
    ],
    response: {
      data: [
        { ...summary, status: "interrupted", completed_at: null, pending_tool_calls: [toolCall] },
        summary
      ],
      meta: { current_page: 1, per_page: 25, last_page: 1, total: 2 }
    },
    responses: { 200: "One page of the caller's tasks. It is empty when no task matches." }
  })),
  HttpApiEndpoint.get("get", "/api/tasks/:uuid", {
    params: ofTask,
    query: { wait: Schema.optionalKey(values), include: Schema.optionalKey(values) },
    success: Tasks.TaskView,
    error: [...taskErrors, Errors.ValidationFailed, Errors.TooManyRequests]
  }).annotateMerge(
    operation({
      name: "getTask",
      summary: "Read a task",
      description:
        "The task with its result. Poll it every 1 to 2 seconds, or use `wait` to hold the response until the task ends or is interrupted.",
      parameters: [
        query(
          "wait",
          "Seconds to hold the response until the status is final or `interrupted`, or differs from the version in `If-None-Match`. "
            + `It is held for ${Limits.heldSeconds} s at most.`,
          integer(1, Limits.waitSeconds, undefined)
        ),
        include(
          "Adds fields: `waiting_on`, the party that has to act next; `request`, the original request; `metadata`. `turn` is always there.",
          ["waiting_on", "request", "turn", "metadata"]
        ),
        header("If-None-Match", "The `ETag` of the client's version: 304 while it is current.")
      ],
      response: { ...summary, turn },
      responses: {
        200: { description: "The current version of the task, which `ETag` names.", headers: ["ETag"] },
        304: {
          description: "The task has not changed since the version in `If-None-Match`.",
          headers: ["ETag"]
        },
        429: refusal(errorCodes, "too_many_waiting")
      }
    })
  ),
  HttpApiEndpoint.post("rerun", "/api/tasks/:uuid/rerun", {
    params: ofTask,
    payload: RerunBody,
    success: Tasks.CreatedTaskView.pipe(HttpApiSchema.status(201)),
    error: [...taskErrors, ...Errors.jsonErrors, Errors.Conflict, Errors.TooManyRequests]
  }).annotateMerge(
    operation({
      name: "rerunTask",
      summary: "Run a task again",
      description:
        "Creates a task with the request of a live or ended task. The body is optional: its fields replace those of the request, "
        + "`null` removes an optional field. `callback_secret` is never copied.",
      parameters: [idempotencyKey],
      isBodyOptional: true,
      request: { input: [{ type: "text", text: "What else does the report say?" }], callback_url: null },
      response: { uuid, status: "pending", max_execution_time: 3600 },
      responses: {
        201: {
          description:
            "Another task was created and is queued. With a repeated `Idempotency-Key`, that of the first request.",
          headers: ["Location"]
        },
        409: refusal(
          errorCodes,
          "request_not_kept",
          "The request was too large to keep, or the task ended before the service kept requests."
        ),
        429: refusal(errorCodes, "too_many_active_tasks", "The user has the maximum number of active tasks.")
      }
    })
  ),
  HttpApiEndpoint.delete("delete", "/api/tasks/:uuid", {
    params: ofTask,
    success: HttpApiSchema.NoContent,
    error: [...taskErrors, Errors.Conflict]
  }).annotateMerge(
    operation({
      name: "deleteTask",
      summary: "Delete a task",
      description:
        "Deletes a task that has ended, with its result, events and webhooks; pending webhooks are not sent. A repeated create with "
        + "the task's `Idempotency-Key` still returns the first response.",
      responses: {
        204: "The task was deleted with its result, events and webhooks.",
        409: refusal(errorCodes, "task_not_ended")
      }
    })
  ),
  HttpApiEndpoint.get("events", "/api/tasks/:uuid/events", {
    params: ofTask,
    query: { include: Schema.optionalKey(values) },
    success: HttpApiSchema.StreamSse({ data: Schema.Union([Tasks.TaskEventView, Tasks.TextEventView]) }),
    error: [...taskErrors, Errors.ValidationFailed, Errors.TooManyRequests]
  }).annotateMerge(
    operation({
      name: "getTaskEvents",
      summary: "Follow a task",
      description:
        "Server-sent events: one for each transition and progress note, from creation on or after `Last-Event-ID`. The stream ends after the final event.",
      parameters: [
        include(
          "`text` adds events `text` with the answer as it is written, at most 20 a second: `id` is the last revision, a dot and the end of "
            + "the text. `turn` adds the text of the partial turn to progress events.",
          ["text", "turn"]
        ),
        header(
          "Last-Event-ID",
          "The id of the last event that the client received: later events are replayed, and the text goes on behind it."
        )
      ],
      response: `id: 1\nevent: processing\ndata: ${
        JSON.stringify({ uuid, revision: 1, status: "processing", occurred_at: createdAt })
      }\n\n`,
      responses: {
        200: "The stream of events. It ends with the task, or when the token expires or is revoked.",
        204: "The task has ended and `Last-Event-ID` is its last event: no event follows.",
        429: refusal(errorCodes, "too_many_waiting")
      }
    })
  ),
  HttpApiEndpoint.get("deliveries", "/api/tasks/:uuid/deliveries", {
    params: ofTask,
    success: Tasks.DeliveriesView,
    error: taskErrors
  }).annotateMerge(
    operation({
      name: "listDeliveries",
      summary: "List webhook deliveries",
      description: `The webhooks of the task with their attempts: the newest ${Limits.listedDeliveries} at most.`,
      response: { data: [delivery] },
      responses: { 200: "The webhooks of the task with their attempts; an empty list before the first one." }
    })
  ),
  HttpApiEndpoint.post("redeliver", "/api/tasks/:uuid/deliveries/:id/redeliver", {
    params: { ...ofTask, id: Schema.String },
    payload: Tasks.RedeliverBody,
    success: Tasks.DeliveryView.pipe(HttpApiSchema.status(202)),
    error: [...taskErrors, ...Errors.jsonErrors, Errors.Conflict, Errors.TooManyRequests]
  }).annotateMerge(
    operation({
      name: "redeliverWebhook",
      summary: "Send a webhook again",
      description:
        "Makes one more attempt immediately; for a pending webhook, makes the next attempt immediately. The body is optional. "
        + `A user may request ${Limits.redeliveries} in a row and then one per second; more return 429. After `
        + `${Limits.maxWebhookAttempts} attempts of one webhook the response is 409.`,
      isBodyOptional: true,
      request: { callback_secret: "a long random secret" },
      response: { ...delivery, state: "pending", next_attempt_at: completedAt },
      responses: {
        202: "The next attempt is due now. The body is the delivery.",
        404: refusal(errorCodes, "delivery_not_found", "There is no such task, or it has no such delivery."),
        409: refusal(
          errorCodes,
          "delivery_exhausted",
          `The delivery needs \`callback_secret\`, or it has had ${Limits.maxWebhookAttempts} attempts.`
        ),
        429: refusal(errorCodes, "too_many_redeliveries")
      }
    })
  ),
  HttpApiEndpoint.post("cancelInterrupted", "/api/tasks/cancel-interrupted", { success: Tasks.CanceledTasksView })
    .annotateMerge(
      operation({
        name: "cancelInterruptedTasks",
        summary: "Cancel all interrupted tasks",
        description: "Cancels every interrupted task of the caller. A request body is ignored.",
        response: { canceled: 1, uuids: [uuid] },
        responses: { 200: "The tasks that were canceled; an empty list when no task was interrupted." }
      })
    ),
  HttpApiEndpoint.post("submitToolResults", "/api/tasks/:uuid/tool-results", {
    params: ofTask,
    payload: Tasks.ToolResultsBody,
    success: Tasks.ResumedTaskView,
    error: [...taskErrors, ...Errors.jsonErrors, Errors.Conflict]
  }).annotateMerge(
    operation({
      name: "submitToolResults",
      summary: "Submit tool results",
      description:
        "Submits the results of all pending calls of an interrupted task and resumes it. The token of this request becomes the task's own.",
      parameters: [idempotencyKey],
      request: { results: [{ tool_call_id: "call_1", output: { appointments: [] } }] },
      response: { uuid, status: "processing" },
      responses: {
        200: "The results were accepted and the task is processing again.",
        409: refusal(errorCodes, "task_not_interrupted", "The task is not interrupted.")
      }
    })
  ),
  HttpApiEndpoint.post("cancel", "/api/tasks/:uuid/cancel", {
    params: ofTask,
    payload: Tasks.CancelBody,
    success: Tasks.CanceledTaskView,
    error: [...taskErrors, ...Errors.jsonErrors, Errors.Conflict]
  }).annotateMerge(operation({
    name: "cancelTask",
    summary: "Cancel a task",
    description: "Cancels an interrupted task. The body is optional.",
    parameters: [idempotencyKey],
    isBodyOptional: true,
    request: { reason: "The user closed the window." },
    response: { uuid, status: "canceled" },
    responses: {
      200: "The task was canceled. Its `error` is the `reason`.",
      409: refusal(errorCodes, "task_not_interrupted", "The task is not interrupted.")
    }
  })),
  HttpApiEndpoint.post("stop", "/api/tasks/:uuid/stop", {
    params: ofTask,
    payload: Tasks.CancelBody,
    success: Tasks.CanceledTaskView,
    error: [...taskErrors, ...Errors.jsonErrors, Errors.Conflict]
  }).annotateMerge(operation({
    name: "stopTask",
    summary: "Stop a task",
    description:
      "Cancels a task that has not ended, also while it waits or the core works on it: the core stops. The body is optional.",
    parameters: [idempotencyKey],
    isBodyOptional: true,
    request: { reason: "The user pressed Stop." },
    response: { uuid, status: "canceled" },
    responses: {
      200: "The task was canceled. Its `error` is the `reason`, or `canceled` without one.",
      409: refusal(errorCodes, "task_has_ended")
    }
  }))
).middleware(Authorization).annotateMerge(
  OpenApi.annotations({ description: "Tasks: create, read, submit tool results, cancel, stop." })
) {}
