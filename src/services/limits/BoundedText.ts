/** Reads the text of an HTTP response up to a bound, so that no other system can make us hold an endless one. */
import { Effect, Schema, Stream } from "effect"
import type { HttpClientResponse } from "effect/http"

/** The response is longer than the bound. */
export class ResponseTooLong extends Schema.TaggedError<ResponseTooLong>()("ResponseTooLong", {}) {}

/** The whole text, of `maxBytes` at most. It is read as a stream, so that giving up closes the response. */
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
