/** The `Idempotency-Key` of a request, and the fingerprint that distinguishes it from other requests with the same key. */
import { Effect } from "effect"
import { Digest } from "effect/crypto"
import { HttpServerResponse } from "effect/http"
import { concat } from "../../domain/json/OpaqueJson.ts"
import { isSpace } from "../../domain/json/tables.ts"
import * as Limits from "../../domain/Limits.ts"
import { IdempotencyKeyReused } from "../../domain/TaskErrors.ts"
import type { RequestKey } from "../../services/store/tasks/TaskStore.ts"
import { invalid, type ValidationFailed } from "../contract/Errors.ts"
import { canonicalPath } from "../Routes.ts"

const header = "Idempotency-Key"

const visibleAscii = new RegExp(`^[\\x21-\\x7e]{1,${Limits.idempotencyKeyLength}}$`)

export const reused = invalid(header, new IdempotencyKeyReused({}).message, "idempotency_key_reused")
const malformed = invalid(header, `Expected 1 to ${Limits.idempotencyKeyLength} visible ASCII characters`)

const encoder = new TextEncoder()

/** Bytes that are compacted without a pause. */
const pieceBytes = 1024 * 1024

/** Copies valid JSON without the white space between its tokens, which does not distinguish requests. */
const compact = Effect.fnUntraced(function*(bytes: Uint8Array) {
  const tokens = new Uint8Array(bytes.length)
  let size = 0
  let isText = false
  for (let from = 0; from < bytes.length; from += pieceBytes) {
    if (from > 0) yield* Effect.yieldNow
    const end = Math.min(bytes.length, from + pieceBytes)
    for (let index = from; index < end; index++) {
      const byte = bytes[index]!
      if (byte === 0x22) isText = !isText || isEscaped(bytes, index)
      if (isText || isSpace[byte] === 0) tokens[size++] = byte
    }
  }
  return tokens.subarray(0, size)
})

/** True if an odd number of backslashes is in front of a byte. */
const isEscaped = (bytes: Uint8Array, index: number): boolean => {
  let first = index
  while (bytes[first - 1] === 0x5c) first--
  return ((index - first) & 1) === 1
}

/** SHA-256 of the operation, as in `POST /api/tasks`, and of the tokens of the body, which may be empty. */
export const fingerprintOf = (digest: Digest.Digest["Service"], operation: string, body: Uint8Array) =>
  Effect.flatMap(
    compact(body),
    (tokens) => Effect.orDie(digest.digestHex(Digest.sha256, concat([encoder.encode(`${operation}\n`), tokens])))
  )

/**
 * Returns a function that makes the key of a request from the value that it gives, undefined without one. RPC calls have the method and path
 * of the equivalent REST operation.
 */
export const makeKeyOf = Effect.map(
  Digest.Digest,
  (digest) =>
  (
    value: string | undefined,
    method: string,
    path: string,
    body: Uint8Array
  ): Effect.Effect<RequestKey | undefined, ValidationFailed> => {
    if (value === undefined) return Effect.undefined
    if (!visibleAscii.test(value)) return Effect.fail(malformed)
    return Effect.map(
      fingerprintOf(digest, `${method} ${canonicalPath(path)}`, body),
      (fingerprint) => ({ value, fingerprint })
    )
  }
)

/** Marks the response as a repetition of the first request's response. */
export const markReplay = (isReplay: boolean) => (response: HttpServerResponse.HttpServerResponse) =>
  isReplay ? HttpServerResponse.setHeader(response, "idempotent-replayed", "true") : response
