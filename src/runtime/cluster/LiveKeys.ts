/** The tokens by which the nodes of a cluster know each other: derived from ENCRYPTION_KEY, which all of them have. */
import { Redacted } from "effect"
import { hkdfSync } from "node:crypto"

/** No other use of the key derives the same. */
const purpose = "async-task-service/internal/live"

/** One for each key. Nodes accept all of theirs, while keys are rotated, and send the first. */
export const tokensOf = (keys: ReadonlyArray<Redacted.Redacted<Uint8Array>>): ReadonlyArray<Redacted.Redacted> =>
  keys.map((key) =>
    Redacted.make(Buffer.from(hkdfSync("sha256", Redacted.value(key), "", purpose, 32)).toString("base64url"))
  )

export const bearerOf = ([token]: ReadonlyArray<Redacted.Redacted>) =>
  `Bearer ${token === undefined ? "" : Redacted.value(token)}`
