/**
 * What is signed of a webhook, and with which key: shared by the service and by receivers, so it imports nothing.
 * `X-Signature` signs the body; `webhook-signature` (Standard Webhooks) signs id, second and body.
 */

const prefix = "whsec_"
const encoder = new TextEncoder()

/** The key of `X-Signature`: the secret's text as it was given. */
export const bodyKey = (secret: string): Uint8Array<ArrayBuffer> => encoder.encode(secret)

/** The key of `webhook-signature`: what `whsec_` and base64 stand for; any other secret is its text. */
export const standardKey = (secret: string): Uint8Array<ArrayBuffer> => {
  if (!secret.startsWith(prefix)) return bodyKey(secret)
  try {
    const bytes = Uint8Array.from(atob(secret.slice(prefix.length)), (character) => character.charCodeAt(0))
    return bytes.length > 0 ? bytes : bodyKey(secret)
  } catch {
    return bodyKey(secret)
  }
}

/** What `webhook-signature` signs. `second` counts from 1970. */
export const standardContent = (id: string, second: string, body: Uint8Array): Uint8Array<ArrayBuffer> => {
  const head = encoder.encode(`${id}.${second}.`)
  const content = new Uint8Array(head.length + body.length)
  content.set(head)
  content.set(body, head.length)
  return content
}
