/** The interface of schedules. */
import { Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { limits } from "../../services/schedules/Schedule.ts"
import { type ErrorCodes, errorCodes as coreCodes } from "../contract/ErrorCodes.ts"
import * as Errors from "../contract/Errors.ts"
import { createdAt, uuid } from "../contract/Examples.ts"
import { Authorization } from "../contract/Middleware.ts"
import { header, idempotencyKey, integer, operation, query, refusal } from "../contract/Operation.ts"
import { CreatedTaskView } from "../contract/TaskSchemas.ts"
import * as Views from "./ScheduleSchemas.ts"

/** The codes of errors of schedules, with status and meaning. */
export const errorCodes = {
  schedule_belongs_to_another: [403, "The schedule belongs to another user."],
  schedule_not_found: [404, "There is no such schedule."],
  schedule_has_ended: [409, "The schedule has ended."],
  schedule_key_taken: [409, "Another schedule of the user has this key."],
  schedule_changed: [412, "The schedule has another version than `If-Match` names: read it again."],
  too_many_schedules: [429, "The user has the maximum number of active and paused schedules."]
} as const satisfies ErrorCodes

/** The definition has another version than `If-Match` names. */
export class PreconditionFailed
  extends Schema.Error<PreconditionFailed>("PreconditionFailed")(Errors.errorFields(412), { httpApiStatus: 412 })
{}

const ofSchedule = { id: Schema.String }
/** A parameter that is given more than once has several. */
const values = Schema.Union([Schema.String, Schema.Array(Schema.String)])
const pages = { page: Schema.optionalKey(values), per_page: Schema.optionalKey(values) }
const ownErrors = [Errors.Forbidden, Errors.NotFound, Errors.ServiceUnavailable] as const
const changeErrors = [...ownErrors, ...Errors.jsonErrors] as const

const id = "019ac5d2-9000-7c10-8000-0a0b0c0d0e0f"
const schedule = {
  id,
  key: "morning-report",
  name: "Morning report",
  type: "cron",
  cron: "0 9 * * MON-FRI",
  timezone: "Europe/Berlin",
  run_at: null,
  delay: null,
  starts_at: null,
  ends_at: null,
  spread: 0,
  overlap: "skip",
  catchup_window: 3600,
  pause_after_failures: 3,
  task: { assistant_id: 1, input: [{ type: "text", text: "Summarize the news." }] },
  state: "active",
  paused_reason: null,
  next_at: "2026-11-24T08:00:00.000000Z",
  last_at: null,
  revision: 0,
  created_at: createdAt
}
const shown = { ...schedule, upcoming: ["2026-11-24T08:00:00.000000Z", "2026-11-25T08:00:00.000000Z"] }
const request = {
  key: "morning-report",
  name: "Morning report",
  type: "cron",
  cron: "0 9 * * MON-FRI",
  timezone: "Europe/Berlin",
  pause_after_failures: 3,
  task: schedule.task
}
const meta = { current_page: 1, per_page: 25, last_page: 1, total: 1 }
const paging = [
  query("page", "Page number.", integer(1, Number.MAX_SAFE_INTEGER, 1)),
  query("per_page", "Page size.", integer(1, 100, 25))
]

const owned = {
  403: refusal(errorCodes, "schedule_belongs_to_another"),
  404: refusal(errorCodes, "schedule_not_found")
}
const ended = refusal(errorCodes, "schedule_has_ended")
const tooMany = refusal(
  errorCodes,
  "too_many_schedules",
  `The user has ${limits.ofUser} schedules that are active or paused.`
)
const taken = refusal(errorCodes, "schedule_key_taken")

const described = (docs: Parameters<typeof operation>[0]) => operation({ ...docs, bodyBytes: limits.bodyBytes })

export class SchedulesGroup extends HttpApiGroup.make("schedules").add(
  HttpApiEndpoint.post("create", "/api/schedules", {
    payload: Views.ScheduleBody,
    success: Views.ScheduleView.pipe(HttpApiSchema.status(201)),
    error: [...Errors.jsonErrors, Errors.Conflict, Errors.TooManyRequests]
  }).annotateMerge(described({
    name: "createSchedule",
    summary: "Create a schedule",
    description: "Each moment of the schedule makes a task of the caller. The task is checked now.",
    parameters: [idempotencyKey],
    request,
    response: shown,
    responses: {
      201: { description: "The schedule.", headers: ["Location", "ETag"] },
      409: taken,
      429: tooMany
    }
  })),
  HttpApiEndpoint.put("put", "/api/schedules/by-key/:key", {
    params: { key: Schema.String },
    payload: Views.ScheduleBody,
    success: [Views.ScheduleView.pipe(HttpApiSchema.status(201)), Views.ScheduleView],
    error: [...Errors.jsonErrors, Errors.TooManyRequests]
  }).annotateMerge(described({
    name: "putSchedule",
    summary: "Create or replace a schedule by its key",
    description:
      "For scripts that run again and again. An equal definition changes nothing: it neither postpones a waiting `once` nor arms "
      + "an ended schedule; a changed moment or rhythm arms it.",
    request,
    response: shown,
    responses: {
      200: { description: "The schedule existed. It now has this definition.", headers: ["ETag"] },
      201: { description: "The schedule is new.", headers: ["Location", "ETag"] },
      429: tooMany
    }
  })),
  HttpApiEndpoint.get("list", "/api/schedules", {
    query: { state: Schema.optionalKey(values), ...pages },
    success: Views.SchedulePageView,
    error: [Errors.ValidationFailed, Errors.ServiceUnavailable]
  }).annotateMerge(described({
    name: "listSchedules",
    summary: "List schedules",
    description: "The caller's schedules, newest first. Ended ones are deleted after 30 days.",
    parameters: [
      query("state", "One or more states, separated by commas.", {
        type: "array",
        items: { $ref: "#/components/schemas/ScheduleState" }
      }, { style: "form", explode: false }),
      ...paging
    ],
    response: { data: [schedule], meta },
    responses: { 200: "One page of the caller's schedules." }
  })),
  HttpApiEndpoint.post("preview", "/api/schedules/preview", {
    payload: Views.PreviewBody,
    success: Views.PreviewView,
    error: [...Errors.jsonErrors, Errors.TooManyRequests]
  }).annotateMerge(described({
    name: "previewSchedule",
    summary: "Preview a rhythm",
    description: "The next moments of a cron expression in a time zone.",
    request: { cron: "0 9 * * MON-FRI", timezone: "Europe/Berlin", count: 2 },
    response: { data: shown.upcoming },
    responses: {
      200: "The moments.",
      429: `More than ${limits.previews} previews of the user in a second.`
    }
  })),
  HttpApiEndpoint.get("get", "/api/schedules/:id", {
    params: ofSchedule,
    success: Views.ScheduleView,
    error: ownErrors
  }).annotateMerge(described({
    name: "getSchedule",
    summary: "Read a schedule",
    description: "The schedule with its next moments.",
    response: shown,
    responses: { ...owned, 200: { description: "The schedule.", headers: ["ETag"] } }
  })),
  HttpApiEndpoint.patch("update", "/api/schedules/:id", {
    params: ofSchedule,
    payload: Views.UpdateBody,
    success: Views.ScheduleView,
    error: [...changeErrors, Errors.Conflict, PreconditionFailed, Errors.TooManyRequests]
  }).annotateMerge(described({
    name: "updateSchedule",
    summary: "Change a schedule",
    description:
      "Changes the given fields. A changed moment or rhythm arms the schedule again. The token of this request authorizes the tasks from now on.",
    parameters: [header("If-Match", "The `ETag` of the version to change.")],
    request: { cron: "0 8 * * *" },
    response: shown,
    responses: {
      ...owned,
      200: { description: "The schedule.", headers: ["ETag"] },
      409: taken,
      412: refusal(errorCodes, "schedule_changed"),
      429: tooMany
    }
  })),
  HttpApiEndpoint.delete("delete", "/api/schedules/:id", {
    params: ofSchedule,
    success: HttpApiSchema.NoContent,
    error: ownErrors
  }).annotateMerge(described({
    name: "deleteSchedule",
    summary: "Delete a schedule",
    description: "Deletes the schedule and the list of its runs. Its tasks stay.",
    responses: { ...owned, 204: "The schedule is deleted." }
  })),
  HttpApiEndpoint.post("pause", "/api/schedules/:id/pause", {
    params: ofSchedule,
    payload: Views.PauseBody,
    success: Views.ScheduleView,
    error: [...changeErrors, Errors.Conflict]
  }).annotateMerge(described({
    name: "pauseSchedule",
    summary: "Pause a schedule",
    description: "Nothing fires until it is resumed. The body is optional. A paused schedule stays as it is.",
    isBodyOptional: true,
    request: { reason: "Holidays" },
    response: { ...shown, state: "paused", paused_reason: { type: "manual", message: "Holidays" }, upcoming: [] },
    responses: { ...owned, 200: { description: "The schedule.", headers: ["ETag"] }, 409: ended }
  })),
  HttpApiEndpoint.post("resume", "/api/schedules/:id/resume", {
    params: ofSchedule,
    success: Views.ScheduleView,
    error: [...ownErrors, Errors.ValidationFailed, Errors.Conflict]
  }).annotateMerge(described({
    name: "resumeSchedule",
    summary: "Resume a schedule",
    description:
      "Goes on from now. A `once` whose moment passed meanwhile fires immediately within its `catchup_window`, else it is missed. The "
      + "token of this request authorizes the tasks from now on.",
    response: shown,
    responses: {
      ...owned,
      200: { description: "The schedule.", headers: ["ETag"] },
      409: ended
    }
  })),
  HttpApiEndpoint.post("trigger", "/api/schedules/:id/trigger", {
    params: ofSchedule,
    success: CreatedTaskView.pipe(HttpApiSchema.status(201)),
    error: [...changeErrors, Errors.Conflict, Errors.TooManyRequests]
  }).annotateMerge(described({
    name: "triggerSchedule",
    summary: "Run a schedule now",
    description: "Works while the schedule is paused. The rhythm stays.",
    parameters: [idempotencyKey],
    response: { uuid, status: "pending", max_execution_time: 86_400 },
    responses: {
      ...owned,
      201: { description: "The task.", headers: ["Location"] },
      409: ended,
      429: refusal(coreCodes, "too_many_active_tasks", "The user has too many active tasks.")
    }
  })),
  HttpApiEndpoint.get("runs", "/api/schedules/:id/runs", {
    params: ofSchedule,
    query: pages,
    success: Views.RunPageView,
    error: [...ownErrors, Errors.ValidationFailed]
  }).annotateMerge(described({
    name: "listScheduleRuns",
    summary: "List the runs of a schedule",
    description: `What became of its moments, newest first: at most ${limits.runs}, of the last 30 days.`,
    parameters: paging,
    response: {
      data: [{
        scheduled_for: "2026-11-23T08:00:00.000000Z",
        started_at: "2026-11-23T08:00:00.021370Z",
        outcome: "created",
        count: 1,
        task_uuid: uuid,
        error: null
      }],
      meta
    },
    responses: { ...owned, 200: "One page of the runs." }
  }))
).middleware(Authorization).annotateMerge(
  OpenApi.annotations({ description: "Schedules: tasks at the moments of a rhythm, or once later." })
) {}

export class SchedulesApi extends HttpApi.make("async-task-service-schedules").add(SchedulesGroup) {}
