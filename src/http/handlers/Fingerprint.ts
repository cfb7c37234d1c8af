/** What two requests have in common that are the same to a client: spaces between the parts of a body do not count. */
import { Effect } from "effect"
import { Digest } from "effect/crypto"

const encoder = new TextEncoder()

/** The fingerprint of a parsed body; undefined stands for an empty one. `operation` is as in `POST /api/tasks`. */
export const fingerprintOf = (digest: Digest.Digest["Service"], operation: string, body: unknown) =>
  Effect.orDie(
    digest.digestHex(
      Digest.sha256,
      encoder.encode(`${operation}\n${body === undefined ? "" : JSON.stringify(body)}`)
    )
  )
