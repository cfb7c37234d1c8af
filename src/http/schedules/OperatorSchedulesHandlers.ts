/** Searches schedules of all users, or what became late or was missed in the last day. */
import { Duration, Effect, Schema } from "effect"
import { HttpServerRequest } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { isStorable } from "../../domain/Fields.ts"
import { format, formatOrNull, now, plus } from "../../domain/Timestamp.ts"
import { State } from "../../services/schedules/Schedule.ts"
import * as ScheduleSearch from "../../services/schedules/ScheduleSearch.ts"
import { invalid } from "../contract/Errors.ts"
import type { Query } from "../handlers/Query.ts"
import { orUnavailable } from "../OperatorRoutes.ts"
import { maxSearch, OperatorSchedulesApi, shows } from "./OperatorSchedulesApi.ts"

const searched = Duration.days(1)

const problems = ScheduleSearch.Problem.literals
const isShow = Schema.is(Schema.Literals(shows))
const isState = Schema.is(State)
const isProblem = Schema.is(ScheduleSearch.Problem)

const decode = Effect.fnUntraced(function*(query: Query) {
  const { q, show = "problems", ...others } = query
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) return yield* invalid(unknown, "Unknown parameter")
  if (!isShow(show)) return yield* invalid("show", `Expected one of ${shows.join(", ")}`)
  if (q === undefined) return { show, text: null }
  if (typeof q !== "string" || q === "" || q.length > maxSearch || !isStorable(q)) {
    return yield* invalid("q", `Expected 1 to ${maxSearch} characters`)
  }
  return { show, text: q }
})

const ownerOf = ({ key, name, scheduleId, sub }: ScheduleSearch.FoundRun | ScheduleSearch.FoundSchedule) => ({
  id: scheduleId,
  sub,
  key,
  name
})

const runView = (found: ScheduleSearch.FoundRun) => ({
  ...ownerOf(found),
  scheduled_for: format(found.scheduledFor),
  started_at: formatOrNull(found.startedAt),
  outcome: found.outcome,
  count: found.count,
  task_uuid: found.taskId,
  error: found.error,
  task_status: found.taskStatus
})

const scheduleView = (found: ScheduleSearch.FoundSchedule) => ({
  ...ownerOf(found),
  state: found.state,
  paused_reason: found.state === "paused" && found.pausedReason !== null ? { ...found.pausedReason } : null,
  cron: found.cron,
  timezone: found.timezone,
  next_at: formatOrNull(found.nextAt),
  last_at: formatOrNull(found.lastAt),
  created_at: format(found.createdAt),
  outcomes: found.outcomes.map(({ at, outcome }) => ({ scheduled_for: format(at), outcome }))
})

const pageOf = <Row, View>(found: ReadonlyArray<Row>, view: (row: Row) => View) => ({
  rows: found.slice(0, ScheduleSearch.listed).map(view),
  complete: found.length <= ScheduleSearch.listed
})

const makeSearch = Effect.map(
  ScheduleSearch.make,
  ({ present, runs, schedules }) =>
    Effect.fnUntraced(function*(query: Query) {
      const { show, text } = yield* decode(query)
      const at = yield* now
      const { late, oldest, waiting } = yield* present(at)
      const isOfRuns = show === "problems" || isProblem(show)
      const foundRuns = isOfRuns
        ? yield* runs(text, show === "problems" ? problems : [show], plus(at, Duration.negate(searched)))
        : []
      const foundSchedules = isOfRuns ? [] : yield* schedules(text, isState(show) ? show : null)
      const ofRuns = pageOf(foundRuns, runView)
      const ofSchedules = pageOf(foundSchedules, scheduleView)
      return {
        now: { late, waiting, oldest_late_ms: oldest === null ? null : Math.round(oldest) },
        runs: ofRuns.rows,
        schedules: ofSchedules.rows,
        complete: ofRuns.complete && ofSchedules.complete
      }
    })
)

export const layer = HttpApiBuilder.group(
  OperatorSchedulesApi,
  "operatorSchedules",
  Effect.fn(function*(handlers) {
    const search = yield* makeSearch
    return handlers.handle("search", () => orUnavailable(Effect.flatMap(HttpServerRequest.ParsedSearchParams, search)))
  })
)
