/** Bodies and views of schedules. */
import { Schema } from "effect"
import { absentOr, isAtMostCharacters } from "../../domain/Fields.ts"
import * as RawJson from "../../domain/json/RawJson.ts"
import { parse } from "../../domain/Timestamp.ts"
import { limits, Outcome, Overlap, problemOfCron, problemOfZone, State } from "../../services/schedules/Schedule.ts"
import { Count, Moment, PageMetaView, Uuid } from "../contract/TaskSchemas.ts"

/** Until 2200, where all arithmetic with moments is exact. */
const isMoment = (text: string) => (parse(text) ?? Infinity) < Date.parse("2200-01-01T00:00:00Z") * 1000

const MomentText = Schema.String.check(
  Schema.makeFilter(isMoment, { expected: "an ISO 8601 moment with its offset, before the year 2200" })
)

const text = (maximum: number) =>
  Schema.String.check(Schema.isMinLength(1, { expected: "at least one character" }), isAtMostCharacters(maximum))

const integer = (minimum: number, maximum: number) =>
  Schema.Int.check(Schema.isBetween({ minimum, maximum }, { expected: `an integer between ${minimum} and ${maximum}` }))

const Cron = Schema.String.check(Schema.makeFilter((cron: string) => problemOfCron(cron)))
const Zone = Schema.String.check(Schema.makeFilter((zone: string) => problemOfZone(zone)))

const Key = text(limits.key)
const cronMeaning =
  "Minute, hour, day, month and weekday, with lists, ranges, steps and names such as `MON` or `JAN`. If day and weekday are both "
  + "restricted, either is enough, unless one of them begins with `*`."

const type = Schema.Literals(["cron", "once"]).annotate({
  description: "`cron` fires at every moment of a rhythm, `once` at one moment."
})
const task = RawJson.AnyObject.annotate({
  identifier: "ScheduledTask",
  description: "The body of `POST /api/tasks`. Its `callback_secret` is encrypted and never returned."
})

const optional = {
  key: absentOr(Key, `A name of the client's own for \`PUT\`, unique for the user; up to ${limits.key} characters.`),
  name: absentOr(text(limits.name), `For people; up to ${limits.name} characters.`),
  cron: absentOr(Cron, cronMeaning),
  timezone: absentOr(Zone, "An IANA time zone such as `Europe/Berlin`; `UTC` by default."),
  run_at: absentOr(MomentText, "For `once`: the moment, at most a year ahead."),
  delay: absentOr(
    integer(limits.delay.minimum, limits.delay.maximum),
    `For \`once\`, instead of \`run_at\`: seconds from now, ${limits.delay.minimum} to ${limits.delay.maximum}.`
  ),
  starts_at: absentOr(MomentText, "Nothing fires before this moment."),
  ends_at: absentOr(MomentText, "Nothing fires from this moment on."),
  spread: absentOr(
    integer(0, limits.spread),
    "Seconds by which each moment is later at most. How much follows from the schedule's id: it is the same each time. 0 by default."
  ),
  overlap: absentOr(
    Overlap,
    "When the task before has not ended: `skip` (default) leaves the moment out, `queue` waits for its end, `allow` starts beside it."
  ),
  catchup_window: absentOr(
    integer(limits.catchupWindow.minimum, limits.catchupWindow.maximum),
    `Seconds, ${limits.catchupWindow.default} by default: of the moments that were missed by less, the latest is made up for.`
  ),
  pause_after_failures: absentOr(
    integer(1, limits.pauseAfterFailures),
    "Pauses the schedule when as many of its tasks in a row failed."
  )
}

export const ScheduleBody = Schema.Struct({ type, ...optional, task }).annotate({
  identifier: "CreateSchedule",
  description: "A schedule. `null` means the same as absent."
})
export type ScheduleBody = typeof ScheduleBody.Type

export const UpdateBody = Schema.Struct({
  type: Schema.optionalKey(type),
  ...optional,
  task: Schema.optionalKey(task)
}).annotate({
  identifier: "UpdateSchedule",
  description: "The fields to change; `null` resets an optional one. `task` is replaced whole."
})
export type UpdateBody = typeof UpdateBody.Type

export const PauseBody = Schema.Struct({
  reason: absentOr(
    Schema.String.check(isAtMostCharacters(limits.reason)),
    `Shown in \`paused_reason\`; up to ${limits.reason} characters.`
  )
}).annotate({ identifier: "PauseSchedule", description: "Why the schedule is paused." })

/** A body that says nothing. */
export const EmptyBody = Schema.Struct({})

