/** Identifies a request for its `Idempotency-Key`. White space between the tokens of a JSON body does not count. */
import { Effect } from "effect"
import { Digest } from "effect/crypto"
import { concat } from "../../domain/json/OpaqueJson.ts"
import { isSpace } from "../../domain/json/tables.ts"

const encoder = new TextEncoder()

/** Bytes that are compacted without a pause. */
const pieceBytes = 1024 * 1024

/** Copies valid JSON without the white space between its tokens. */
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
