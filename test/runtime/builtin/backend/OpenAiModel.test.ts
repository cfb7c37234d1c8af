import { assert, it } from "@effect/vitest"
import { Effect, Fiber, identity } from "effect"
import { HttpClient, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { post, retry, withOptions } from "../../../../src/runtime/builtin/backend/OpenAiModel.ts"

const endpoint = { baseUrl: "x", apiKey: undefined, model: "m", parameters: { temperature: 0, max_tokens: 9 } }

it("sends options of a run in place of the endpoint's own parameters", () => {
  const schema = { type: "object" }
  const response_format = { type: "json_schema", name: "n", schema, strict: true }
  assert.deepStrictEqual(withOptions(endpoint, { max_output_tokens: 5, response_format }).parameters, {
    temperature: 0,
    max_completion_tokens: 5,
    response_format: { type: "json_schema", json_schema: { name: "n", schema, strict: true } }
  })
  assert.deepStrictEqual(withOptions(endpoint, { response_format: { type: "json_object" } }).parameters, {
    ...endpoint.parameters,
    response_format: { type: "json_object" }
  })
  assert.strictEqual(withOptions(endpoint, undefined), endpoint)
})

for (const status of [429, 503]) {
  for (const retryAfter of ["20", "Thu, 01 Jan 1970 00:00:20 GMT"]) {
    it.effect(`calls again when a provider asks for it with ${status} and Retry-After: ${retryAfter}`, () => {
      let calls = 0
      const client = HttpClient.make((request) =>
        Effect.sync(() => {
          const isFirst = ++calls === 1
          const headers: Record<string, string> = isFirst ? { "retry-after": retryAfter } : {}
          return HttpClientResponse.fromWeb(request, new Response(null, { status: isFirst ? status : 200, headers }))
        })
      )
      return Effect.gen(function*() {
        const calling = yield* Effect.forkChild(retry(post({ ...endpoint, baseUrl: "http://model" }, "/x", identity)))
        yield* TestClock.adjust("19 seconds")
        assert.strictEqual(calls, 1)
        yield* TestClock.adjust("1 second")
        assert.strictEqual((yield* Fiber.join(calling)).status, 200)
      }).pipe(Effect.provideService(HttpClient.HttpClient, client))
    })
  }
}
