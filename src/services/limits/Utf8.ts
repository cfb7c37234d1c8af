/** Text to bytes. What is large has turns of the event loop of its own: each pass over 16 MiB takes some ten milliseconds. */
import { Effect } from "effect"

const encoder = new TextEncoder()

/** Characters. */
const large = 1024 * 1024

export const encode = (text: string): Effect.Effect<Uint8Array> => {
  const encoding = Effect.sync(() => encoder.encode(text))
  return text.length < large ? encoding : Effect.ensuring(Effect.andThen(Effect.yieldNow, encoding), Effect.yieldNow)
}

/** As `encode`, of a text that may be absent. */
export const encodeNullish = (text: string | null | undefined): Effect.Effect<Uint8Array | null> =>
  text === null || text === undefined ? Effect.succeed(null) : encode(text)
