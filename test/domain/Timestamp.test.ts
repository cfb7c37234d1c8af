import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { format, fromMicros, parse } from "../../src/domain/Timestamp.ts"

const Micros = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 8_993_721_600_000_000 }))

describe("a moment", () => {
  it.prop("is written as JavaScript writes it, with microseconds", [Micros], ([micros]) => {
    const millis = Math.floor(micros / 1000)
    const expected = `${new Date(millis).toISOString().slice(0, -1)}${String(micros - millis * 1000).padStart(3, "0")}Z`
    assert.strictEqual(format(fromMicros(micros)), expected)
  })

  it.prop("is read as it was written", [Micros], ([micros]) => {
    assert.strictEqual(parse(format(fromMicros(micros))), micros)
  })

  it("is written in turn with moments of other minutes", () => {
    const moments = [0, 59_999_999, 60_000_000, 1, 1_764_300_000_123_456, 60_000_001]
    assert.deepStrictEqual(moments.map((micros) => format(fromMicros(micros))), [
      "1970-01-01T00:00:00.000000Z",
      "1970-01-01T00:00:59.999999Z",
      "1970-01-01T00:01:00.000000Z",
      "1970-01-01T00:00:00.000001Z",
      "2025-11-28T03:20:00.123456Z",
      "1970-01-01T00:01:00.000001Z"
    ])
  })
})
