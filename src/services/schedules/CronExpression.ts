/**
 * Cron expressions of five fields, and their moments on a wall clock. A wall moment is a whole number of minutes since 1970-01-01T00:00 on
 * that clock. Nothing here searches longer than the 40 years in which every possible date comes.
 */
import { Result } from "effect"

export interface CronExpression {
  readonly minutes: ReadonlyArray<number>
  readonly hours: ReadonlyArray<number>
  readonly days: ReadonlySet<number>
  /** From 1. */
  readonly months: ReadonlySet<number>
  /** 0 is Sunday. */
  readonly weekdays: ReadonlySet<number>
  /** Whether day and weekday must both match: one of them begins with `*`. Otherwise either is enough. */
  readonly needsBoth: boolean
}

/** Characters. */
const maxLength = 255

interface Field {
  readonly name: string
  readonly minimum: number
  readonly maximum: number
  readonly names?: ReadonlyArray<string>
}

const weekdayNames = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
const monthNames = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]

const fields: readonly [Field, Field, Field, Field, Field] = [
  { name: "minute", minimum: 0, maximum: 59 },
  { name: "hour", minimum: 0, maximum: 23 },
  { name: "day", minimum: 1, maximum: 31 },
  { name: "month", minimum: 1, maximum: 12, names: monthNames },
  { name: "weekday", minimum: 0, maximum: 7, names: weekdayNames }
]

type Parsed<A> = Result.Result<A, string>

const numberOf = (text: string, { maximum, minimum, name, names = [] }: Field): Parsed<number> => {
  const named = names.indexOf(text.toUpperCase())
  if (named >= 0) return Result.succeed(named + minimum)
  const number = /^\d{1,2}$/.test(text) ? Number(text) : Number.NaN
  if (number >= minimum && number <= maximum) return Result.succeed(number)
  if (/[LW#?]/i.test(text) && !/[A-Z]{2}/i.test(text)) {
    return Result.fail(`L, W, # and ? are not supported, as in the ${name} "${text}"`)
  }
  const alternatives = names.length === 0 ? "" : ` or a name from ${names[0]} to ${names.at(-1)}`
  return Result.fail(`The ${name} "${text}" is not a number from ${minimum} to ${maximum}${alternatives}`)
}

/** The first and last value of `*`, a number or a range. */
const rangeOf = (text: string, field: Field, hasStep: boolean): Parsed<readonly [number, number]> => {
  if (text === "*") return Result.succeed([field.minimum, field.maximum])
  const [first = "", last, ...more] = text.split("-")
  if (more.length > 0 || (first === "" && last !== undefined)) {
    return Result.fail(`The ${field.name} "${text}" is not a range of two values`)
  }
  return Result.flatMap(numberOf(first, field), (from) => {
    if (last === undefined) return Result.succeed([from, hasStep ? field.maximum : from] as const)
    return Result.flatMap(numberOf(last, field), (to) => {
      // Sunday ends a week that begins on Monday.
      const end = field.maximum === 7 && to === 0 && from > 0 ? 7 : to
      return from <= end
        ? Result.succeed([from, end] as const)
        : Result.fail(`The ${field.name} range "${text}" ends before it begins`)
    })
  })
}

/** A step as long as the field, as in `0-23/24`, leaves the first value. */
const stepOf = (text: string | undefined, { maximum, minimum, name }: Field): Parsed<number> => {
  if (text === undefined) return Result.succeed(1)
  const longest = name === "weekday" ? 7 : maximum - minimum + 1
  const step = /^\d{1,2}$/.test(text) ? Number(text) : Number.NaN
  return step >= 1 && step <= longest
    ? Result.succeed(step)
    : Result.fail(`The step "${text}" of the ${name} is not a number from 1 to ${longest}`)
}

const valuesOf = (text: string, field: Field): Parsed<ReadonlySet<number>> => {
  const values = new Set<number>()
  for (const item of text.split(",")) {
    const [range = "", step, ...more] = item.split("/")
    if (more.length > 0) return Result.fail(`The ${field.name} "${item}" has more than one step`)
    const found = Result.all([rangeOf(range, field, step !== undefined), stepOf(step, field)])
    if (Result.isFailure(found)) return Result.fail(found.failure)
    const [[from, to], by] = found.success
    for (let value = from; value <= to; value += by) values.add(field.maximum === 7 ? value % 7 : value)
  }
  return Result.succeed(values)
}

const longestMonths = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

/** Whether a month has one of the days. With weekdays as an alternative, every month has one. */
const hasDate = ({ days, months, needsBoth }: CronExpression) => {
  const first = Math.min(...days)
  return !needsBoth || [...months].some((month) => first <= (longestMonths[month - 1] ?? 0))
}

const sorted = (values: ReadonlySet<number>) => [...values].toSorted((one, other) => one - other)

/** Fails with the reason, in words. */
export const parse = (text: string): Parsed<CronExpression> => {
  if (text.length > maxLength) return Result.fail(`Expected at most ${maxLength} characters`)
  const parts = text.trim().split(/\s+/)
  if (parts[0]?.startsWith("@")) {
    return Result.fail(`${parts[0].slice(0, 20)} is not supported: write five fields, as in "0 9 * * *"`)
  }
  if (parts.length === 6) return Result.fail("Expected five fields: a field of seconds is not supported")
  if (parts.length !== 5) {
    return Result.fail("Expected five fields: minute, hour, day, month and weekday, as in \"0 9 * * MON-FRI\"")
  }
  const [, , day = "", , weekday = ""] = parts
  const found = Result.all(fields.map((field, index) => valuesOf(parts[index] ?? "", field)))
  return Result.flatMap(found, ([minutes, hours, days, months, weekdays]) => {
    const none = new Set<number>()
    const expression: CronExpression = {
      minutes: sorted(minutes ?? none),
      hours: sorted(hours ?? none),
      days: days ?? none,
      months: months ?? none,
      weekdays: weekdays ?? none,
      needsBoth: day.startsWith("*") || weekday.startsWith("*")
    }
    return hasDate(expression) ? Result.succeed(expression) : Result.fail("This date never comes: no month has the day")
  })
}

/** Whether the hours are all 24, so that a repeated hour has moments of its own. */
export const isEveryHour = ({ hours }: CronExpression): boolean => hours.length === 24

const minutesOfDay = 1440

/** Year, month from 1 and day of a number of days since 1970-01-01, in the Gregorian calendar. */
const dateOf = (days: number) => {
  const shifted = days + 719_468
  const era = Math.floor(shifted / 146_097)
  const ofEra = shifted - era * 146_097
  const yearOfEra = Math.floor(
    (ofEra - Math.floor(ofEra / 1460) + Math.floor(ofEra / 36_524) - Math.floor(ofEra / 146_096)) / 365
  )
  const ofYear = ofEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100))
  const shiftedMonth = Math.floor((5 * ofYear + 2) / 153)
  const month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
  return {
    year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0),
    month,
    day: ofYear - Math.floor((153 * shiftedMonth + 2) / 5) + 1
  }
}

