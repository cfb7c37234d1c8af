import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted, Result } from "effect"
import { FetchHttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import * as jose from "jose"
import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { TokenVerifier } from "../../src/services/TokenVerifier.ts"

/** A JWKS URL that answers what it is told to, and a verifier of its tokens under TestClock. */
const makeKit = Effect.gen(function*() {
  let [answer, status, requests]: [unknown, number, number] = [{}, 200, 0]
  const server = createServer((_, response) => {
    requests += 1
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer))
  }).listen(0, "127.0.0.1")
  yield* Effect.promise(() => once(server, "listening"))
  yield* Effect.addFinalizer(() => Effect.sync(() => server.close()))
  const key = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  const context = yield* Layer.build(
    TokenVerifier.layer({ key, algorithms: ["ES256"], issuer: undefined, audience: undefined }).pipe(
      Layer.provide(FetchHttpClient.layer)
    )
  )
  const verifier = Context.get(context, TokenVerifier)
  return {
    publish: (next: unknown, code = 200) => {
      ;[answer, status] = [next, code]
    },
    requests: () => requests,
    /** The user, or why there is none. */
    verify: (token: Effect.Effect<string>) =>
      Effect.flatMap(token, (text) => Effect.result(verifier.verify(Redacted.make(text)))).pipe(
        Effect.map(Result.match({ onSuccess: ({ principal }) => principal.sub, onFailure: ({ _tag }) => _tag }))
      )
  }
})

const makeKey = Effect.fnUntraced(function*(kid?: string) {
  const { privateKey, publicKey } = yield* Effect.promise(() => jose.generateKeyPair("ES256"))
  const named = kid === undefined ? {} : { kid }
  const jwk = { ...yield* Effect.promise(() => jose.exportJWK(publicKey)), ...named }
  const sign = (sub: string) =>
    Effect.promise(() =>
      new jose.SignJWT().setProtectedHeader({ alg: "ES256", ...named }).setSubject(sub).setExpirationTime(4_000_000_000)
        .sign(privateKey)
    )
  return { jwk, sign }
})

describe("keys of a JWKS URL", () => {
  it.effect("are found by kid, by trying each, and after a rotation", () =>
    Effect.gen(function*() {
      const { publish, requests, verify } = yield* makeKit
      const [one, two, bare, other] = [yield* makeKey("1"), yield* makeKey("2"), yield* makeKey(), yield* makeKey()]
      publish({ keys: [one.jwk, bare.jwk, other.jwk] })
      assert.strictEqual(yield* verify(one.sign("ann")), "ann")
      assert.strictEqual(yield* verify(other.sign("bob")), "bob")
      assert.strictEqual(yield* verify((yield* makeKey()).sign("eve")), "InvalidToken")
      assert.strictEqual(requests(), 1)
      // Just fetched: a key that is not there is not theirs, and nothing is asked again before the cooldown is over.
      assert.strictEqual(yield* verify(two.sign("cat")), "InvalidToken")
      assert.strictEqual(requests(), 1)
      publish({ keys: [two.jwk] })
      yield* TestClock.adjust("31 seconds")
      assert.strictEqual(yield* verify(two.sign("cat")), "cat")
      assert.strictEqual(requests(), 2)
    }))

  it.effect("serve through an outage for a day; of others nothing is said, at one request per cooldown", () =>
    Effect.gen(function*() {
      const { publish, requests, verify } = yield* makeKit
      const [known, unknown] = [yield* makeKey("1"), yield* makeKey("2")]
      publish({ keys: [known.jwk] })
      assert.strictEqual(yield* verify(known.sign("ann")), "ann")
      const outages: ReadonlyArray<readonly [unknown, number]> = [[{}, 500], ["nonsense", 200], [{ keys: "none" }, 200]]
      for (const [answer, status] of outages) {
        publish(answer, status)
        yield* TestClock.adjust("1 hour")
        const before = requests()
        assert.strictEqual(yield* verify(known.sign("bob")), "bob")
        for (let count = 0; count < 20; count++) {
          assert.strictEqual(yield* verify(unknown.sign(`eve-${count}`)), "TokenKeysUnavailable")
        }
        assert.strictEqual(requests() - before, 1)
      }
      yield* TestClock.adjust("24 hours")
      assert.strictEqual(yield* verify(known.sign("cat")), "TokenKeysUnavailable")
      publish({ keys: [known.jwk] })
      yield* TestClock.adjust("31 seconds")
      assert.strictEqual(yield* verify(known.sign("dan")), "dan")
    }))

  it.effect("that were never had say nothing of any token", () =>
    Effect.gen(function*() {
      const { publish, requests, verify } = yield* makeKit
      publish({}, 503)
      const key = yield* makeKey("1")
      const answers = yield* Effect.forEach([1, 2, 3], () => verify(key.sign("ann")), { concurrency: "unbounded" })
      assert.deepStrictEqual(answers, ["TokenKeysUnavailable", "TokenKeysUnavailable", "TokenKeysUnavailable"])
      assert.strictEqual(requests(), 1)
    }))
})
