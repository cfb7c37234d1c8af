import { assert, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Redacted } from "effect"
import { Aead, SecureRandom } from "effect/crypto"
import * as AesGcm from "../../../src/runtime/node/AesGcm.ts"
import { Secrets } from "../../../src/services/tokens/Secrets.ts"

const key = (byte: number) => Redacted.make(new Uint8Array(32).fill(byte))

const secretsOf = (layerAead: typeof AesGcm.layer, keys: Parameters<typeof Secrets.layer>[0]) =>
  Secrets.layer(keys).pipe(
    Layer.provide(layerAead),
    Layer.provide(SecureRandom.layerWebCrypto),
    Layer.build,
    Effect.map((context) => Context.get(context, Secrets))
  )

it.effect("what Node's cipher and WebCrypto seal, the other opens, also with a rotated key", () =>
  Effect.gen(function*() {
    const node = yield* secretsOf(AesGcm.layer, [key(1)])
    const web = yield* secretsOf(Aead.layerWebCrypto, [key(2), key(1)])
    const rotated = yield* secretsOf(AesGcm.layer, [key(3), key(2)])
    for (const text of ["", "a token", "Größe ✓".repeat(1000)]) {
      const byNode = yield* node.seal(Redacted.make(text))
      assert.match(byNode, /^v1\.[0-9a-f]{8}\.[\w-]{16}\.[\w-]+$/)
      assert.strictEqual(Redacted.value(yield* web.open(byNode)), text)
      assert.strictEqual(Redacted.value(yield* rotated.open(yield* web.seal(Redacted.make(text)))), text)
    }
  }))

it.effect("a sealed text that was changed or cut, or whose key is missing, is not opened", () =>
  Effect.gen(function*() {
    const { open, seal } = yield* secretsOf(AesGcm.layer, [key(1)])
    const sealed = yield* seal(Redacted.make("a token"))
    const [version, id, nonce, ciphertext = ""] = sealed.split(".")
    const changed = [
      [version, id, nonce, `${ciphertext[0] === "A" ? "B" : "A"}${ciphertext.slice(1)}`],
      [version, id, nonce, ciphertext.slice(4)],
      [version, id, nonce, ""],
      [version, "00000000", nonce, ciphertext]
    ]
    for (const parts of changed) assert.isTrue(Exit.hasDies(yield* Effect.exit(open(parts.join(".")))))
    assert.strictEqual(Redacted.value(yield* open(sealed)), "a token")
  }))
