import { assert, describe, it } from "vitest"
import { make } from "../../../src/runtime/cli/Output.ts"

const now = Date.parse("2026-11-22T08:00:00Z")
const plain = make({ canColor: false, now, width: undefined })
const terminal = make({ canColor: true, now, width: 40 })

describe("the output of commands", () => {
  it("aligns columns by their width on the screen and keeps a cell in its line", () => {
    assert.strictEqual(
      plain.table(["NAME", "STATUS"], [["ファイル", "completed"], ["a\nb", "failed"]], "Nothing"),
      "NAME      STATUS\nファイル  completed\na b       failed"
    )
    assert.strictEqual(plain.table(["NAME"], [], "Nothing"), "Nothing")
    assert.strictEqual(
      plain.fields([["Task", "1"], ["Error", null], ["Status", "failed"]]),
      "Task    1\nStatus  failed"
    )
  })

  it("colors known words on a terminal and shortens the last column to its edge", () => {
    const [header, row] = terminal.table(["STATUS", "ERROR"], [["failed", "x".repeat(60)]], "").split("\n")
    assert.strictEqual(header, "\u001B[1mSTATUS  ERROR\u001B[22m")
    assert.strictEqual(row, `\u001B[31mfailed\u001B[39m  ${"x".repeat(31)}…`)
    assert.strictEqual(terminal.table(["A"], [["\u001B[2Jx"]], ""), "\u001B[1mA\u001B[22m\n [2Jx")
  })

  it("writes the largest unit of an age", () => {
    const ages = [
      "2026-11-22T08:00:00.4Z",
      "2026-11-22T07:59:57.100001Z",
      "2026-11-22T07:57:01Z",
      "2026-11-20T08:00:00Z"
    ]
    assert.deepStrictEqual(ages.map(plain.age), ["0 s ago", "2 s ago", "2 m ago", "2 d ago"])
    assert.deepStrictEqual([plain.age("2026-11-22T09:00:00Z"), plain.age(null)], ["in 1 h", "-"])
  })

  it("removes control characters of a stranger's text from a terminal only", () => {
    assert.strictEqual(terminal.text("a\u001B]0;title\u0007\tb\n"), "a]0;title\tb\n")
    assert.strictEqual(plain.text("a\u001Bb"), "a\u001Bb")
  })
})
