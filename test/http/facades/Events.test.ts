/** Streams of a response: whatever the cut, a resumed stream continues the one before. */
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { TaskId } from "../../../src/domain/Task.ts"
import { Timestamp } from "../../../src/domain/Timestamp.ts"
import * as Events from "../../../src/http/facades/openai/Events.ts"
import * as Response from "../../../src/http/facades/openai/Response.ts"

const id = { uuid: TaskId.make("019a0000-0000-7000-8000-000000000000"), leg: 0 }
const kept = {
  model: "m",
  instructions: null,
  previous_response_id: null,
  metadata: {},
  tools: [],
  background: true
}

const snapshotOf = (text: string, status: Response.Snapshot["status"]): Response.Snapshot => ({
  ...Response.created(id, JSON.stringify(kept), Timestamp.make(1_764_000_000_000_000)),
  status,
  turn: { text, files: [], usage: null, messages: [] },
  toolCalls: status === "interrupted" ? [{ id: "c", name: "look", arguments: { a: 1 } }] : []
})

/** The events of a connection that continues after `after` and sees these versions of the text. */
const eventsOf = (texts: ReadonlyArray<string>, last: Response.Snapshot, after: number) => {
  const deltas = Events.makeDeltas(id, after)
  const response = Response.responseOf(last, Response.outputOf(last, ""))
  const text = Response.messageText(response.output)
  return [
    ...Events.opening(response),
    ...texts.flatMap(deltas),
    ...deltas(text),
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

  it("wait over a text that does not continue the one before, which the end replaces", () => {
    const deltas = Events.makeDeltas(id, -1)
    assert.strictEqual(textOf(deltas("abc")), "abc")
    assert.deepStrictEqual(deltas("xyz and more"), [])
    assert.strictEqual(textOf(deltas("abcd")), "d")
  })
})
