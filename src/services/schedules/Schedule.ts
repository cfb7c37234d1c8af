/** Schedules: their definition, their moments, and what is due at a moment. Everything here is pure. */
import { Duration, Equal, Option, Result, Schema, Struct } from "effect"
import { TaskId } from "../../domain/Task.ts"
import { fromMicros, plus, Timestamp } from "../../domain/Timestamp.ts"
import * as CronExpression from "./CronExpression.ts"
import * as Rhythm from "./Rhythm.ts"
import * as TimeZone from "./TimeZone.ts"

export const limits = {
  /** Schedules of a user that are active, paused or have a run that waits. */
  ofUser: 100,
  /** Ended schedules that are kept of a user. */
  ended: 200,
  /** Bytes of a request with a schedule, its task included. Schedules keep it, and lists return it. */
  bodyBytes: 128 * 1024,
  /** Characters. */
  key: 100,
  name: 100,
  reason: 1000,
  /** Seconds. */
  delay: { minimum: 1, maximum: 31_536_000 },
  spread: 3600,
  catchupWindow: { minimum: 60, maximum: 86_400, default: 3600 },
  pauseAfterFailures: 100,
  /** Moments of a preview, and those that one schedule shows. */
  preview: 20,
  upcoming: 5,
  /** Calls of a user in a second. */
  previews: 10,
  /** Runs that are kept of a schedule. */
  runs: 1000,
  kept: Duration.days(30),
  /** How far ahead `run_at` may be. */
  ahead: Duration.days(365),
  /** The default of tasks whose schedule gives none. */
  priority: 4,
  /** Runs in a row that failed for want of a token and pause their schedule. */
  tokenFailures: 3
} as const

/** How long another node waits before it works off the run of one that may have died. */
export const lease = Duration.seconds(10)

/** How long the idempotency key of a run's task is kept: longer than any window, after which no run creates one. */
export const keyTtl = Duration.days(3)

export const ScheduleId = Schema.String.check(
  Schema.isPattern(/^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/)
).pipe(Schema.brand("ScheduleId"))
export type ScheduleId = typeof ScheduleId.Type

export const State = Schema.Literals(["active", "paused", "ended"])
export type State = typeof State.Type

export const Overlap = Schema.Literals(["skip", "queue", "allow"])

export const PausedReason = Schema.Struct({
  type: Schema.Literals(["manual", "failures", "token", "revoked"]),
  message: Schema.String
})
export type PausedReason = typeof PausedReason.Type

/** Durations are seconds. */
export const Definition = Schema.Struct({
  name: Schema.NullOr(Schema.String),
  type: Schema.Literals(["cron", "once"]),
  cron: Schema.NullOr(Schema.String),
  timezone: Schema.String,
  runAt: Schema.NullOr(Timestamp),
  delay: Schema.NullOr(Schema.Int),
  startsAt: Schema.NullOr(Timestamp),
  endsAt: Schema.NullOr(Timestamp),
  spread: Schema.Int,
  overlap: Overlap,
  catchupWindow: Schema.Int,
  pauseAfterFailures: Schema.NullOr(Schema.Int)
})
export interface Definition extends Schema.Schema.Type<typeof Definition> {}

export const defaults: Definition = {
  name: null,
  type: "cron",
  cron: null,
  timezone: "UTC",
  runAt: null,
  delay: null,
  startsAt: null,
  endsAt: null,
  spread: 0,
  overlap: "skip",
  catchupWindow: limits.catchupWindow.default,
  pauseAfterFailures: null
}

/** The token that made, changed or resumed a schedule last. */
export const Authorization = Schema.Struct({
  tokenId: Schema.String,
  /** Seconds since the epoch. */
  issuedAt: Schema.NullOr(Schema.Finite),
  at: Timestamp,
  /** The token itself, encrypted, of a schedule that fires before it expires; null where tokens are minted. */
  token: Schema.NullOr(Schema.String)
})
export interface Authorization extends Schema.Schema.Type<typeof Authorization> {}

export interface Schedule {
  readonly id: ScheduleId
  readonly sub: string
  readonly key: string | null
  readonly definition: Definition
  /** JSON of the body of `POST /api/tasks` without its secret. */
  readonly task: string
  /** Encrypted. */
  readonly callbackSecret: string | null
  readonly state: State
  readonly pausedReason: PausedReason | null
  /** The next nominal moment, without the spread. */
  readonly nextAt: Timestamp | null
  /** The latest moment that was claimed. */
  readonly lastAt: Timestamp | null
  /** Changes with every change and firing. */
  readonly revision: number
  /** Changes with the definition only. */
  readonly version: number
  readonly authorization: Authorization
  /** Tasks in a row that failed, and runs in a row that failed for want of a token. */
  readonly taskFailures: number
  readonly tokenFailures: number
  readonly createdAt: Timestamp
  readonly endedAt: Timestamp | null
}

