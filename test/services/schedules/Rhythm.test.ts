/** The moments of cron expressions: vectors of five zones through clock changes, properties, and agreement with other implementations. */
import { Cron, Result } from "effect"
import { assert, describe, it } from "vitest"
import * as CronExpression from "../../../src/services/schedules/CronExpression.ts"
import * as Rhythm from "../../../src/services/schedules/Rhythm.ts"
import * as TimeZone from "../../../src/services/schedules/TimeZone.ts"
import { cpuOf } from "../../kit/cpu.ts"
import { amount } from "../../kit/thorough.ts"

interface Croner {
  nextRun(after: Date): Date | null
}

/** A check-out that was installed before the package was added has all other tests. */
const croner = "croner"
const { Cron: Croner } = await import(croner) as {
  readonly Cron: new(expression: string, options: { readonly timezone: string }) => Croner
}

const rhythmOf = (cron: string, zone = "UTC"): Rhythm.Rhythm => ({
  cron: Result.getOrThrow(CronExpression.parse(cron)),
  zone: Result.getOrThrow(TimeZone.find(zone))
})

const momentsOf = (cron: string, zone: string, after: string, count: number) =>
  Rhythm.upcoming(rhythmOf(cron, zone), Date.parse(after), count).map((moment) =>
    new Date(moment).toISOString().slice(0, 16)
  )

describe("moments through clock changes", () => {
  const vectors: ReadonlyArray<[cron: string, zone: string, after: string, moments: ReadonlyArray<string>]> = [
    // Berlin skips 02:00 to 03:00 on 2026-03-29 and repeats it on 2026-10-25.
    ["30 2 * * *", "Europe/Berlin", "2026-03-27T12:00Z", ["2026-03-28T01:30", "2026-03-29T01:30", "2026-03-30T00:30"]],
    ["30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", ["2026-10-25T00:30", "2026-10-26T01:30"]],
    ["30 2 * * *", "Europe/Berlin", "2026-10-25T01:10Z", ["2026-10-26T01:30"]],
    ["0 9 * * *", "Europe/Berlin", "2026-10-24T06:30Z", ["2026-10-24T07:00", "2026-10-25T08:00"]],
    [
      "*/30 * * * *",
      "Europe/Berlin",
      "2026-10-24T23:45Z",
      ["2026-10-25T00:00", "2026-10-25T00:30", "2026-10-25T01:00", "2026-10-25T01:30", "2026-10-25T02:00"]
    ],
    ["*/30 0-23 * * *", "Europe/Berlin", "2026-10-25T00:30Z", ["2026-10-25T01:00", "2026-10-25T01:30"]],
    ["*/30 * * * *", "Europe/Berlin", "2026-03-29T00:15Z", [
      "2026-03-29T00:30",
      "2026-03-29T01:00",
      "2026-03-29T01:30"
    ]],
    ["30 1-4 * * *", "Europe/Berlin", "2026-03-29T00:00Z", [
      "2026-03-29T00:30",
      "2026-03-29T01:30",
      "2026-03-29T02:30"
    ]],
    // New York skips 02:00 on 2026-03-08 and repeats 01:00 on 2026-11-01.
    ["30 2 * * *", "America/New_York", "2026-03-08T00:00Z", ["2026-03-08T07:30", "2026-03-09T06:30"]],
    ["30 1 * * *", "America/New_York", "2026-11-01T00:00Z", ["2026-11-01T05:30", "2026-11-02T06:30"]],
    ["30 * * * *", "America/New_York", "2026-11-01T05:00Z", [
      "2026-11-01T05:30",
      "2026-11-01T06:30",
      "2026-11-01T07:30"
    ]],
    // Lord Howe moves by 30 minutes: it repeats 01:30 on 2026-04-05 and skips 02:00 to 02:30 on 2026-10-04.
    ["45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00Z", ["2026-04-04T14:45", "2026-04-05T15:15"]],
    ["45 * * * *", "Australia/Lord_Howe", "2026-04-04T14:00Z", [
      "2026-04-04T14:45",
      "2026-04-04T15:15",
      "2026-04-04T16:15"
    ]],
    ["15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00Z", ["2026-10-03T15:45", "2026-10-04T15:15"]],
    // Santiago skips 00:00 to 01:00 on 2026-09-06 and repeats 23:00 on 2026-04-04.
    ["0 0 * * *", "America/Santiago", "2026-09-05T12:00Z", ["2026-09-06T04:00", "2026-09-07T03:00"]],
    ["30 23 * * *", "America/Santiago", "2026-04-04T12:00Z", ["2026-04-05T02:30", "2026-04-06T03:30"]],
    ["0 12 29 2 *", "UTC", "2026-01-01T00:00Z", ["2028-02-29T12:00", "2032-02-29T12:00"]],
    ["0 9 * * FRI-SUN", "UTC", "2026-11-23T00:00Z", ["2026-11-27T09:00", "2026-11-28T09:00", "2026-11-29T09:00"]],
    // Either of day and weekday, and both when one begins with `*`.
    // A step as long as the field leaves its first value.
    ["*/60 */24 * * *", "UTC", "2026-11-01T00:00Z", ["2026-11-02T00:00", "2026-11-03T00:00"]],
    ["0 0 13 * FRI", "UTC", "2026-11-01T00:00Z", ["2026-11-06T00:00", "2026-11-13T00:00", "2026-11-20T00:00"]],
    ["0 0 */2 * MON", "UTC", "2026-11-01T00:00Z", ["2026-11-09T00:00", "2026-11-23T00:00"]],
    ["0 0 1-7 * */7", "UTC", "2026-11-02T00:00Z", ["2026-12-06T00:00", "2027-01-03T00:00"]]
  ]
  for (const [cron, zone, after, moments] of vectors) {
    it(`${cron} in ${zone} after ${after}`, () => {
      assert.deepStrictEqual(momentsOf(cron, zone, after, moments.length), moments)
    })
  }
})