const dayOf = (year: number, month: number) => Math.floor(Date.UTC(year, month - 1, 1) / 86_400_000)

const weekdayOf = (day: number) => (((day + 4) % 7) + 7) % 7

const matchesDay = ({ days, needsBoth, weekdays }: CronExpression, day: number, dayOfMonth: number) =>
  needsBoth
    ? days.has(dayOfMonth) && weekdays.has(weekdayOf(day))
    : days.has(dayOfMonth) || weekdays.has(weekdayOf(day))

/** The first matching day from `day` on. */
const nextDay = (expression: CronExpression, from: number): number => {
  let day = from
  for (;;) {
    const date = dateOf(day)
    if (!expression.months.has(date.month)) {
      const isLast = date.month === 12
      day = dayOf(isLast ? date.year + 1 : date.year, isLast ? 1 : date.month + 1)
    } else if (matchesDay(expression, day, date.day)) return day
    else day++
  }
}

/** The first matching minute of a day from `from` on. */
const timeOfDay = ({ hours, minutes }: CronExpression, from: number): number | undefined => {
  const hourFrom = Math.floor(from / 60)
  for (const hour of hours) {
    if (hour < hourFrom) continue
    const minute = hour > hourFrom ? minutes[0] : minutes.find((minute) => minute >= from - hour * 60)
    if (minute !== undefined) return hour * 60 + minute
  }
  return undefined
}

/** The first wall moment after `wall`. */
export const nextWall = (expression: CronExpression, wall: number): number => {
  const from = wall + 1
  const today = Math.floor(from / minutesOfDay)
  const day = nextDay(expression, today)
  const time = day === today ? timeOfDay(expression, from - today * minutesOfDay) : undefined
  if (time !== undefined) return day * minutesOfDay + time
  const later = day === today ? nextDay(expression, today + 1) : day
  return later * minutesOfDay + (timeOfDay(expression, 0) ?? 0)
}

/** The number of wall moments after one and up to another. */
export const countWalls = (expression: CronExpression, after: number, to: number): number => {
  const { hours, minutes } = expression
  let count = 0
  for (let wall = nextWall(expression, after); wall <= to; wall = nextWall(expression, wall)) {
    const day = Math.floor(wall / minutesOfDay)
    const dayEnd = (day + 1) * minutesOfDay - 1
    const isFirst = wall === day * minutesOfDay + (timeOfDay(expression, 0) ?? 0)
    if (isFirst && dayEnd <= to) {
      count += hours.length * minutes.length
      wall = dayEnd
    } else count++
  }
  return count
}
