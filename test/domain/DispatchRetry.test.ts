import { assert, describe, it } from "@effect/vitest"
import { Duration, Schema } from "effect"
import { isRetryableStatus, parseRetryAfter, pauseWithin } from "../../src/domain/DispatchRetry.ts"

const at = Date.parse("2026-11-21T08:30:00Z")
const seconds = (text: string) => {
  const delay = parseRetryAfter(text, at)
  return delay === null ? null : Duration.toSeconds(delay)
}

it("a start is retried after 408, 429 and 5xx, and after no other status", () => {
  const statuses = [199, 300, 400, 408, 409, 425, 429, 499, 500, 503, 599, 600, 999]
  assert.deepStrictEqual(statuses.filter(isRetryableStatus), [408, 429, 500, 503, 599])
})

describe("Retry-After", () => {
  const cases: ReadonlyArray<readonly [text: string, seconds: number | null]> = [
    ["0", 0],
    ["120", 120],
    ["00005", 5],
    ["1.5", 1.5],
    ["99999999999", 99_999_999_999],
    ["9".repeat(400), Infinity],
    ["Sat, 21 Nov 2026 08:30:20 GMT", 20],
    ["Saturday, 21-Nov-26 08:30:20 GMT", 20],
    ["Sat, 21 Nov 2026 08:29:00 GMT", 0],
    ["Fri, 31 Dec 9999 23:59:59 GMT", 251_607_050_999],
    // `Date` reads some of these.
    ["-5", null],
    ["+5", null],
    ["12.5.2026", null],
    ["1e3", null],
    ["0x10", null],
    ["2027-01-01", null],
    ["120 seconds", null],
    ["5, 10", null],
    ["soon", null],
    ["Saturday", null],
    ["", null],
    ["NaN", null],
    ["Infinity", null],
    ["١٢", null]
  ]
  for (const [text, expected] of cases) {
    it(`reads ${JSON.stringify(text.slice(0, 40))} as ${expected}`, () => {
      assert.strictEqual(seconds(text), expected)
    })
  }
})

const millis = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000_000_000 }))

describe("the pause before an attempt", () => {
  it.prop(
    "is the wanted one, or leaves 2 s before the deadline, or a quarter of a short time",
    [millis, millis],
    ([wanted, left]) => {
      const { isLast, pause } = pauseWithin(Duration.millis(wanted), Duration.millis(left))
      const latest = left - Math.min(2000, left / 4)
      assert.closeTo(Duration.toMillis(pause), Math.min(wanted, latest), 0.001)
      assert.strictEqual(isLast, wanted >= latest)
    }
  )
})
