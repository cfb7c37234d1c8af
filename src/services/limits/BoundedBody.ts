/**
 * Reads bodies of HTTP responses up to a bound, so that no other system can exhaust our memory. A body that exceeds it is a failure
 * and closes the connection.
 */
import { Effect, Schema, Stream } from "effect"
import type { HttpClientError, HttpClientResponse } from "effect/http"
import { concat, fromJsonText, sizeOf, textOf } from "../../domain/json/OpaqueJson.ts"

/** The body is longer than `maxBytes`. */
class BodyTooLong extends Schema.TaggedError<BodyTooLong>()("BodyTooLong", { maxBytes: Schema.Int }) {}

/** Bytes. A smaller body whose size is announced needs no stream, because HTTP's framing ends it. */
const small = 64 * 1024

const announcedSize = ({ headers }: HttpClientResponse.HttpClientResponse) =>
  Number(headers["content-length"] ?? Infinity)

export const isSmall = (response: HttpClientResponse.HttpClientResponse): boolean => announcedSize(response) <= small

/** The bytes of a response, at most `maxBytes`. */
export const readBytes = (
  response: HttpClientResponse.HttpClientResponse,
  maxBytes: number
): Effect.Effect<Uint8Array, HttpClientError.HttpClientError | BodyTooLong> =>
  Effect.suspend(() => {
    if (announcedSize(response) <= Math.min(small, maxBytes)) {
      return Effect.map(response.arrayBuffer, (bytes) => new Uint8Array(bytes))
    }
    const read: Array<Uint8Array> = []
    let size = 0
    const reading = Stream.runForEachArray(response.stream, (chunks) => {
      read.push(...chunks)
      size += sizeOf(chunks)
      return size > maxBytes ? Effect.fail(new BodyTooLong({ maxBytes })) : Effect.void
    })
    return Effect.map(reading, () => concat(read))
  })

/** The text of a response, at most `maxBytes`. */
export const readText = (response: HttpClientResponse.HttpClientResponse, maxBytes: number) =>
  Effect.map(readBytes(response, maxBytes), textOf)

/** Reads JSON of at most `maxBytes`. */
export const jsonReader = <A, I>(schema: Schema.Codec<A, I>, maxBytes: number) => {
  const decode = Schema.decodeUnknownEffect(fromJsonText(schema))
  return (response: HttpClientResponse.HttpClientResponse) => Effect.flatMap(readText(response, maxBytes), decode)
}

/** The first `maxBytes` of a response as text; does not wait for the rest. */
export const readStart = (response: HttpClientResponse.HttpClientResponse, maxBytes: number) =>
  Effect.suspend(() => {
    let size = 0
    return response.stream.pipe(
      Stream.takeUntil((chunk) => (size += chunk.byteLength) >= maxBytes),
      Stream.runCollect,
      Effect.map((chunks) => textOf(concat(chunks).subarray(0, maxBytes)))
    )
  })
