/** Server-sent events: how they begin, and what keeps their connection open. */
import { Duration, Stream } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { encode } from "../../domain/json/OpaqueJson.ts"
import * as Limits from "../../domain/Limits.ts"

export const options = {
  contentType: "text/event-stream",
  headers: { "cache-control": "no-store", "x-accel-buffering": "no" }
}

/** A client whose connection broke comes back after so long. */
const reconnectAfter = Duration.seconds(2)
export const beginning = encode(`retry: ${Duration.toMillis(reconnectAfter)}\n\n`)

/** A comment, which clients ignore. */
export const comment = ": keep-alive\n\n"
export const idle = encode(comment)

export const keepAlive = <A>(frame: A) => Stream.map(Stream.drop(Stream.tick(Limits.keepAliveInterval), 1), () => frame)

export const withComments = <E, R>(events: Stream.Stream<Uint8Array, E, R>) =>
  Stream.merge(events, keepAlive(idle), { haltStrategy: "left" })

/** The bytes of a response: how it begins, and events with comments. */
export const begun = <E, R>(events: Stream.Stream<Uint8Array, E, R>) => Stream.concat(Stream.succeed(beginning), events)

export const respond = <E>(
  { method }: HttpServerRequest.HttpServerRequest,
  bytes: Stream.Stream<Uint8Array, E>
) => HttpServerResponse.stream(method === "HEAD" ? Stream.empty : bytes, options)
