/**
 * Moments as whole microseconds since the Unix epoch: exact in a double until the year 2255, and the precision of
 * Postgres.
 */
import { Clock, DateTime, Duration, Effect, Schema } from "effect"

export const Timestamp = Schema.Int.pipe(Schema.brand("Timestamp"))
export type Timestamp = typeof Timestamp.Type

/** The last second of the year 9999. */
export const maxSeconds = 253_402_300_799

/** The start of the year 2255. Postgres's arithmetic in doubles moves the last exact moments by a microsecond. */
const last = 8_993_721_600_000_000

/** The moment of microseconds since the epoch; `last` instead of a later one. */
export const fromMicros = (micros: number): Timestamp => Timestamp.make(Math.min(Math.round(micros), last))

/** The moment of a clock's nanoseconds since the epoch: an integer, which a task needs too often to check each. */
export const fromNanos = (nanos: bigint): Timestamp => Number(nanos / 1000n) as Timestamp

/** The present moment of the running fiber's Clock, so that TestClock drives it. */
export const now: Effect.Effect<Timestamp> = Clock.clockWith((clock) =>
  Effect.succeed(fromNanos(clock.currentTimeNanosUnsafe()))
)

/** Milliseconds on a monotonic clock. They measure durations and are never stored. */
export const monotonicMillisOf = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6

/** Milliseconds on the running fiber's monotonic clock. */
export const monotonicMillis: Effect.Effect<number> = Clock.clockWith((clock) =>
  Effect.succeed(monotonicMillisOf(clock))
)

export const plus = (moment: Timestamp, duration: Duration.Input): Timestamp =>
  fromMicros(moment + Duration.toMillis(duration) * 1000)

/** Whole seconds since the Unix epoch. */
export const unixSeconds = (moment: Timestamp): number => Math.floor(moment / 1_000_000)

const minute = 60_000_000

/** Whole minutes since the Unix epoch. */
export const minuteOf = (moment: Timestamp): number => Math.floor(moment / minute)

export const startOfMinute = (moment: Timestamp): Timestamp => Timestamp.make(minuteOf(moment) * minute)

/** How long until `moment`; zero when it has passed. */
export const until = (moment: Timestamp): Effect.Effect<Duration.Duration> =>
  Effect.map(now, (present) => Duration.millis(Math.max(0, (moment - present) / 1000)))

/** A moment in ISO 8601 with its offset; undefined for another text, for a day that its month lacks, and before 1970. */
export const parse = (text: string): Timestamp | undefined => {
  const [, date = "", time = "", fraction = "", zone = ""] =
    /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d)?)(?:(?<=:\d\d:\d\d)\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)$/.exec(text) ?? []
  const millis = Date.parse(`${date}T${time}${zone}`)
  if (!(millis >= 0)) return undefined
  // The parser takes the 30th of February for the 2nd of March.
  const isDay = DateTime.formatIso(DateTime.makeUnsafe(Date.parse(`${date}T12:00Z`))).startsWith(date)
  return isDay ? fromMicros(millis * 1000 + Number(fraction.padEnd(6, "0").slice(0, 6))) : undefined
}

/** The last minute that was formatted: those of the tasks of a moment are a few. */
let formatted = { number: NaN, text: "" }

const digits = (count: number, value: number) => String(value).padStart(count, "0")

/** ISO 8601 with exactly six fractional digits and `Z`, as in `2026-11-21T08:30:00.123456Z`. */
export const format = (moment: Timestamp): string => {
  const number = minuteOf(moment)
  if (number !== formatted.number) {
    formatted = { number, text: DateTime.formatIso(DateTime.makeUnsafe(number * minute / 1000)).slice(0, -7) }
  }
  const micros = moment - number * minute
  const seconds = Math.floor(micros / 1_000_000)
  return `${formatted.text}${digits(2, seconds)}.${digits(6, micros - seconds * 1_000_000)}Z`
}

export const formatOrNull = (moment: Timestamp | null): string | null => moment === null ? null : format(moment)
