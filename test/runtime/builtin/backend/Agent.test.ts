import { assert, it } from "@effect/vitest"
import { Effect, Queue, Stream } from "effect"
import { AiError, LanguageModel, type Response, Tool } from "effect/ai"
import { TestClock } from "effect/testing"
import type { TurnLine } from "../../../../src/runtime/builtin/AssistantProtocol.ts"
import * as Agent from "../../../../src/runtime/builtin/backend/Agent.ts"
import * as Conversation from "../../../../src/runtime/builtin/backend/Conversation.ts"

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } }
const image = { type: "image" }

const run = Effect.fnUntraced(function*(
  responses: Array<Stream.Stream<Response.StreamPartEncoded, AiError.AiError>>,
  name: string,
  tool: Agent.OwnTool["run"]
) {
  const model = yield* LanguageModel.make({
    streamText: () => responses.shift() ?? Stream.empty,
    generateText: () => Effect.die("unused")
  })
  const agent = {
    model,
    modelName: "model",
    instructions: "",
    maxRounds: 8,
    tools: [{ tool: Tool.dynamic(name, { parameters: { type: "object", properties: {} } }), run: tool }],
    loadImage: () => Effect.undefined
  }
  const lines = yield* Queue.unbounded<TurnLine>()
  const request = { input: [], turns: [], client_tools: [] }
  yield* Agent.run(agent, request, [{ role: "user", content: "Draw." }], undefined).pipe(
    Stream.runForEach((line) => line.type === "text" ? Effect.void : Queue.offer(lines, line)),
    Effect.forkScoped
  )
  return lines
})

const callOf = (id: string, name: string, params: object) =>
  Stream.make({ type: "tool-call" as const, id, name, params }, {
    type: "finish" as const,
    reason: "tool-calls" as const,
    usage
  })

it.effect("reports what a tool returned while the model has not responded to it", () =>
  Effect.gen(function*() {
    const drawn = Effect.as(Effect.sleep("1 minute"), { content: "Drawn.", output: image })
    const lines = yield* run([callOf("a", "draw", {}), Stream.never], "draw", () => drawn)
    yield* TestClock.adjust("1 minute")
    yield* TestClock.adjust("1 second")
    const reported = yield* Queue.clear(lines)
    assert.deepStrictEqual(reported.map(({ turn }) => turn?.["output"]), [[], [image]])
  }))

it.effect("adds up usage over the rounds, with the details that the provider reports", () =>
  Effect.gen(function*() {
    const finish = (cacheRead?: number) => ({
      type: "finish" as const,
      reason: "tool-calls" as const,
      usage: { inputTokens: { total: 10, cacheRead }, outputTokens: { total: 4, reasoning: 3 } }
    })
    const round = (cacheRead?: number) =>
      Stream.make({ type: "tool-call" as const, id: "a", name: "draw", params: {} }, finish(cacheRead))
    const lines = yield* run([round(6), round(), Stream.never], "draw", () => Effect.succeed({ content: "Drawn." }))
    yield* TestClock.adjust("2 seconds")
    const { turn } = yield* Queue.take(lines)
    assert(Conversation.isTurn(turn))
    assert.deepStrictEqual(turn.metadata.usage, {
      input_tokens: 20,
      output_tokens: 8,
      total_tokens: 28,
      input_tokens_details: { cached_tokens: 6 },
      output_tokens_details: { reasoning_tokens: 6 }
    })
  }))

it.effect("replaces characters that the service refuses in ids, and keeps those of arguments and results", () =>
  Effect.gen(function*() {
    const results = [{ type: "text", text: "\ude00" }]
    const lines = yield* run(
      [callOf("a\0", "draw", { "k\0": ["\ud83d", 1, null, { n: "\u{1f600}" }] }), Stream.never],
      "draw",
      () => Effect.succeed({ content: results })
    )
    yield* TestClock.adjust("2 seconds")
    const { turn } = yield* Queue.take(lines)
    assert.deepStrictEqual(turn?.["messages"], [
      { role: "user", content: "Draw." },
      {
        role: "assistant",
        content: "",
        tool_calls: [{
          id: "a\ufffd",
          name: "draw",
          arguments: { "k\0": ["\ud83d", 1, null, { n: "\u{1f600}" }] }
        }]
      },
      { role: "tool", tool_call_id: "a\ufffd", content: [{ type: "text", text: "\ude00" }] }
    ])
  }))

it.effect("gives calls other ids that repeat one of the conversation, so that each has its own result", () =>
  Effect.gen(function*() {
    const call = (id: string) => ({ type: "tool-call" as const, id, name: "draw", params: {} })
    const finish = { type: "finish" as const, reason: "tool-calls" as const, usage }
    const lines = yield* run(
      [Stream.make(call("a"), call("a"), finish), Stream.make(call("b"), call("a"), finish), Stream.never],
      "draw",
      () => Effect.succeed({ content: "Drawn." })
    )
    yield* TestClock.adjust("2 seconds")
    const { turn } = yield* Queue.take(lines)
    assert(Conversation.isTurn(turn))
    const ids = turn.messages.map(({ tool_call_id, tool_calls }) => tool_call_id ?? tool_calls?.map(({ id }) => id))
    assert.deepStrictEqual(ids, [
      undefined,
      ["a", "call_1_1"],
      "a",
      "call_1_1",
      ["b", "call_4_1"],
      "b",
      "call_4_1"
    ])
  }))

const broken = AiError.make({
  module: "test",
  method: "streamText",
  reason: new AiError.InternalProviderError({ description: "broken" })
})

/** A response that has text and, half a second later, fails or hangs. */
const responseOf = (text: string, ending: Effect.Effect<never, AiError.AiError>) =>
  Stream.make({ type: "text-start" as const, id: "1" }, { type: "text-delta" as const, id: "1", delta: text }).pipe(
    Stream.concat(Stream.fromEffect(Effect.delay(ending, "500 millis")))
  )
/** The type and text of each line within a minute. */
const textsOf = Effect.fnUntraced(function*(...responses: Parameters<typeof run>[0]) {
  const lines = yield* run(responses, "draw", () => Effect.never)
  yield* TestClock.adjust("1 minute")
  return (yield* Queue.clear(lines)).map(({ turn, type }) => [
    type,
    Conversation.isTurn(turn) ? turn.output[0]?.["text"] : undefined
  ])
})

it.effect("keeps the text of a response that broke off until another attempt has text or ends", () =>
  Effect.gen(function*() {
    const half = responseOf("Half.", Effect.fail(broken))
    assert.deepStrictEqual(yield* textsOf(half, Stream.fail(broken), Stream.never), [["progress", "Half."]])
    assert.deepStrictEqual(yield* textsOf(half, Stream.fail(broken), responseOf("Whole.", Effect.never)), [
      ["progress", "Half."],
      ["progress", "Whole."]
    ])
    assert.deepStrictEqual(yield* textsOf(half, callOf("a", "draw", {})), [
      ["progress", "Half."],
      ["progress", undefined]
    ])
    const failures = Array.from({ length: 4 }, () => Stream.fail(broken))
    assert.deepStrictEqual(yield* textsOf(half, ...failures), [["progress", "Half."], ["failed", "Half."]])
  }))
