/** Server-sent events: how they begin, and what keeps their connection open. */
import { Duration, Stream } from "effect"
import { Sse } from "effect/encoding"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Limits from "../../domain/Limits.ts"

export const options = {
  contentType: "text/event-stream",
  headers: { "cache-control": "no-store", "x-accel-buffering": "no" }
}

/** A comment, which clients ignore. */
export const comment = ": keep-alive\n\n"

export const keepAlive = (text: string) => Stream.map(Stream.drop(Stream.tick(Limits.keepAliveInterval), 1), () => text)

/** A client connects again after this. */
export const beginning = Stream.succeed(
  Sse.encoder.write(new Sse.Retry({ duration: Duration.seconds(2), lastEventId: undefined }))
)

/** The bytes of events, which end with `events`. */
export const encode = <E, R>(events: Stream.Stream<string, E, R>) =>
  beginning.pipe(
    Stream.concat(events),
    Stream.merge(keepAlive(comment), { haltStrategy: "left" }),
    Stream.encodeText
  )

export const respond = <E>(
  { method }: HttpServerRequest.HttpServerRequest,
  bytes: Stream.Stream<Uint8Array, E>
) => HttpServerResponse.stream(method === "HEAD" ? Stream.empty : bytes, options)
