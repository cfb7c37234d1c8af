/** Streams of a response: whatever the cut, a resumed stream continues the one before. */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as RawJson from "../../../src/domain/json/RawJson.ts"
import { Kind } from "../../../src/domain/json/tables.ts"
import { TaskId } from "../../../src/domain/Task.ts"
import { Timestamp } from "../../../src/domain/Timestamp.ts"
import * as TurnReader from "../../../src/http/facades/TurnReader.ts"
import * as Events from "../../../src/http/openai/Events.ts"
import * as Response from "../../../src/http/openai/Response.ts"

const id = { uuid: TaskId.make("019a0000-0000-7000-8000-000000000000"), leg: 0 }
const kept = {
  model: "m",
  instructions: null,
  previous_response_id: null,
  metadata: {},
  tools: [],
  background: true,
  store: true,
  max_output_tokens: null,
  text: { format: { type: "text" } }
}

const snapshotOf = (text: string, status: Response.Snapshot["status"]): Response.Snapshot => ({
  ...Response.created(id, JSON.stringify(kept), Timestamp.make(1_764_000_000_000_000)),
  status,
  hasTurn: true,
  turn: { text: text === "" ? undefined : RawJson.ofText(text), files: [], usage: null },
  toolCalls: status === "interrupted" ? [{ id: "c", name: "look", arguments: { a: 1 } }] : []
})

/** The events of a connection that continues after `after` and sees these versions of the text. */
const eventsOf = (texts: ReadonlyArray<string>, last: Response.Snapshot, after: number) => {
  const deltas = Events.makeDeltas(id, after)
  const response = Response.responseOf(last, Response.outputOf(last, ""))
  const text = Response.messageText(response.items)
  return [
    ...Events.opening(response),
    ...texts.flatMap(deltas.ofText),
    ...[...deltas.ofSlices(text === undefined ? [] : TurnReader.slicesOf(text))].flat(),
    ...Events.closing(response)
  ].filter(({ sequence_number }) => sequence_number > after)
}

const textOf = (events: ReadonlyArray<Events.ResponseEvent>) =>
  events.map(({ delta, type }) => type === "response.output_text.delta" ? delta : "").join("")

const Cuts = Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 40 })))
const statuses = ["completed", "failed", "canceled", "interrupted"] as const

describe("events", () => {
  it.prop(
    "continue after any number with the same text and the same end",
    [Schema.String, Cuts, Cuts, Schema.Literals(statuses)],
    ([whole, seen, seenLater, status]) => {
      const ended = snapshotOf(whole, status)
      // After its answer an interrupted leg is read from its frozen output.
      const last = status === "interrupted" && seen.length % 2 === 0
        ? { ...snapshotOf("", "answered"), frozen: Response.freeze(ended) }
        : ended
      const versions = (cuts: ReadonlyArray<number>) => cuts.toSorted((a, b) => a - b).map((at) => whole.slice(0, at))
      const events = eventsOf(versions(seen), last, -1)
      const numbers = events.map(({ sequence_number }) => sequence_number)
      assert.deepStrictEqual(numbers, [...new Set(numbers)].toSorted((a, b) => a - b))
      assert.strictEqual(textOf(events), whole)
      for (const [index, after] of numbers.entries()) {
        const resumed = eventsOf(versions(seenLater), last, after)
        assert.strictEqual(textOf(events.slice(0, index + 1)) + textOf(resumed), whole)
        assert.deepStrictEqual(resumed.at(-1), index === numbers.length - 1 ? undefined : events.at(-1))
      }
    }
  )

  it.prop(
    "have the text in slices that cut no character and no escape",
    [
      Schema.Array(Schema.Literals(["a", "é", "я", "€", "😀", "\"", "\\", "\n", "\ud83d", "\ude00", "u"])),
      Schema.Boolean
    ],
    ([characters, isEscaped]) => {
      const text = characters.join("")
      const hexOf = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`
      const json = isEscaped
        ? `"${text.replaceAll(/[^a]/g, (unit) => unit === "\\" ? "\\\\" : hexOf(unit))}"`
        : JSON.stringify(text)
      const slices = [...TurnReader.slicesOf(new RawJson.RawJson(Kind.string, new TextEncoder().encode(json)), 8)]
      assert.strictEqual(slices.join(""), text)
      const isCut = slices.some((slice, index) =>
        /[\uD800-\uDBFF]$/.test(slice) && /^[\uDC00-\uDFFF]/.test(slices[index + 1] ?? "")
      )
      assert.isFalse(isCut)
    }
  )

  it("wait over a text that does not continue the one before, which the end replaces", () => {
    const deltas = Events.makeDeltas(id, -1)
    assert.strictEqual(textOf(deltas.ofText("abc")), "abc")
    assert.deepStrictEqual(deltas.ofText("xyz and more"), [])
    assert.strictEqual(textOf(deltas.ofText("abcd")), "d")
  })
})
