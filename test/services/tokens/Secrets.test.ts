import { assert, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Redacted } from "effect"
import { Aead, SecureRandom } from "effect/crypto"
import { createCipheriv, createHash } from "node:crypto"
import * as NodeCrypto from "../../../src/runtime/node/NodeCrypto.ts"
import { Secrets } from "../../../src/services/tokens/Secrets.ts"

const key = (byte: number) => Redacted.make(new Uint8Array(32).fill(byte))

const secretsOf = (layerAead: typeof NodeCrypto.layerAead, keys: Parameters<typeof Secrets.layer>[0]) =>
  Secrets.layer(keys).pipe(
    Layer.provide(layerAead),
    Layer.provide(SecureRandom.layerWebCrypto),
    Layer.build,
    Effect.map((context) => Context.get(context, Secrets))
  )

it.effect("what Node's cipher and WebCrypto seal, the other opens, also with a rotated key", () =>
  Effect.gen(function*() {
    const node = yield* secretsOf(NodeCrypto.layerAead, [key(1)])
    const web = yield* secretsOf(Aead.layerWebCrypto, [key(2), key(1)])
    const rotated = yield* secretsOf(NodeCrypto.layerAead, [key(3), key(2)])
    for (const text of ["", "a token", "\ufeffa secret", "Größe ✓".repeat(1000)]) {
      const byNode = yield* node.seal("user-token", Redacted.make(text))
      assert.match(byNode, /^v2\.[0-9a-f]{8}\.[\w-]{16}\.[\w-]+$/)
      assert.strictEqual(Redacted.value(yield* web.open("user-token", byNode)), text)
      assert.strictEqual(
        Redacted.value(yield* rotated.open("user-token", yield* web.seal("user-token", Redacted.make(text)))),
        text
      )
    }
  }))

it.effect("a sealed text that was changed or cut, or whose key is missing, is not opened", () =>
  Effect.gen(function*() {
    const { open, seal } = yield* secretsOf(NodeCrypto.layerAead, [key(1)])
    const sealed = yield* seal("user-token", Redacted.make("a token"))
    const [version, id, nonce, ciphertext = ""] = sealed.split(".")
    const changed = [
      [version, id, nonce, `${ciphertext[0] === "A" ? "B" : "A"}${ciphertext.slice(1)}`],
      [version, id, nonce, ciphertext.slice(4)],
      [version, id, nonce, ""],
      [version, "00000000", nonce, ciphertext],
      ["v1", id, nonce, ciphertext]
    ]
    for (const parts of changed) assert.isTrue(Exit.hasDies(yield* Effect.exit(open("user-token", parts.join(".")))))
    assert.strictEqual(Redacted.value(yield* open("user-token", sealed)), "a token")
  }))

it.effect("a sealed text opens for its purpose only", () =>
  Effect.gen(function*() {
    const { open, seal } = yield* secretsOf(NodeCrypto.layerAead, [key(1)])
    const purposes = ["callback-secret", "user-token", "operator-session"] as const
    for (const purpose of purposes) {
      const sealed = yield* seal(purpose, Redacted.make("a text"))
      assert.strictEqual(Redacted.value(yield* open(purpose, sealed)), "a text")
      for (const other of purposes.filter((one) => one !== purpose)) {
        for (const text of [sealed, sealed.replace("v2", "v1")]) {
          assert.isTrue(Exit.hasDies(yield* Effect.exit(open(other, text))), `${purpose} as ${other}`)
        }
      }
    }
  }))

it.effect("texts of tasks that were sealed without a purpose are opened, sessions are not", () =>
  Effect.gen(function*() {
    const { open } = yield* secretsOf(NodeCrypto.layerAead, [key(1)])
    const cipher = createCipheriv("aes-256-gcm", Redacted.value(key(1)), new Uint8Array(12))
    const ciphertext = Buffer.concat([cipher.update("a text"), cipher.final(), cipher.getAuthTag()])
    const id = createHash("sha256").update(Redacted.value(key(1))).digest("hex").slice(0, 8)
    const sealed = `v1.${id}.${"A".repeat(16)}.${ciphertext.toString("base64url")}`
    assert.strictEqual(Redacted.value(yield* open("user-token", sealed)), "a text")
    assert.strictEqual(Redacted.value(yield* open("callback-secret", sealed)), "a text")
    assert.isTrue(Exit.hasDies(yield* Effect.exit(open("operator-session", sealed))))
  }))
