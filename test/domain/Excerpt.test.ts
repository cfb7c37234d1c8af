import { assert, describe, it } from "vitest"
import * as Excerpt from "../../src/domain/Excerpt.ts"
import { cpuOf } from "../kit/cpu.ts"

const stored = (input: ReadonlyArray<unknown>) => JSON.stringify({ assistant_id: 1, input, turns: [] })
const text = (value: string) => ({ type: "text", text: value })

describe("the excerpt of a request", () => {
  it("is its first text on one line, 120 characters at most", () => {
    assert.strictEqual(Excerpt.of(stored([text("  Refund\n\n\"order\" \\ 17  ")])), "Refund \"order\" \\ 17")
    assert.strictEqual(Excerpt.of(stored([text("👩‍🚀".repeat(200))])), [..."👩‍🚀".repeat(200)].slice(0, 120).join(""))
    assert.strictEqual(Excerpt.of(stored([text(" \n"), text("second")])), "second")
    assert.strictEqual(
      Excerpt.of(`{"assistant_id":1,"input":[{"text" : "caf\\u00e9 \\ud83d\\ude00","type":"text"}]}`),
      "café 😀"
    )
  })

  it("is the name of the first file if there is no text, and null if there is neither", () => {
    const file = { type: "file", file: { id: "1", name: "quarter 4.xlsx", mime_type: "text" } }
    assert.strictEqual(Excerpt.of(stored([file])), "quarter 4.xlsx")
    assert.strictEqual(Excerpt.of(stored([file, text("Read it")])), "Read it")
    for (const other of ["", "null", "{}", stored([]), stored([{ type: "text" }]), `{"text":"before the input"}`]) {
      assert.isNull(Excerpt.of(other), other)
    }
  })

  it("survives a cut at any character, and hostile escapes", () => {
    const whole = stored([text(`\u0000 \ud800 "text":"no" \\"text\\": \\u00 ${"\\".repeat(50)} é`)])
    for (let end = 0; end <= whole.length; end++) {
      const excerpt = Excerpt.of(whole.slice(0, end))
      assert.isTrue(excerpt === null || excerpt.isWellFormed(), whole.slice(0, end))
    }
    assert.include(Excerpt.of(whole), `"text":"no"`)
    assert.isNull(Excerpt.of(`{"input":[{"text":"\\x"}]}`))
    assert.isBelow(cpuOf(() => Excerpt.of(`{"input":[${"\"text\":\"".repeat(300)}`)), 100)
  })
})