export const Outcome = Schema.Literals(["due", "waiting", "created", "skipped_overlap", "missed", "failed"])
export type Outcome = typeof Outcome.Type

/** One moment of a schedule, or the moments that it missed, and what became of them. */
export const Run = Schema.Struct({
  scheduledFor: Timestamp,
  startedAt: Schema.NullOr(Timestamp),
  outcome: Outcome,
  count: Schema.Int,
  taskId: Schema.NullOr(TaskId),
  error: Schema.NullOr(Schema.String)
})
export interface Run extends Schema.Schema.Type<typeof Run> {}

const millisOf = (moment: Timestamp) => moment / 1000
const momentOf = (millis: number) => fromMicros(millis * 1000)

const rhythms = new Map<string, Rhythm.Rhythm>()
const keptRhythms = 1000

/** The rhythm of a definition that was checked. */
const rhythmOf = (cron: string, timezone: string): Rhythm.Rhythm => {
  const key = `${cron} ${timezone}`
  const known = rhythms.get(key)
  if (known !== undefined) return known
  const made = {
    cron: Result.getOrThrow(CronExpression.parse(cron)),
    zone: Result.getOrThrow(TimeZone.find(timezone))
  }
  if (rhythms.size >= keptRhythms) rhythms.clear()
  rhythms.set(key, made)
  return made
}

const boundsOf = ({ endsAt, startsAt }: Definition) => ({
  from: startsAt === null ? -Infinity : millisOf(startsAt) - 1,
  to: endsAt === null ? Infinity : millisOf(endsAt) - 1
})

/** The first moments of a cron definition after a moment. */
export const upcoming = (definition: Definition, after: Timestamp, count: number): ReadonlyArray<Timestamp> => {
  if (definition.cron === null) return []
  const { from, to } = boundsOf(definition)
  const rhythm = rhythmOf(definition.cron, definition.timezone)
  return Rhythm.upcoming(rhythm, Math.max(millisOf(after), from), count, to).map(momentOf)
}

/** The moments that are left: those of an active schedule. */
export const momentsOf = ({ definition, nextAt, state }: Schedule, count: number): ReadonlyArray<Timestamp> =>
  state !== "active" || nextAt === null
    ? []
    : [nextAt, ...upcoming(definition, nextAt, count - 1)]

/** The first moment of a definition that is armed now; null if there is none. */
export const armed = (definition: Definition, at: Timestamp): Timestamp | null => {
  if (definition.type === "cron") return upcoming(definition, at, 1)[0] ?? null
  return definition.delay === null ? definition.runAt : plus(at, Duration.seconds(definition.delay))
}

/** A schedule is armed again when one of these changes. */
const timing = {
  cron: ["type", "cron", "timezone", "startsAt", "endsAt", "runAt", "delay"],
  once: ["type", "cron", "runAt", "delay"]
} as const

export const isSameTiming = (one: Definition, other: Definition): boolean =>
  timing[other.type].every((field) => one[field] === other[field])

export const isSameDefinition = (one: Definition, other: Definition): boolean =>
  Equal.equals(Struct.pick(one, Struct.keys(Definition.fields)), Struct.pick(other, Struct.keys(Definition.fields)))

/** How much later than its moments a schedule fires: the same each time. */
const spreadOf = (id: ScheduleId, { spread }: Definition): Duration.Duration => {
  let hash = 0x811c9dc5
  for (let index = 0; index < id.length; index++) hash = Math.imul(hash ^ id.charCodeAt(index), 0x01000193) >>> 0
  return Duration.millis(spread === 0 ? 0 : hash % (spread * 1000 + 1))
}

export const dueAt = (id: ScheduleId, definition: Definition, moment: Timestamp): Timestamp =>
  plus(moment, spreadOf(id, definition))

/** The end of the window in which a moment is made up for. */
export const windowEnd = (id: ScheduleId, definition: Definition, moment: Timestamp): Timestamp =>
  plus(dueAt(id, definition, moment), Duration.seconds(definition.catchupWindow))

