import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted, Result } from "effect"
import { FetchHttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import { createSecretKey, generateKeyPairSync, type KeyObject } from "node:crypto"
import * as TokenKeys from "../../../src/runtime/config/TokenKeys.ts"
import { TokenVerifier } from "../../../src/services/tokens/TokenVerifier.ts"
import { signed } from "../../kit/tokenAttacks.ts"

const secret = "a secret of the tests, long enough for HS256"
const sign = (claims: object) => signed({ alg: "HS256", key: secret }, { alg: "HS256" }, { sub: "ann", ...claims })

const make = (key: KeyObject | URL, algorithms: ReadonlyArray<string>) =>
  Effect.map(
    Layer.build(
      TokenVerifier.layer({
        keys: key instanceof URL ? key : [{ key, algorithms }],
        algorithms,
        issuer: undefined,
        audience: undefined
      }).pipe(
        Layer.provide(FetchHttpClient.layer)
      )
    ),
    (context) => {
      const { verify } = Context.get(context, TokenVerifier)
      /** The token's id, or the reason of its rejection. */
      return (token: string) =>
        Effect.map(
          Effect.result(verify(Redacted.make(token))),
          Result.match({
            onSuccess: ({ principal }) => principal.tokenId,
            onFailure: (error) => "reason" in error ? `not taken: ${error.reason}` : error._tag
          })
        )
    }
  )

const makeSecret = make(createSecretKey(secret, "utf8"), ["HS256"])

describe("a token", () => {
  it.effect("expires on time, also when it is cached, and is valid up to a minute early for clocks that are ahead", () =>
    Effect.gen(function*() {
      const verify = yield* makeSecret
      const now = 1_800_000_000
      yield* TestClock.setTime(now * 1000)
      const ending = sign({ exp: now + 100 })
      const fraction = sign({ exp: now + 99.5, jti: "fraction" })
      assert.match(yield* verify(ending), /^sha256:/)
      assert.strictEqual(yield* verify(fraction), "jti:fraction")
      assert.match(yield* verify(sign({ exp: now + 100, nbf: now + 60, iat: now + 60 })), /^sha256:/)
      assert.match(yield* verify(sign({ exp: now + 100, nbf: now + 61 })), /^not taken/)
      assert.strictEqual(yield* verify(sign({ exp: now })), "not taken: exp")
      yield* TestClock.adjust("99 seconds")
      yield* TestClock.adjust("499 millis")
      assert.strictEqual(yield* verify(fraction), "jti:fraction")
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* verify(fraction), "not taken: exp")
      assert.match(yield* verify(ending), /^sha256:/)
      yield* TestClock.adjust("500 millis")
      assert.strictEqual(yield* verify(ending), "not taken: exp")
    }))

  it.effect("has the same id for a revocation with every encoding of its signature", () =>
    Effect.gen(function*() {
      const verify = yield* makeSecret
      const token = sign({ exp: 4_000_000_000 })
      // The last two bits of the last character are unused.
      const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
      const last = alphabet.indexOf(token.at(-1) ?? "")
      const twins = [1, 2, 3].map((bits) => token.slice(0, -1) + alphabet[last ^ bits])
      const known = yield* verify(token)
      assert.match(known, /^sha256:/)
      for (const twin of [...twins, `${token}=`, `${token} `]) {
        const answer = yield* verify(twin)
        assert.isTrue(answer === known || answer.startsWith("not taken"), `${twin}: ${answer}`)
      }
    }))

  it.effect("with an algorithm that is not accepted is rejected without a request to the JWKS URL", () =>
    Effect.gen(function*() {
      const verify = yield* make(new URL("http://127.0.0.1:9/keys"), ["RS256"])
      for (const alg of ["none", "HS256", "ES256", "dir", "", null]) {
        assert.strictEqual(
          yield* verify(signed({ alg: "HS256", key: secret }, { alg }, { sub: "ann", exp: 4_000_000_000 })),
          "not taken: alg"
        )
      }
      const rs256 = signed({ alg: "HS256", key: secret }, { alg: "RS256" }, { sub: "ann", exp: 4_000_000_000 })
      assert.strictEqual(yield* verify(rs256), "TokenKeysUnavailable")
    }))
})

describe("a public key", () => {
  it("with too few bits, or of an unsupported type, fails the start with an error that names it", () => {
    const pemOf = ({ publicKey }: { readonly publicKey: KeyObject }) =>
      publicKey.export({ type: "spki", format: "pem" }) as string
    const load = (JWT_PUBLIC_KEY: string) => () => TokenKeys.rulesOf({ JWT_PUBLIC_KEY }, undefined)
    assert.throws(load(pemOf(generateKeyPairSync("rsa", { modulusLength: 1024 }))), /2048 bits/)
    assert.throws(load(pemOf(generateKeyPairSync("x25519"))), /no supported algorithm/)
    assert.doesNotThrow(load(pemOf(generateKeyPairSync("rsa", { modulusLength: 2048 }))))
  })
})
