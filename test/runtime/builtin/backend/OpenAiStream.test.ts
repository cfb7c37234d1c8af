import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { HttpClientRequest, HttpClientResponse } from "effect/http"
import { streamParts } from "../../../../src/runtime/builtin/backend/OpenAiStream.ts"

const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`
const delta = (fields: object) => event({ choices: [{ delta: fields }] })
const end = `${event({ choices: [{ delta: {}, finish_reason: "stop" }] })}data: [DONE]\n\n`

/** The parts of a response with this body. */
const read = (body: string) =>
  Stream.runCollect(streamParts(HttpClientResponse.fromWeb(HttpClientRequest.post("/"), new Response(body))))

/** The texts and tool calls of a response. */
const contentOf = (body: string) =>
  Effect.map(read(body), (parts) =>
    parts.flatMap((part): ReadonlyArray<unknown> => {
      if (part.type === "text-delta") return [part.delta]
      return part.type === "tool-call" ? [[part.id, part.name, part.params]] : []
    }))

describe("the stream of a model", () => {
  it.effect("may contain fields of the SSE standard that have no meaning here, and unknown ones", () =>
    Effect.gen(function*() {
      const fields = ": comment\nretry: 3000\nid: 7\nevent: message\nunknown: field\nunknown\n"
      const body = `retry: 10\n\n${fields}${delta({ content: "Hello" })}retry: 20\n\n${delta({ content: "." })}${end}`
      assert.deepStrictEqual(yield* contentOf(body), ["Hello", "."])
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
})
