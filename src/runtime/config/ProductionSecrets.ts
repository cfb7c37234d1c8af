/**
 * Production refuses secrets that are easy to guess. The checks reject only patterns that no random value has; a secret that
 * passes is not proven to be strong.
 */
import { Redacted, Result } from "effect"
import { Base64 } from "effect/encoding"
import { commaList, type Environment, secretsOf, type Setting } from "../../services/settings/Setting.ts"

/** Minimum characters of each token of other services. */
const minTokenLength = 32

/** Printed with the names of weak secrets. */
const advice = "a good secret is what `openssl rand -base64 32` prints"

/** Decodes a key of 32 bytes in base64. */
export const encryptionKeyOf = (text: string): Redacted.Redacted<Uint8Array> => {
  const bytes = Result.getOrUndefined(Base64.decode(text))
  if (bytes?.length !== 32) throw new Error("must be 32 bytes in base64")
  return Redacted.make(bytes)
}

const placeholder =
  /change.?me|replace.?me|your.?(secret|token|key)|^(secret|password|token|test|default|example|admin)$/i

/** True if the bytes repeat a sequence of at most 64 bytes. */
const isRepeated = (bytes: Uint8Array) => {
  for (let period = 1; period <= Math.min(64, bytes.length / 2); period++) {
    if (bytes.every((byte, index) => byte === bytes[index % period])) return true
  }
  return false
}

/** True if half of the bytes differ from the previous byte by the same step, as in "abcdef". */
const isSequence = (bytes: Uint8Array) => {
  const steps = Array.from(bytes.subarray(1), (byte, index) => (byte - (bytes[index] ?? 0) + 256) % 256)
  const sizes = Object.values(Object.groupBy(steps, String)).map((same) => same?.length ?? 0)
  return bytes.length > 2 && Math.max(...sizes) >= bytes.length / 2
}

const isTrivial = (bytes: Uint8Array) =>
  new Set(bytes).size < Math.min(6, bytes.length / 4) || isRepeated(bytes) || isSequence(bytes) ||
  placeholder.test(String.fromCharCode(...bytes.subarray(0, 256)))

const encoder = new TextEncoder()
const isTrivialText = (text: string) => isTrivial(encoder.encode(text))

const trivial = "is trivial to guess"

/** Undefined when the secret is good. */
const problemOf = (kind: Setting<unknown>["secret"], text: string): string | undefined => {
  if (kind === undefined) return undefined
  switch (kind) {
    case "tokens": {
      const tokens = commaList(text)
      if (tokens.some((token) => token.length < minTokenLength)) {
        return `each must have ${minTokenLength} characters or more in production`
      }
      return tokens.some(isTrivialText) ? `one of them ${trivial}` : undefined
    }
    case "keys": {
      // Only the first key encrypts. The others decrypt old values until none are left.
      const bytes = Result.getOrUndefined(Base64.decode(commaList(text)[0] ?? ""))
      return bytes?.length === 32 && isTrivial(bytes) ? trivial : undefined
    }
    default:
      return secretsOf(kind, text).some(isTrivialText) ? trivial : undefined
  }
}

/** Problems of the configured secrets, for the operator. No message contains a secret. */
export const problemsOf = (settings: ReadonlyArray<Setting<unknown>>, env: Environment): ReadonlyArray<string> => {
  const problems = settings.flatMap(({ name, secret }) => {
    const problem = env[name] === undefined ? undefined : problemOf(secret, env[name])
    return problem === undefined ? [] : [`${name}: ${problem}`]
  })
  return problems.length === 0 ? [] : [...problems, advice]
}