/** The due moments of a schedule. `run` is made up for, `missed` is not. `next` is null for a schedule that ends. */
export interface Firing {
  readonly run: Timestamp | undefined
  readonly missed: { readonly from: Timestamp; readonly count: number } | undefined
  readonly next: Timestamp | null
  readonly last: Timestamp
}

const onlyOnce = (id: ScheduleId, definition: Definition, due: Timestamp, at: Timestamp): Firing => {
  const isInTime = at < windowEnd(id, definition, due)
  return {
    run: isInTime ? due : undefined,
    missed: isInTime ? undefined : { from: due, count: 1 },
    next: null,
    last: due
  }
}

/** The due moments at `at` of a schedule whose moment `due` has come. */
export const fire = (id: ScheduleId, definition: Definition, due: Timestamp, at: Timestamp): Firing => {
  if (definition.cron === null) return onlyOnce(id, definition, due, at)
  const rhythm = rhythmOf(definition.cron, definition.timezone)
  const { to } = boundsOf(definition)
  const spread = Duration.toMillis(spreadOf(id, definition))
  /** Moments up to this one have come. */
  const present = Math.min(millisOf(at) - spread, to)
  const first = millisOf(due)
  const windowStart = Math.max(first, millisOf(at) - spread - definition.catchupWindow * 1000)
  let latest = windowStart === first ? first : undefined
  let next = Rhythm.next(rhythm, windowStart)
  while (next <= present) {
    latest = next
    next = Rhythm.next(rhythm, next)
  }
  const last = latest ?? Math.max(first, windowStart)
  const missed = latest === first ? 0 : 1 + Rhythm.count(rhythm, first, last) - (latest === undefined ? 0 : 1)
  return {
    run: latest === undefined ? undefined : momentOf(latest),
    missed: missed === 0 ? undefined : { from: due, count: missed },
    next: next <= to ? momentOf(next) : null,
    last: latest === undefined ? due : momentOf(latest)
  }
}

/** Why a cron expression or a time zone is refused. */
export const problemOfCron = (cron: string): string | undefined =>
  Option.getOrUndefined(Result.getFailure(CronExpression.parse(cron)))

export const problemOfZone = (timezone: string): string | undefined =>
  Option.getOrUndefined(Result.getFailure(TimeZone.find(timezone)))

/** Adds the reasons why a definition cannot be armed now, by field. */
export const problemsOf = (
  definition: Definition,
  at: Timestamp
): Partial<Record<"cron" | "timezone" | "run_at" | "delay" | "starts_at" | "ends_at" | "type", string>> => {
  const { cron, delay, endsAt, runAt, startsAt, timezone, type } = definition
  const zone = problemOfZone(timezone)
  const ofZone = zone === undefined ? {} : { timezone: zone }
  if (startsAt !== null && endsAt !== null && endsAt <= startsAt) {
    return { ...ofZone, ends_at: "Must be later than starts_at" }
  }
  if (type === "cron") {
    const misplaced = {
      ...(runAt === null ? {} : { run_at: "Only a schedule of the type once has it" }),
      ...(delay === null ? {} : { delay: "Only a schedule of the type once has it" })
    }
    const problem = cron === null ? "This field is required for the type cron" : problemOfCron(cron)
    if (problem !== undefined) return { ...ofZone, ...misplaced, cron: problem }
    if (zone !== undefined || Object.keys(misplaced).length > 0) return { ...ofZone, ...misplaced }
    return armed(definition, at) === null ? { ends_at: "The rhythm has no moment before ends_at" } : {}
  }
  if (cron !== null) return { ...ofZone, cron: "Only a schedule of the type cron has it" }
  if (runAt === null && delay === null) return { ...ofZone, run_at: "Expected run_at or delay for the type once" }
  if (runAt !== null && delay !== null) return { ...ofZone, delay: "Expected either run_at or delay" }
  return { ...ofZone, ...problemsOfMoment(definition, at) }
}

const problemsOfMoment = (definition: Definition, at: Timestamp) => {
  const { endsAt, runAt, startsAt } = definition
  if (runAt !== null && runAt <= at) return { run_at: "Must not be in the past" }
  if (runAt !== null && runAt > plus(at, limits.ahead)) return { run_at: "Must be at most a year ahead" }
  const moment = armed(definition, at)
  if (moment !== null && startsAt !== null && moment < startsAt) return { starts_at: "Is later than the only moment" }
  if (moment !== null && endsAt !== null && moment >= endsAt) return { ends_at: "Is not later than the only moment" }
  return {}
}
