import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Conversation from "../../../../src/runtime/builtin/backend/Conversation.ts"

const calls = [{ id: "a", name: "f", arguments: { x: 1 } }, { id: "b", name: "g", arguments: {} }]

const prompt = (messages: ReadonlyArray<Conversation.Message>) =>
  Conversation.toPrompt("", messages, () => Effect.undefined)

describe("a conversation", () => {
  it("keeps only a client's valid messages", () => {
    const request = {
      input: [{ type: "text", text: "hi" }],
      client_tools: [],
      turns: [{ role: "user", content: "x" }, 3, {}]
    }
    assert.deepStrictEqual(Conversation.start(request), [
      { role: "user", content: "x" },
      { role: "user", content: [{ type: "text", text: "hi" }] }
    ])
  })

  it("gives a repeated call an id that no call has, not even one of ours that a client sent back", () => {
    const messages = [{ role: "assistant", tool_calls: [calls[0]!, { ...calls[1]!, id: "call_1_0" }] }] as const
    const ids = Conversation.withNewIds(messages, calls).map(({ id }) => id)
    assert.deepStrictEqual(ids, ["call_2_0", "b"])
  })

  it.effect("has a result for every call, and no result without its call", () =>
    Effect.gen(function*() {
      const made = yield* prompt([
        { role: "tool", tool_call_id: "z", content: "stray" },
        { role: "assistant", content: "", tool_calls: calls },
        { role: "tool", tool_call_id: "b", content: "of b", is_error: true },
        { role: "user", content: "and?" }
      ])
      assert.deepStrictEqual(made.map(({ role }) => role), ["assistant", "tool", "user"])
      const content = made[1]!.content as ReadonlyArray<
        { readonly id: string; readonly result: string; readonly isFailure: boolean }
      >
      assert.deepStrictEqual(content.map(({ id, isFailure, result }) => [id, result, isFailure]), [
        ["a", "No result.", false],
        ["b", "of b", true]
      ])
    }))

  it("resumes from the answered calls, even if it continued after them before", () => {
    const asked: ReadonlyArray<Conversation.Message> = [
      { role: "user", content: "q" },
      { role: "assistant", content: "", tool_calls: calls },
      { role: "tool", tool_call_id: "a", content: "ours" }
    ]
    const further: ReadonlyArray<Conversation.Message> = [
      ...asked,
      { role: "tool", tool_call_id: "b", content: "1" },
      { role: "assistant", content: "", tool_calls: [{ id: "c", name: "f", arguments: {} }] }
    ]
    const results = [{ tool_call_id: "b", output: { n: 1 } }]
    const expected: ReadonlyArray<Conversation.Message> = [...asked, {
      role: "tool",
      tool_call_id: "b",
      content: "{\"n\":1}"
    }]
    assert.deepStrictEqual(Conversation.resume(asked, results), expected)
    assert.deepStrictEqual(Conversation.resume(further, results), expected)
    assert.isUndefined(Conversation.resume(further, [{ tool_call_id: "z", output: null }]))
  })

  it("counts the rounds since the last message of the user", () => {
    const round = { role: "assistant", content: "" } as const
    const user = { role: "user", content: "" } as const
    assert.strictEqual(Conversation.roundsOf([user, round, user, round, round]), 2)
  })
})
