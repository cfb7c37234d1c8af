/**
 * AES-256-GCM of `node:crypto`, within the calling thread: WebCrypto uses a thread for each call, which costs more than the
 * encryption of a token. Each task needs two calls.
 */
import { Aead } from "effect/crypto"
import { createCipheriv, createDecipheriv } from "node:crypto"

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

export const layer = Aead.layerWebCryptoWith({ implementations: { aes256Gcm } })
