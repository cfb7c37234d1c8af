import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted, Result } from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import * as jose from "jose"
import type { ServerResponse } from "node:http"
import { TokenVerifier } from "../../../src/services/tokens/TokenVerifier.ts"
import { answerJson, LoopbackServer } from "../../kit/LoopbackServer.ts"
import { eventually } from "../../kit/Service.ts"

/** A scripted JWKS URL, and a verifier of its tokens under TestClock. */
const makeKit = Effect.fnUntraced(function*(atStart: unknown, status = 200) {
  const json = (body: unknown, code: number) => (response: ServerResponse) => void answerJson(response, code, body)
  let [answer, requests] = [json(atStart, status), 0]
  const server = new LoopbackServer((_, response) => {
    requests += 1
    answer(response)
  })
  yield* Effect.acquireRelease(Effect.promise(() => server.listen()), () => Effect.promise(() => server.close()))
  let isCut = false
  const cuttable = (client: HttpClient.HttpClient) =>
    HttpClient.transform(client, (answer) => isCut ? Effect.die("the network is down") : answer)
  const keys = new URL(server.url)
  const context = yield* Layer.build(
    TokenVerifier.layer({ keys, algorithms: ["ES256", "RS256"], issuer: undefined, audience: undefined }).pipe(
      Layer.provide(Layer.effect(HttpClient.HttpClient, Effect.map(HttpClient.HttpClient, cuttable))),
      Layer.provide(FetchHttpClient.layer)
    )
  )
  const verifier = Context.get(context, TokenVerifier)
  /** The user, or the reason of the failure. */
  const verify = (token: string) =>
    Effect.result(verifier.verify(Redacted.make(token))).pipe(
      Effect.map(Result.match({ onSuccess: ({ principal }) => principal.sub, onFailure: ({ _tag }) => _tag }))
    )
  const run = Effect.runPromiseWith(yield* Effect.context())
  const untilVerified = (token: string, expected: string) =>
    Effect.promise(() => eventually(() => run(verify(token)), (seen) => seen === expected))
  return {
    publish: (next: unknown, code = 200) => {
      answer = json(next, code)
    },
    cut: (next: boolean) => {
      isCut = next
    },
    requests: () => requests,
    verify,
    untilVerified,
    untilAsked: (count: number) => Effect.promise(() => eventually(async () => requests, (seen) => seen >= count))
  }
})

/** By default, `exp` is in the far future. */
const makeKey = Effect.fnUntraced(function*(kid?: string, alg: "ES256" | "RS256" = "ES256", modulusLength = 2048) {
  const { privateKey, publicKey } = yield* Effect.promise(() => jose.generateKeyPair(alg, { modulusLength }))
  const named = kid === undefined ? {} : { kid }
  const jwk = { ...yield* Effect.promise(() => jose.exportJWK(publicKey)), ...named }
  const sign = (sub: string, exp = 4_000_000_000) =>
    Effect.promise(() =>
      new jose.SignJWT().setProtectedHeader({ alg, ...named }).setSubject(sub).setExpirationTime(exp).sign(privateKey)
    )
  return { jwk, sign }
})