/** A generator of whole numbers below a bound, so that a failure repeats. */
const randomOf = (seed: number) => {
  let state = seed
  return (below: number) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}
type Random = ReturnType<typeof randomOf>

const valueOf = (random: Random, minimum: number, maximum: number) => minimum + random(maximum - minimum + 1)

const rangeOf = (random: Random, minimum: number, maximum: number) => {
  const [one, other] = [valueOf(random, minimum, maximum), valueOf(random, minimum, maximum)]
  return `${Math.min(one, other)}-${Math.max(one, other)}`
}

const fieldOf = (random: Random, minimum: number, maximum: number): string => {
  const value = () => String(valueOf(random, minimum, maximum))
  const range = () => rangeOf(random, minimum, maximum)
  const step = () => `${random(2) === 0 ? "*" : range()}/${1 + random(maximum)}`
  const list = () => Array.from({ length: 2 + random(3) }, () => random(2) === 0 ? value() : range()).join(",")
  return [() => "*", () => "*", value, value, range, step, list][random(7)]!()
}

/** At most one of day and weekday is restricted. */
const expressionOf = (random: Random) => {
  const isDay = random(2) === 0
  const [minute, hour, month] = [fieldOf(random, 0, 59), fieldOf(random, 0, 23), fieldOf(random, 1, 12)]
  return `${minute} ${hour} ${isDay ? fieldOf(random, 1, 28) : "*"} ${month} ${isDay ? "*" : fieldOf(random, 0, 6)}`
}

const momentOf = (random: Random) => Date.parse("2024-01-01") + random(8 * 365 * 1440) * 60_000 + random(60_000)

