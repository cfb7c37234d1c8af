/**
 * The signed content of a webhook and the signing keys. The service and receivers share this file, so it imports
 * nothing. `X-Signature` signs the body; `webhook-signature` (Standard Webhooks) signs id, timestamp and body.
 */

const prefix = "whsec_"
const encoder = new TextEncoder()

/** The key of `X-Signature`: the secret's text in UTF-8. */
export const bodyKey = (secret: string): Uint8Array<ArrayBuffer> => encoder.encode(secret)

/** The key of `webhook-signature`: the bytes of a `whsec_` secret decoded from base64, or else the secret's text. */
export const standardKey = (secret: string): Uint8Array<ArrayBuffer> => {
  if (!secret.startsWith(prefix)) return bodyKey(secret)
  try {
    const bytes = Uint8Array.from(atob(secret.slice(prefix.length)), (character) => character.charCodeAt(0))
    return bytes.length > 0 ? bytes : bodyKey(secret)
  } catch {
    return bodyKey(secret)
  }
}

/** The prefix of the signed content: `webhook-signature` signs it and the body. `second` is the Unix time in seconds. */
export const standardPrefix = (id: string, second: string): string => `${id}.${second}.`

/** The content that `webhook-signature` signs. */
export const standardContent = (id: string, second: string, body: Uint8Array): Uint8Array<ArrayBuffer> => {
  const head = encoder.encode(standardPrefix(id, second))
  const content = new Uint8Array(head.length + body.length)
  content.set(head)
  content.set(body, head.length)
  return content
}