describe("a JWKS URL", () => {
  it.effect("provides keys by kid, or all candidates without one", () =>
    Effect.gen(function*() {
      const [one, bare, other] = [yield* makeKey("1"), yield* makeKey(), yield* makeKey()]
      const { requests, verify } = yield* makeKit({ keys: [one.jwk, bare.jwk, other.jwk] })
      assert.strictEqual(yield* verify(yield* one.sign("ann")), "ann")
      assert.strictEqual(yield* verify(yield* other.sign("bob")), "bob")
      assert.strictEqual(yield* verify(yield* (yield* makeKey()).sign("eve")), "InvalidToken")
      assert.strictEqual(requests(), 1)
    }))

  it.effect("is requested once per cooldown for unknown keys, whose tokens are invalid while its last response was a key set", () =>
    Effect.gen(function*() {
      const [one, two, garbage] = [yield* makeKey("1"), yield* makeKey("2"), yield* makeKey("garbage")]
      const { publish, requests, verify } = yield* makeKit({ keys: [one.jwk] })
      assert.strictEqual(yield* verify(yield* one.sign("ann")), "ann")
      assert.strictEqual(requests(), 1)
      // The set that was fetched for this token lacks its key.
      assert.strictEqual(yield* verify(yield* garbage.sign("eve")), "InvalidToken")
      assert.strictEqual(requests(), 2)
      publish({ keys: [one.jwk, two.jwk] })
      const token = yield* two.sign("cat")
      for (let count = 0; count < 20; count++) {
        assert.strictEqual(yield* verify(yield* garbage.sign(`eve-${count}`)), "InvalidToken")
        assert.strictEqual(yield* verify(token), "InvalidToken")
      }
      assert.strictEqual(yield* verify(yield* one.sign("dan")), "dan")
      assert.strictEqual(requests(), 2)
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual(yield* verify(token), "cat")
      assert.strictEqual(requests(), 3)
    }))

  it.effect("finds a rotated key within a cooldown, even with a forged token at the end of each", () =>
    Effect.gen(function*() {
      const [one, two, garbage] = [yield* makeKey("1"), yield* makeKey("2"), yield* makeKey("garbage")]
      const { publish, requests, verify } = yield* makeKit({ keys: [one.jwk] })
      assert.strictEqual(yield* verify(yield* one.sign("ann")), "ann")
      for (let count = 0; count < 3; count++) {
        assert.strictEqual(yield* verify(yield* garbage.sign(`eve-${count}`)), "InvalidToken")
        // The regular refresh, each minute, may have come first.
        yield* TestClock.adjust("30 seconds")
      }
      publish({ keys: [one.jwk, two.jwk] })
      const before = requests()
      assert.strictEqual(yield* verify(yield* garbage.sign("eve")), "InvalidToken")
      assert.strictEqual(requests(), before + 1)
      assert.strictEqual(yield* verify(yield* two.sign("cat")), "cat")
    }))

  it.effect("invalidates all tokens of a withdrawn key within a minute, cached tokens included", () =>
    Effect.gen(function*() {
      const [one, two] = [yield* makeKey("1"), yield* makeKey("2")]
      const { publish, requests, untilAsked, untilVerified, verify } = yield* makeKit({ keys: [one.jwk, two.jwk] })
      const [withdrawn, staying] = [yield* one.sign("ann"), yield* two.sign("bob")]
      assert.strictEqual(yield* verify(withdrawn), "ann")
      assert.strictEqual(yield* verify(staying), "bob")
      publish({ keys: [two.jwk] })
      yield* TestClock.adjust("59 seconds")
      assert.strictEqual(yield* verify(withdrawn), "ann")
      yield* TestClock.adjust("1 second")
      yield* untilAsked(2)
      yield* untilVerified(withdrawn, "InvalidToken")
      assert.strictEqual(yield* verify(staying), "bob")
      // Only the request that looked up the withdrawn key.
      assert.strictEqual(requests(), 3)
    }))

  it.effect("is not requested for a token that is invalid regardless of its key", () =>
    Effect.gen(function*() {
      const [one, gone] = [yield* makeKey("1"), yield* makeKey("gone")]
      yield* TestClock.setTime(1_800_000_000_000)
      const { requests, verify } = yield* makeKit({ keys: [one.jwk] })
      assert.strictEqual(yield* verify(yield* one.sign("ann")), "ann")
      const before = requests()
      for (let count = 0; count < 3; count++) {
        assert.strictEqual(yield* verify(yield* gone.sign("ann", 1_799_999_999 - count)), "InvalidToken")
        assert.strictEqual(yield* verify(yield* gone.sign("", 4_000_000_000 + count)), "InvalidToken")
      }
      assert.strictEqual(requests(), before)
    }))

  it.effect("keeps its keys valid for a day of an outage, and no longer", () =>
    Effect.gen(function*() {
      const [known, unknown] = [yield* makeKey("1"), yield* makeKey("2")]
      const { cut, publish, requests, untilAsked, untilVerified, verify } = yield* makeKit({ keys: [known.jwk] })
      const old = yield* known.sign("ann")
      assert.strictEqual(yield* verify(old), "ann")
      const outages: ReadonlyArray<readonly [unknown, number]> = [
        [{}, 500],
        ["nonsense", 200],
        [{ keys: "none" }, 200],
        [{ keys: Array.from({ length: 101 }, () => known.jwk) }, 200],
        [{ keys: [], padding: "x".repeat(600_000) }, 200]
      ]
      for (const [answer, status] of outages) {
        publish(answer, status)
        const before = requests()
        yield* TestClock.adjust("1 minute")
        yield* untilAsked(before + 1)
        assert.strictEqual(yield* verify(yield* known.sign("bob")), "bob")
        const asked = requests()
        for (let count = 0; count < 20; count++) {
          assert.strictEqual(yield* verify(yield* unknown.sign(`eve-${count}`)), "TokenKeysUnavailable")
        }
        assert.isAtMost(requests() - asked, 1)
      }
      cut(true)
      yield* TestClock.adjust("23 hours")
      assert.strictEqual(yield* verify(old), "ann")
      assert.strictEqual(yield* verify(yield* known.sign("cat")), "cat")
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(yield* verify(old), "TokenKeysUnavailable")
      cut(false)
      publish({ keys: [known.jwk] })
      yield* TestClock.adjust("10 seconds")
      yield* untilVerified(old, "ann")
    }))

  it.effect("gives no verdict before its first response", () =>
    Effect.gen(function*() {
      const { requests, verify } = yield* makeKit({}, 503)
      const key = yield* makeKey("1")
      const token = yield* key.sign("ann")
      const answers = yield* Effect.forEach([1, 2, 3], () => verify(token), { concurrency: "unbounded" })
      assert.deepStrictEqual(answers, ["TokenKeysUnavailable", "TokenKeysUnavailable", "TokenKeysUnavailable"])
      assert.isAtMost(requests(), 2)
    }))

  it.effect("may contain keys that are too large, which are skipped", () =>
    Effect.gen(function*() {
      const [one, large] = [yield* makeKey("1"), yield* makeKey("large", "RS256", 2048)]
      const oversized = { ...large.jwk, n: `${large.jwk.n}${"A".repeat(2000)}` }
      const slow = { ...large.jwk, kid: "slow", e: large.jwk.n }
      const padded = { ...large.jwk, kid: "padded", x5c: ["x".repeat(20_000)] }
      const { verify } = yield* makeKit({ keys: [oversized, slow, padded, one.jwk, null, 7, []] })
      assert.strictEqual(yield* verify(yield* one.sign("ann")), "ann")
      assert.strictEqual(yield* verify(yield* large.sign("bob")), "InvalidToken")
    }))
})