describe("properties", () => {
  it("agrees with croner in UTC, is strictly later and matches the expression", () => {
    for (let seed = 0; seed < amount(2000, 10_000); seed++) {
      const random = randomOf(seed)
      const text = expressionOf(random)
      const after = momentOf(random)
      const rhythm = rhythmOf(text)
      const found = Rhythm.next(rhythm, after)
      const date = new Date(found)
      const { days, hours, minutes, months, weekdays } = rhythm.cron
      const isMatch = found > after && minutes.includes(date.getUTCMinutes()) && hours.includes(date.getUTCHours())
        && months.has(date.getUTCMonth() + 1) && days.has(date.getUTCDate()) && weekdays.has(date.getUTCDay())
      const expected = new Croner(text, { timezone: "UTC" }).nextRun(new Date(after))?.getTime()
      if (!isMatch || found !== expected) {
        assert.fail(`${text} after ${new Date(after).toISOString()}: ${date.toISOString()}, not ${expected}`)
      }
    }
  })

  it("agrees with Effect's Cron within days of clock changes", () => {
    const zones = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago"] as const
    const changes = [
      ["2026-03-29T01:00Z", "2026-10-25T01:00Z"],
      ["2026-03-08T07:00Z", "2026-11-01T06:00Z"],
      ["2026-04-04T15:00Z", "2026-10-03T15:30Z"],
      ["2026-09-06T04:00Z", "2026-04-05T03:00Z"]
    ]
    for (let seed = 0; seed < amount(1000, 4000); seed++) {
      const random = randomOf(seed)
      const zone = zones[seed % 4]!
      const after = Date.parse(changes[seed % 4]![random(2)]!) + (random(3000) - 1500) * 60_000
      const text = `${fieldOf(random, 0, 59)} ${fieldOf(random, 0, 23)} * * *`
      const rhythm = rhythmOf(text, zone)
      const onDstOverlap = rhythm.cron.hours.length === 24 ? "both" : "earlier"
      const expected = Cron.next(Cron.parseUnsafe(text, zone, { onDstOverlap }), after).toISOString()
      const found = new Date(Rhythm.next(rhythm, after)).toISOString()
      if (found !== expected) {
        assert.fail(`${text} ${zone} after ${new Date(after).toISOString()}: ${found}, not ${expected}`)
      }
    }
  })

  it("counts as many moments as there are", () => {
    for (let seed = 0; seed < 300; seed++) {
      const random = randomOf(seed)
      const text = expressionOf(random)
      const zone = ["UTC", "Europe/Berlin", "Australia/Lord_Howe"][random(3)]!
      const rhythm = rhythmOf(text, zone)
      const after = momentOf(random)
      const to = after + random(60 * 86_400_000)
      const found = Rhythm.upcoming(rhythm, after, 2000, to)
      if (found.length < 2000) {
        assert.strictEqual(Rhythm.count(rhythm, after, to), found.length, `${seed}: ${text} ${zone}`)
      }
    }
  })
})

describe("refused expressions", () => {
  const refused = [
    "0 0 0 * * *",
    "@daily",
    "",
    "* * * *",
    "0 0 L * *",
    "0 0 15W * *",
    "0 0 * * 5#2",
    "0 0 * * 5L",
    "0 0 ? * *",
    "60 * * * *",
    "* 24 * * *",
    "* * 0 * *",
    "* * * 13 *",
    "* * * * 8",
    "*/0 * * * *",
    "*/61 * * * *",
    "0 */25 * * *",
    "-1 * * * *",
    "5-1 * * * *",
    "a * * * *",
    "1-2-3 * * * *",
    "1//2 * * * *",
    ", * * * *",
    "0 0 30 2 *",
    "0 0 31 2,4,6,9,11 *",
    "0 0 31 2 */2",
    `${"0,".repeat(200)}0 * * * *`
  ]
  for (const text of refused) {
    it(`refuses ${text.slice(0, 30)} with a reason in less than a millisecond`, () => {
      const times = Array.from({ length: 20 }, () => cpuOf(() => CronExpression.parse(text)))
      assert.isBelow(Math.min(...times), 1)
      const parsed = CronExpression.parse(text)
      assert.isTrue(Result.isFailure(parsed))
      if (Result.isFailure(parsed)) assert.match(parsed.failure, /\w{3} .*\w/)
    })
  }

  it("refuses offsets and unknown zones, and accepts links", () => {
    for (const name of ["+02:00", "-5", "UTC+1", "GMT+2", "", "Berlin", "Europe/Nowhere", "Z".repeat(100)]) {
      assert.isTrue(Result.isFailure(TimeZone.find(name)), name)
    }
    for (const name of ["UTC", "Asia/Kolkata", "US/Eastern", "Etc/GMT+2", "GMT", "GMT0", "GMT+0", "GMT-0"]) {
      assert.isTrue(Result.isSuccess(TimeZone.find(name)), name)
    }
  })
})
