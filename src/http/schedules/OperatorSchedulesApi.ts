/** Schedules of all users, for operators. */
import { Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { State } from "../../services/schedules/Schedule.ts"
import { Problem, shownOutcomes } from "../../services/schedules/ScheduleSearch.ts"
import { ServiceUnavailable, ValidationFailed } from "../contract/Errors.ts"
import { uuid } from "../contract/Examples.ts"
import { operation, query } from "../contract/Operation.ts"
import { Count, Moment, Status } from "../contract/TaskSchemas.ts"
import { OperatorAuthorization } from "../OperatorRoutes.ts"
import { RunView, ScheduleView } from "./ScheduleSchemas.ts"

/** Results of a search: `problems` are all of the kinds of them. */
export const shows = ["problems", ...Problem.literals, "all", ...State.literals] as const
/** Characters of a search. */
export const maxSearch = 255

const { created_at, cron, id, key, last_at, name, next_at, paused_reason, state, timezone } = ScheduleView.fields
const owner = { id, sub: Schema.String.annotate({ description: "The user." }), key, name }

const task_status = Schema.NullOr(Status).annotate({
  description: "Status of its task; null without one, and once it is deleted."
})
const outcomes = Schema.Array(Schema.Struct({
  scheduled_for: Moment.annotateKey({ description: "The moment." }),
  outcome: Schema.Union([Status, RunView.fields.outcome]).annotate({
    description: "Status of its task, or what became of the moment without one."
  })
})).annotate({ description: `The last ${shownOutcomes} moments, newest first.` })

const FoundSchedules = Schema.Struct({
  now: Schema.Struct({
    late: Count.annotate({ description: "Moments that are due for longer than 5 s; at most 1,000 are counted." }),
    waiting: Count.annotate({ description: "Runs that wait; at most 1,000 are counted." }),
    oldest_late_ms: Schema.NullOr(Schema.Int).annotate({
      description: "Milliseconds since the oldest of the late moments."
    })
  }).annotate({ description: "The present state." }),
  runs: Schema.Array(Schema.Struct({ ...owner, ...RunView.fields, task_status })).annotate({
    description: "Newest first."
  }),
  schedules: Schema.Array(
    Schema.Struct({ ...owner, state, paused_reason, cron, timezone, next_at, last_at, created_at, outcomes })
  ).annotate({ description: "Newest first." }),
  complete: Schema.Boolean.annotate({ description: "False when more match." })
}).annotate({ identifier: "FoundSchedules", description: "Schedules of all users, or moments of the last day." })

const moment = "2026-11-24T08:00:00.000000Z"
const run = {
  id: "019ac5d2-9000-7c10-8000-0a0b0c0d0e0f",
  sub: "user-1",
  key: "morning-report",
  name: "Morning report",
  scheduled_for: moment,
  started_at: "2026-11-24T08:00:31.000000Z",
  outcome: "created",
  count: 1,
  task_uuid: uuid,
  error: null,
  task_status: "failed"
}

export class OperatorSchedulesGroup extends HttpApiGroup.make("operatorSchedules").add(
  HttpApiEndpoint.get("search", "/internal/operator/schedules", {
    success: FoundSchedules,
    error: [ValidationFailed, ServiceUnavailable]
  }).annotateMerge(operation({
    name: "searchSchedules",
    summary: "Search schedules of all users",
    description:
      "Schedules that are late now, and the newest 100 moments of the last day that were late, waiting, missed or failed, or the newest 100 schedules.",
    parameters: [
      query("show", "Kinds of moments, `problems` being all of them, or schedules by their state.", {
        type: "string",
        enum: shows,
        default: "problems"
      }),
      query("q", "An id, or the beginning of a user, a key or a name.", {
        type: "string",
        minLength: 1,
        maxLength: maxSearch
      })
    ],
    response: { now: { late: 0, waiting: 0, oldest_late_ms: null }, runs: [run], schedules: [], complete: true },
    responses: {
      200: "The schedules that match, newest first.",
      403: "The token may not read.",
      503: "The database is unavailable, or the search took longer than 2 seconds."
    }
  }))
).middleware(OperatorAuthorization).annotateMerge(
  OpenApi.annotations({ description: "Schedules of all users." })
) {}

export class OperatorSchedulesApi
  extends HttpApi.make("async-task-service-operator-schedules").add(OperatorSchedulesGroup)
{}
