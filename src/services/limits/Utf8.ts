/** Encodes text as UTF-8. A large text gets its own turn of the event loop: 16 MiB take about ten milliseconds. */
import { Effect } from "effect"

const encoder = new TextEncoder()

/** Characters. */
const large = 1024 * 1024

export const encode = (text: string): Effect.Effect<Uint8Array> => {
  const encoding = Effect.sync(() => encoder.encode(text))
  return text.length < large ? encoding : Effect.ensuring(Effect.andThen(Effect.yieldNow, encoding), Effect.yieldNow)
}
