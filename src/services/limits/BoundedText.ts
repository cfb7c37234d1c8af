/** Reads the text of an HTTP response up to a bound, so that no other system can exhaust our memory. */
import { Effect, Schema, Stream } from "effect"
import type { HttpClientResponse } from "effect/http"

/** The response is longer than the bound. */
class ResponseTooLong extends Schema.TaggedError<ResponseTooLong>()("ResponseTooLong", {}) {}

/** Reads the whole text of at most `maxBytes`, as a stream, so that a failure closes the response. */
export const read = (response: HttpClientResponse.HttpClientResponse, maxBytes: number) =>
  Stream.runFoldEffect(
    response.stream,
    (): { readonly size: number; readonly chunks: Array<Uint8Array> } => ({ size: 0, chunks: [] }),
    ({ chunks, size }, chunk) => {
      chunks.push(chunk)
      const total = size + chunk.length
      return total > maxBytes ? Effect.fail(new ResponseTooLong({})) : Effect.succeed({ size: total, chunks })
    }
  ).pipe(
    Effect.map(({ chunks }) => {
      const decoder = new TextDecoder()
      return chunks.map((chunk) => decoder.decode(chunk, { stream: true })).join("") + decoder.decode()
    })
  )
