/** Identifies a request for its `Idempotency-Key`. White space between the tokens of a JSON body does not count. */
import { Effect } from "effect"
import { Digest } from "effect/crypto"

const encoder = new TextEncoder()

/** SHA-256 of the operation, as in `POST /api/tasks`, and the parsed body, which is undefined if empty. */
export const fingerprintOf = (digest: Digest.Digest["Service"], operation: string, body: unknown) =>
  Effect.orDie(
    digest.digestHex(
      Digest.sha256,
      encoder.encode(`${operation}\n${body === undefined ? "" : JSON.stringify(body)}`)
    )
  )
