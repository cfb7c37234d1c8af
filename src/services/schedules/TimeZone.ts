/** Offsets of IANA time zones, from the data of the JavaScript engine. */
import { Result } from "effect"

export interface TimeZone {
  /** Milliseconds to add to UTC, at a moment in milliseconds since the epoch. */
  readonly offsetAt: (millis: number) => number
}

/** Characters. */
const maxLength = 64

/** Zones that are kept; a formatter takes tens of kilobytes. */
const cacheSize = 100
const cache = new Map<string, TimeZone>()

const offsetOf = (formatted: string): number => {
  const [, sign, hours, minutes, seconds = 0] = /GMT([+-])(\d\d):(\d\d)(?::(\d\d))?/.exec(formatted) ?? []
  if (sign === undefined) return 0
  const millis = ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000
  return sign === "-" ? -millis : millis
}

const make = (name: string): TimeZone | undefined => {
  try {
    const format = new Intl.DateTimeFormat("en-US", { timeZone: name, timeZoneName: "longOffset", year: "numeric" })
    return { offsetAt: (millis) => offsetOf(format.format(millis)) }
  } catch {
    return undefined
  }
}

const utc: TimeZone = { offsetAt: () => 0 }

/** Fails with the reason, in words. */
export const find = (name: string): Result.Result<TimeZone, string> => {
  if (name === "UTC") return Result.succeed(utc)
  // `GMT0`, `GMT+0` and `GMT-0` are names.
  if (/^(UTC|GMT)?[+\-\u2212]?\d/i.test(name) && !/^GMT[+-]?0$/i.test(name)) {
    return Result.fail("An offset is not a time zone: write a name such as Europe/Berlin, or UTC")
  }
  const key = name.toLowerCase()
  const known = cache.get(key) ?? (name.length <= maxLength ? make(name) : undefined)
  if (known === undefined) return Result.fail("Not a time zone: write an IANA name such as Europe/Berlin, or UTC")
  cache.delete(key)
  cache.set(key, known)
  if (cache.size > cacheSize) cache.delete(cache.keys().next().value ?? "")
  return Result.succeed(known)
}
