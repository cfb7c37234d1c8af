/**
 * Encrypts secrets at rest with AES-256-GCM. The key id in the sealed text allows key rotation. The format is
 * `v2.<key id>.<nonce>.<ciphertext>`, with nonce and ciphertext in base64url. The purpose is associated data, so that no text that a
 * user gives opens as another kind. Texts of a task in the format `v1` were sealed without it, before a database was converted.
 */
import { Context, Effect, Layer, Redacted, Result } from "effect"
import { Aead, Digest, SecureRandom } from "effect/crypto"
import { Base64Url } from "effect/encoding"

const version = "v2"
/** Purposes for which a text may have been sealed as `v1`. */
const converted: ReadonlySet<string> = new Set(["callback-secret", "user-token"])
const nonceBytes = 12
const encoder = new TextEncoder()
const decoder = new TextDecoder("utf-8", { ignoreBOM: true })

const bytesOf = (text: string | undefined) => Result.getOrThrow(Base64Url.decode(text ?? ""))

export class Secrets extends Context.Service<Secrets, {
  /** Only `open` with the same `purpose`, such as `callback-secret`, returns the text again. */
  readonly seal: (purpose: string, text: Redacted.Redacted) => Effect.Effect<string>
  /** Dies when the text was sealed for another purpose, or its key is not configured any more. */
  readonly open: (purpose: string, sealed: string) => Effect.Effect<Redacted.Redacted>
}>()("async-task-service/services/tokens/Secrets") {
  /** The first key seals, all keys open. Each has 32 bytes. */
  static readonly layer = (keys: readonly [Redacted.Redacted<Uint8Array>, ...Array<Redacted.Redacted<Uint8Array>>]) =>
    Layer.effect(
      Secrets,
      Effect.gen(function*() {
        const aead = yield* Aead.Aead
        const digest = yield* Digest.Digest
        const random = yield* SecureRandom.SecureRandom

        const load = Effect.fnUntraced(function*(redacted: Redacted.Redacted<Uint8Array>) {
          const bytes = Redacted.value(redacted)
          const id = (yield* digest.digestHex(Digest.sha256, bytes)).slice(0, 8)
          return { id, key: yield* Effect.orDie(Aead.key(Aead.aes256Gcm, bytes)) }
        })
        const [first, ...rest] = keys
        const sealing = yield* load(first)
        const byId = new Map([sealing, ...(yield* Effect.forEach(rest, load))].map(({ id, key }) => [id, key]))

        return Secrets.of({
          seal: Effect.fnUntraced(function*(purpose, text) {
            const nonce = yield* random.randomBytes(nonceBytes)
            const sealed = yield* Effect.orDie(
              aead.encrypt(sealing.key, encoder.encode(Redacted.value(text)), { nonce, aad: encoder.encode(purpose) })
            )
            return [version, sealing.id, Base64Url.encode(nonce), Base64Url.encode(sealed)].join(".")
          }),
          open: (purpose, sealed) =>
            Effect.suspend(() => {
              const [format, id, nonce, ciphertext] = sealed.split(".")
              const aad = format === "v1" && converted.has(purpose) ? undefined : encoder.encode(purpose)
              const key = byId.get(id ?? "")
              if (key === undefined) return Effect.die(new Error(`no ENCRYPTION_KEY with the id ${id}`))
              return Effect.orDie(aead.decrypt(key, bytesOf(ciphertext), { nonce: bytesOf(nonce), aad }))
            }).pipe(Effect.map((opened) => Redacted.make(decoder.decode(opened))))
        })
      })
    ).pipe(
      Layer.provide(Digest.layerWebCrypto)
    )
}