export const PreviewBody = Schema.Struct({
  cron: Cron.annotate({ description: cronMeaning }),
  timezone: optional.timezone,
  count: absentOr(integer(1, limits.preview), `Number of moments; ${limits.upcoming} by default.`),
  after: absentOr(MomentText, "The moments after this one; now by default.")
}).annotate({ identifier: "PreviewSchedule", description: "The rhythm to show." })

const StateView = State.annotate({ identifier: "ScheduleState", description: "State of a schedule." })

const PausedReasonView = Schema.Struct({
  type: Schema.Literals(["manual", "failures", "token", "revoked"]).annotate({
    description: "The cause of the pause."
  }),
  message: Schema.String.annotate({ description: "The reason in words." })
}).annotate({ identifier: "PausedReason", description: "Why a schedule is paused." })

const definition = {
  id: Uuid.annotate({ description: "Schedule identifier.", format: "uuid" }),
  key: Schema.NullOr(Schema.String).annotate({ description: "The client's own name of the schedule." }),
  name: Schema.NullOr(Schema.String).annotate({ description: "For people." }),
  type,
  cron: Schema.NullOr(Schema.String).annotate({ description: "The rhythm, as it was given." }),
  timezone: Schema.String.annotate({ description: "The time zone of the rhythm." }),
  run_at: Schema.NullOr(Moment).annotate({ description: "The moment of `once`." }),
  delay: Schema.NullOr(Count).annotate({ description: "The delay of `once`, in seconds." }),
  starts_at: Schema.NullOr(Moment).annotate({ description: "Nothing fires before." }),
  ends_at: Schema.NullOr(Moment).annotate({ description: "Nothing fires from this moment on." }),
  spread: Count.annotate({ description: "Seconds by which a moment is later at most." }),
  overlap: Overlap.annotate({ description: "The treatment of a moment at which the task before is active." }),
  catchup_window: Count.annotate({ description: "Seconds in which a missed moment is made up for." }),
  pause_after_failures: Schema.NullOr(Count).annotate({ description: "Failed tasks in a row that pause it." }),
  task
}

export const ScheduleView = Schema.Struct({
  ...definition,
  state: StateView,
  paused_reason: Schema.NullOr(PausedReasonView).annotate({ description: "Null unless paused." }),
  next_at: Schema.NullOr(Moment).annotate({ description: "The next moment, without the spread." }),
  last_at: Schema.NullOr(Moment).annotate({ description: "The latest moment that fired." }),
  revision: Count.annotate({ description: "Changes with every change and every firing." }),
  created_at: Moment,
  upcoming: Schema.optionalKey(Schema.Array(Moment)).annotate({
    description: `The next ${limits.upcoming} moments; not in lists.`
  })
}).annotate({ identifier: "Schedule", description: "A schedule makes tasks of its user at its moments." })

export const SchedulePageView = Schema.Struct({
  data: Schema.Array(ScheduleView).annotate({ description: "Newest first." }),
  meta: PageMetaView
}).annotate({ identifier: "SchedulePage", description: "One page of the caller's schedules, newest first." })

export const RunView = Schema.Struct({
  scheduled_for: Moment.annotateKey({ description: "The moment; of missed ones the first." }),
  started_at: Schema.NullOr(Moment).annotate({ description: "When the task was created." }),
  outcome: Outcome.annotate({
    description: "`due` and `waiting` may still become another one; `error` says what it waits for."
  }),
  count: Count.annotate({ description: "1, except of `missed`: how many moments." }),
  task_uuid: Schema.NullOr(Uuid).annotate({ description: "The task that was created." }),
  error: Schema.NullOr(Schema.String).annotate({ description: "Why there is no task, or not yet." })
}).annotate({ identifier: "ScheduleRun", description: "One moment of a schedule and what became of it." })

export const RunPageView = Schema.Struct({
  data: Schema.Array(RunView).annotate({ description: "Newest first." }),
  meta: PageMetaView
}).annotate({ identifier: "ScheduleRunPage", description: "One page of the runs of a schedule, newest first." })

export const PreviewView = Schema.Struct({
  data: Schema.Array(Moment).annotate({ description: "The moments in their order." })
}).annotate({ identifier: "SchedulePreview", description: "The next moments of a rhythm." })

/** The field that `include=schedule` adds to a task. */
export const TaskScheduleView = Schema.NullOr(
  Schema.Struct({
    id: Uuid.annotate({ description: "Schedule identifier." }),
    scheduled_for: Moment.annotateKey({ description: "The moment of the schedule." })
  }).annotate({ identifier: "TaskSchedule", description: "The schedule that made a task." })
).annotate({ description: "the schedule that made the task, and its moment; null without one." })
