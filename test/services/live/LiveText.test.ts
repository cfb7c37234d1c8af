import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as v8 from "node:v8"
import * as vm from "node:vm"
import * as Limits from "../../../src/domain/Limits.ts"
import { keptUnits, LiveText } from "../../../src/services/live/LiveText.ts"

v8.setFlagsFromString("--expose-gc")
const gc = vm.runInNewContext("gc")

const between = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))
const Steps = Schema.Array(Schema.Struct({
  unit: Schema.Literals(["a", "é", "😀", "\ud83d", "\ude00", "👩‍💻"]),
  times: Schema.Literals([1, 3, 1000, 70_000, 300_000]),
  /** A reader that is this far behind. */
  behind: Schema.NullOr(between(0, 2_000_000))
})).check(Schema.isMinLength(1), Schema.isMaxLength(12))

const isCut = (text: string, at: number) =>
  /[\ud800-\udbff]$/.test(text.slice(0, at)) && /^[\udc00-\udfff]/.test(text.slice(at))

describe("LiveText", () => {
  it.prop("keeps its end: 256 Ki units, and what its readers lack within 1 Mi", [Steps], ([steps]) => {
    const text = new LiveText(0)
    let whole = ""
    for (const { behind, times, unit } of steps) {
      const part = unit.repeat(times)
      text.followers.clear()
      const end = Math.max(0, whole.length - (behind ?? 0))
      if (behind !== null) text.followers.add({ onChange: () => {}, end: () => end })
      const known = text.offset
      whole += part
      text.append(part)
      assert.strictEqual(text.end, whole.length)
      const { offset } = text
      assert.isAtMost(offset, Math.max(0, whole.length - keptUnits))
      if (behind !== null && whole.length - end <= Limits.unreadText) assert.isAtMost(offset, Math.max(known, end))
      assert.isAtMost(text.size / 2, Limits.unreadText + 128 * 1024)
      if (behind === null) assert.isAtMost(text.size / 2, keptUnits + 128 * 1024)
      assert.deepStrictEqual(text.part(0), { offset, text: whole.slice(offset) })
      assert.isFalse(isCut(whole, offset) && unit !== "\ud83d" && unit !== "\ude00", "a pair was cut at the front")
      const tail = text.tail()
      assert.isAtMost(tail.text.length, keptUnits + 1)
      assert.strictEqual(tail.text, whole.slice(tail.offset))
      assert.isFalse(isCut(whole, text.wholeEnd))
    }
    const at = Math.floor((text.offset + text.end) / 2)
    assert.strictEqual(text.part(at, at + 5).text, whole.slice(at, at + 5))
    assert.strictEqual(text.merge({ offset: 0, text: `${whole}.` }, 1), "grown")
    assert.strictEqual(text.merge({ offset: 0, text: `${whole}.` }, 1), "same")
    assert.strictEqual(text.merge({ offset: 0, text: "another" }, 1), "replaced")
    text.free()
    assert.deepStrictEqual([text.size, text.end, text.offset], [0, 7, 7])
  })

  it("takes what it says: 320,000 appends of a character cost no more than their text", () => {
    const text = new LiveText(0)
    gc()
    const before = process.memoryUsage().heapUsed
    for (let index = 0; index < 320_000; index++) text.append(String.fromCharCode(97 + index % 26))
    gc()
    // As parts that V8 joins later they cost 10 MiB.
    assert.isBelow(process.memoryUsage().heapUsed - before, 2 * 1024 * 1024)
    assert.strictEqual(text.end, 320_000)
  })

  it("keeps the first half of a pair when it is freed, so that the part behind begins with a whole character", () => {
    const text = new LiveText(0)
    text.append("hello \ud83d")
    text.free()
    text.append("\ude00 and more")
    assert.deepStrictEqual(text.part(0), { offset: 6, text: "\u{1f600} and more" })
  })
})
