import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { HttpClientRequest, HttpClientResponse } from "effect/http"
import { streamParts } from "../../../../src/runtime/builtin/backend/OpenAiStream.ts"

const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`
const delta = (fields: object) => event({ choices: [{ delta: fields }] })
const end = `${event({ choices: [{ delta: {}, finish_reason: "stop" }] })}data: [DONE]\n\n`

/** The parts of a response with this body. */
const read = (body: BodyInit) =>
  Stream.runCollect(streamParts(HttpClientResponse.fromWeb(HttpClientRequest.post("/"), new Response(body))))

/** The texts, and the ids and arguments of the tool calls, of a response. */
const contentOf = (body: BodyInit) =>
  Effect.map(read(body), (parts) =>
    parts.flatMap((part): ReadonlyArray<unknown> => {
      if (part.type === "text-delta") return [part.delta]
      return part.type === "tool-call" ? [[part.id, part.params]] : []
    }))

describe("the stream of a model", () => {
  it.effect("may contain fields of the SSE standard that have no meaning here, and unknown ones", () =>
    Effect.gen(function*() {
      const fields = ": comment\nretry: 3000\nid: 7\nevent: message\nunknown: field\nunknown\n"
      const body = `retry: 10\n\n${fields}${delta({ content: "Hello" })}retry: 20\n\n${delta({ content: "." })}${end}`
      assert.deepStrictEqual(yield* contentOf(body), ["Hello."])
    }))

  const failures: ReadonlyArray<readonly [error: unknown, reason: string]> = [
    [{ code: "insufficient_quota", type: "insufficient_quota", message: "…" }, "QuotaExhaustedError"],
    [{ code: null, type: "insufficient_quota" }, "QuotaExhaustedError"],
    [{ code: "billing_hard_limit_reached", type: "invalid_request_error" }, "QuotaExhaustedError"],
    [{ code: 402, message: "…" }, "QuotaExhaustedError"],
    [{ code: "rate_limit_exceeded", type: "tokens", status: 500 }, "RateLimitError"],
    [{ type: "rate_limit_error" }, "RateLimitError"],
    [{ code: "429" }, "RateLimitError"],
    [{ code: "overloaded", status: 429 }, "RateLimitError"],
    [{ code: "server_error", message: "not insufficient_quota" }, "InternalProviderError"],
    [{ code: 429, message: "insufficient_quota" }, "QuotaExhaustedError"],
    [{ code: 429, metadata: "insufficient_quota" }, "RateLimitError"],
    [{ code: "", message: "…" }, "InternalProviderError"],
    ["rate_limit_exceeded", "InternalProviderError"]
  ]
  for (const [error, reason] of failures) {
    it.effect(`that reports ${JSON.stringify(error)} fails with ${reason}`, () =>
      Effect.gen(function*() {
        const failure = yield* Effect.flip(read(delta({ content: "Hello" }) + event({ error })))
        assert.strictEqual(failure.reason._tag, reason)
      }))
  }

  const begin = (id: string, text = "") => ({ id, function: { name: "look", arguments: text } })
  const more = (text: string) => ({ function: { arguments: text } })
  const [ofFirst, ofSecond] = [{ index: 0 }, { index: 1 }]
  const sentCalls: ReadonlyArray<readonly [title: string, pieces: ReadonlyArray<object>, calls: object]> = [
    ["no index", [begin("a"), more("[1"), more("]"), begin("b"), more("[2]")], { a: [1], b: [2] }],
    ["no index and an id in each piece", [begin("a"), { id: "a", ...more("[1]") }, begin("b", "[2]")], {
      a: [1],
      b: [2]
    }],
    ["neither index nor id", [begin("", "[1]"), begin("", "[2]")], { call_0: [1], call_1: [2] }],
    ["an index in some pieces", [
      { ...ofFirst, ...begin("a") },
      { ...ofSecond, ...begin("b") },
      more("[2]"),
      { ...ofFirst, ...more("[1]") },
      begin("c", "[3]")
    ], { a: [1], b: [2], c: [3] }],
    ["the same index", [{ ...ofFirst, ...begin("a", "[1") }, { ...ofFirst, ...more("]") }, {
      ...ofFirst,
      ...begin("b")
    }, {
      ...ofFirst,
      ...more("[2]")
    }], { a: [1], b: [2] }],
    ["the same index and an id in each piece", [{ ...ofFirst, ...begin("a", "[1") }, {
      ...ofFirst,
      id: "a",
      ...more("]")
    }], {
      a: [1]
    }],
    ["the same index and another id in each piece", [{ ...ofFirst, ...begin("a", "[1") }, {
      ...ofFirst,
      id: "b",
      ...more("]")
    }], {
      a: [1]
    }],
    ["a negative index, which is none", [
      { index: -1, ...begin("a", "[1") },
      { index: -1, ...more("]") },
      { index: -1, ...begin("b") },
      { index: -2, ...more("[2]") }
    ], { a: [1], b: [2] }],
    ["pieces whose index is unknown", [
      { ...ofFirst, ...begin("a", "[1]") },
      { ...ofFirst, ...begin("b") },
      { ...ofSecond, ...more("[2") },
      { index: 2, ...more("]") }
    ], { a: [1], b: [2] }],
    ["the same index and another id and the name in each piece", [
      { ...ofFirst, ...begin("a") },
      { ...ofFirst, ...begin("b", "[[1]") },
      { ...ofFirst, ...begin("c", "]") },
      { ...ofFirst, ...begin("d", "[2]") }
    ], { a: [[1]], d: [2] }],
    ["no index and the name in each piece", [begin("", "[[1]"), begin("", ",2"), begin("", "]"), begin("", "[3]")], {
      call_0: [[1], 2],
      call_1: [3]
    }],
    ["indexes that start at 1", [{ ...ofSecond, ...begin("a", "[1]") }, begin("b", "[2]")], { a: [1], b: [2] }]
  ]
  for (const [title, pieces, calls] of sentCalls) {
    it.effect(`may contain tool calls with ${title}`, () =>
      Effect.gen(function*() {
        const content = yield* contentOf(pieces.map((piece) => delta({ tool_calls: [piece] })).join("") + end)
        assert.deepStrictEqual(content, Object.entries(calls))
      }))
  }

  it.effect("may divide a pair of surrogates, and contain any characters", () =>
    Effect.gen(function*() {
      const texts = ["a\0b", "\ud83d", "\ude00", "\ude00", "c\ud83d"]
      const whole = texts.map((content) => delta({ content }))
      const chunks = Stream.encodeText(Stream.make(...whole, end))
      const inChunks = yield* contentOf(Stream.toReadableStream(chunks))
      assert.strictEqual(inChunks.join(""), "a\0b\u{1f600}\ude00c\ud83d")
      assert.deepStrictEqual(yield* contentOf(whole.join("") + end), [inChunks.join("")])
    }))

  it.effect("is not checked where it is not used", () =>
    Effect.gen(function*() {
      const choices = [{ delta: { content: "Hello" } }, { delta: "unused" }]
      assert.deepStrictEqual(yield* contentOf(event({ choices }) + end), ["Hello"])
    }))

  it.effect("fails at an event with more pieces of tool calls than a response may have calls", () =>
    Effect.gen(function*() {
      const pieces = Array.from({ length: 129 }, () => more("1"))
      const failure = yield* Effect.flip(read(delta({ tool_calls: pieces }) + end))
      assert.include(failure.message, "The answer is too long")
    }))
})
