/**
 * The moments of a cron expression in a time zone, in milliseconds since the epoch. A moment in an hour that a clock change skips is later
 * by the gap. A moment in a repeated hour comes once, the first time; if the hours are all 24, it comes both times.
 */
import { countWalls, type CronExpression, isEveryHour, nextWall } from "./CronExpression.ts"
import type { TimeZone } from "./TimeZone.ts"

export interface Rhythm {
  readonly cron: CronExpression
  readonly zone: TimeZone
}

const minute = 60_000
const day = 86_400_000

type Pass = "first" | "second"

/** The moment of a wall moment. One change at most is within a day of it. */
const momentOf = ({ offsetAt }: TimeZone, wall: number, pass: Pass): number => {
  const local = wall * minute
  const before = offsetAt(local - day)
  const after = offsetAt(local + day)
  if (before === after) return local - before
  const [early, late] = [local - before, local - after]
  const isEarly = offsetAt(early) === before
  const isLate = offsetAt(late) === after
  // In a gap neither is: with the offset before it, the moment is later by the gap.
  return isLate && (!isEarly || pass === "second") ? late : early
}

const nextOf = ({ cron, zone }: Rhythm, after: number, pass: Pass): number => {
  const at = Math.floor((after + zone.offsetAt(after)) / minute)
  // Within a repeated hour the other pass may have moments with an earlier wall clock.
  const ahead = momentOf(zone, at, pass) - Math.floor(after / minute) * minute
  let wall = ahead > 0 ? at - ahead / minute : at
  for (;;) {
    wall = nextWall(cron, wall)
    const moment = momentOf(zone, wall, pass)
    if (moment > after) return moment
  }
}

/** The first moment after `after`. */
export const next = (rhythm: Rhythm, after: number): number => {
  const first = nextOf(rhythm, after, "first")
  return isEveryHour(rhythm.cron) ? Math.min(first, nextOf(rhythm, after, "second")) : first
}

/** The moments after `after`: at most `count`, and at most until `until`. */
export const upcoming = (rhythm: Rhythm, after: number, count: number, until = Infinity): ReadonlyArray<number> => {
  const moments: Array<number> = []
  for (let moment = next(rhythm, after); moments.length < count && moment <= until; moment = next(rhythm, moment)) {
    moments.push(moment)
  }
  return moments
}

/** Steps of one count, as long as the offset of the zone stays. */
const countStep = 28 * day

/** The number of moments after one and up to another. */
export const count = (rhythm: Rhythm, after: number, to: number): number => {
  const { offsetAt } = rhythm.zone
  let found = 0
  for (let from = after; from < to;) {
    const end = Math.min(to, from + countStep)
    const offset = offsetAt(from)
    if (offset === offsetAt(end) && offset === offsetAt((from + end) / 2)) {
      found += countWalls(rhythm.cron, Math.floor((from + offset) / minute), Math.floor((end + offset) / minute))
      from = end
    } else if (end - from > day) {
      // Narrows the period down to the day of the change.
      const part = from + Math.max(day, Math.floor((end - from) / 4))
      found += count(rhythm, from, Math.min(end, part))
      from = Math.min(end, part)
    } else {
      for (let moment = next(rhythm, from); moment <= end; moment = next(rhythm, moment)) found++
      from = end
    }
  }
  return found
}
