/** The public JSON of schedules and their runs. */
import { encode } from "../../domain/json/OpaqueJson.ts"
import { RawJson } from "../../domain/json/RawJson.ts"
import { Kind } from "../../domain/json/tables.ts"
import { pageMeta } from "../../domain/TaskView.ts"
import { format, formatOrNull, type Timestamp } from "../../domain/Timestamp.ts"
import { limits, momentsOf, type Run, type Schedule } from "../../services/schedules/Schedule.ts"

export const moments = (found: ReadonlyArray<Timestamp>) => found.map(format)

/** A row of a list. */
export const summary = (schedule: Schedule) => {
  const { definition, nextAt, state } = schedule
  const isShown = state === "active" || (state === "paused" && definition.type === "once")
  return {
    id: schedule.id,
    key: schedule.key,
    name: definition.name,
    type: definition.type,
    cron: definition.cron,
    timezone: definition.timezone,
    run_at: formatOrNull(definition.runAt),
    delay: definition.delay,
    starts_at: formatOrNull(definition.startsAt),
    ends_at: formatOrNull(definition.endsAt),
    spread: definition.spread,
    overlap: definition.overlap,
    catchup_window: definition.catchupWindow,
    pause_after_failures: definition.pauseAfterFailures,
    task: new RawJson(Kind.object, encode(schedule.task)),
    state,
    paused_reason: state === "paused" ? { ...schedule.pausedReason ?? { type: "manual", message: "" } } : null,
    next_at: isShown ? formatOrNull(nextAt) : null,
    last_at: formatOrNull(schedule.lastAt),
    revision: schedule.revision,
    created_at: format(schedule.createdAt)
  }
}

export const detail = (schedule: Schedule) => ({
  ...summary(schedule),
  upcoming: moments(momentsOf(schedule, limits.upcoming))
})

export const run = ({ count, error, outcome, scheduledFor, startedAt, taskId }: Run) => ({
  scheduled_for: format(scheduledFor),
  started_at: formatOrNull(startedAt),
  outcome,
  count,
  task_uuid: taskId,
  error
})

export const page = <Row>(
  data: ReadonlyArray<Row>,
  total: number,
  wanted: Parameters<typeof pageMeta>[1]
) => ({ data, meta: pageMeta(total, wanted) })

export const etagOf = ({ version }: Schedule) => `"${version}"`
