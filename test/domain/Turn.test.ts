import { assert, describe, it } from "vitest"
import { outputText, type Turn } from "../../src/domain/Turn.ts"

const file = { id: "1", name: "a.png", mime_type: "image/png", provider_data: { path: "1/a.png" } }

describe("outputText", () => {
  it("joins the text items of the output by blank lines", () => {
    const chart = { type: "chart" } as never
    const turn: Turn = {
      output: [{ type: "text", text: "One." }, { type: "image", file }, chart, {
        type: "text",
        text: "Two."
      }]
    }
    assert.strictEqual(outputText({ turn }), "One.\n\nTwo.")
  })

  it.each([
    `null`,
    `{}`,
    `[]`,
    `{"output":null}`,
    `{"output":"text"}`,
    `{"output":{"0":{"type":"text","text":"x"}}}`,
    `{"output":[null,1,"text",[],{},{"type":"text"},{"type":"text","text":1},{"type":"other","text":"x"}]}`
  ])("is empty for %s", (turn) => {
    assert.strictEqual(outputText({ turn: JSON.parse(turn) }), "")
  })
})
