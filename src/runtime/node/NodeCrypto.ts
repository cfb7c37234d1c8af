/**
 * Cryptography of `node:crypto`, within the calling thread: WebCrypto uses a thread for each call, which costs more than the
 * encryption of a token.
 */
import { Layer } from "effect"
import { Aead, SecureRandom } from "effect/crypto"
import { createCipheriv, createDecipheriv, createHmac, randomFillSync } from "node:crypto"
import { HmacSha256 } from "../../services/webhooks/WebhookHeaders.ts"

const algorithm = "aes-256-gcm"
const authTagLength = 16

const aes256Gcm: Aead.Implementation = {
  encrypt: (key, nonce, plaintext, additional) => {
    const cipher = createCipheriv(algorithm, key, nonce, { authTagLength }).setAAD(additional)
    return Buffer.concat([cipher.update(plaintext), cipher.final(), cipher.getAuthTag()])
  },
  decrypt: (key, nonce, sealed, additional) => {
    const end = sealed.length - authTagLength
    const decipher = createDecipheriv(algorithm, key, nonce, { authTagLength }).setAAD(additional)
    try {
      const plaintext = decipher.setAuthTag(sealed.subarray(end)).update(sealed.subarray(0, end))
      // GCM is a stream cipher: the end only checks the tag.
      decipher.final()
      return plaintext
    } catch {
      // The tag is missing or does not match.
      return undefined
    }
  }
}

/** AES-256-GCM. Each task needs two calls. */
export const layerAead = Aead.layerWebCryptoWith({ implementations: { aes256Gcm } })

/** HMAC-SHA256 without copies of the content. */
export const layerHmac = Layer.succeed(HmacSha256, (key, content, encoding) => {
  const hmac = createHmac("sha256", key)
  for (const piece of content) hmac.update(piece)
  return hmac.digest(encoding)
})

const pageBytes = 4096

/** Random bytes, fetched one page at a time: a system call for each id is too slow. */
export const layerRandom = Layer.sync(SecureRandom.SecureRandom, () => {
  const page = new Uint8Array(pageBytes)
  let used = pageBytes
  return SecureRandom.make((size) => {
    if (size > pageBytes) return randomFillSync(new Uint8Array(size))
    if (used + size > pageBytes) {
      randomFillSync(page)
      used = 0
    }
    const bytes = page.slice(used, used + size)
    // Erase the returned bytes, so that a memory dump does not reveal them.
    page.fill(0, used, used + size)
    used += size
    return bytes
  })
})
