/**
 * Production refuses secrets that are easy to guess. The checks reject only patterns that no random value has; a secret that
 * passes is not proven to be strong.
 */
import { Redacted, Result } from "effect"
import { Base64 } from "effect/encoding"
import { commaList } from "./SettingValues.ts"

/** Minimum characters of each of INTERNAL_TOKENS and OPERATOR_READ_TOKENS. */
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

/** Whether the bytes repeat a sequence of at most 64 bytes. */
const isRepeated = (bytes: Uint8Array) => {
  for (let period = 1; period <= Math.min(64, bytes.length / 2); period++) {
    if (bytes.every((byte, index) => byte === bytes[index % period])) return true
  }
  return false
}

/** Whether half of the bytes differ from the previous byte by the same step, as in "abcdef". */
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

/** Problems of the configured secrets, for the operator. No message contains a secret. */
export const problemsOf = (env: Readonly<Record<string, string | undefined>>): ReadonlyArray<string> => {
  const problems: Array<string> = []
  for (const name of ["JWT_SECRET", "CORE_TOKEN"]) {
    if (env[name] !== undefined && isTrivialText(env[name])) problems.push(`${name}: ${trivial}`)
  }
  for (const name of ["INTERNAL_TOKENS", "OPERATOR_READ_TOKENS"]) {
    const tokens = commaList(env[name] ?? "")
    if (tokens.some((token) => token.length < minTokenLength)) {
      problems.push(`${name}: each must have ${minTokenLength} characters or more in production`)
    } else if (tokens.some(isTrivialText)) problems.push(`${name}: one of them ${trivial}`)
  }
  // Only the first key encrypts. The others decrypt old values until none are left.
  const [key = ""] = commaList(env["ENCRYPTION_KEY"] ?? "")
  const bytes = Result.getOrUndefined(Base64.decode(key))
  if (bytes?.length === 32 && isTrivial(bytes)) problems.push(`ENCRYPTION_KEY: ${trivial}`)
  return problems.length === 0 ? [] : [...problems, advice]
}
