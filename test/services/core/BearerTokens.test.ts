import { assert, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import * as BearerTokens from "../../../src/services/core/BearerTokens.ts"

it.effect.each([401, 403])(
  "the first token is sent, the next one after a %s, and an accepted one until it is refused",
  (refusal) =>
    Effect.gen(function*() {
      const sent: Array<string | undefined> = []
      let accepted = ["old", "new"]
      const withToken = BearerTokens.make(["new", "old", "older"].map((token) => Redacted.make(token)))
      const call = withToken(({ authorization }) =>
        Effect.sync(() => {
          const token = authorization?.slice("Bearer ".length)
          sent.push(token)
          return { status: accepted.includes(token ?? "") ? 202 : refusal }
        })
      )
      const statusAfter = (...tokens: ReadonlyArray<string>) => {
        accepted = [...tokens]
        sent.length = 0
        return Effect.map(call, ({ status }) => [status, ...sent])
      }
      assert.deepStrictEqual(yield* statusAfter("old", "new"), [202, "new"])
      assert.deepStrictEqual(yield* statusAfter("older"), [202, "new", "old", "older"])
      assert.deepStrictEqual(yield* statusAfter("older", "new"), [202, "older"])
      assert.deepStrictEqual(yield* statusAfter(), [refusal, "older", "new", "old"])
      assert.deepStrictEqual(yield* statusAfter("new"), [202, "older", "new"])
    })
)

it.effect("without a token a request is sent once and has no header", () =>
  Effect.gen(function*() {
    const sent: Array<object> = []
    const call = BearerTokens.make([])((headers) => {
      sent.push(headers)
      return Effect.succeed({ status: 401 })
    })
    assert.deepStrictEqual(yield* call, { status: 401 })
    assert.deepStrictEqual(sent, [{}])
  }))
