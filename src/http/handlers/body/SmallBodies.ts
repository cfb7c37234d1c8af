/**
 * Reads small bodies of an announced size, which nearly every request has: without a stream, whose objects take about 10 kB, and without
 * a fiber for the timeout of each. HTTP's framing ends such a body after the announced bytes.
 */
import { Duration, Effect, Predicate } from "effect"
import type { HttpServerRequest } from "effect/http"
import { smallText } from "../../../domain/Limits.ts"
import { Timeouts } from "../../../services/timing/Intervals.ts"
import * as Timers from "../../../services/timing/Timers.ts"
import { invalid, RequestTimeout, type ValidationFailed } from "../../contract/Errors.ts"

/** True if a body of `announced` bytes is read here. The general way also answers `Expect: 100-continue`, and bounds chunked bodies. */
export const isSmall = ({ headers }: HttpServerRequest.HttpServerRequest, announced: number): boolean =>
  announced <= smallText && headers["content-length"] !== undefined && headers["expect"] === undefined

export const tooSlow = new RequestTimeout({ message: "The request body did not arrive in time." })
export const unreadable = invalid("body", "The body could not be read")

const none: Uint8Array = new Uint8Array(0)

/** Node's request. One of this process is a web `Request`. */
interface Incoming {
  readonly destroyed: boolean
  readonly on: (event: "data", listener: (chunk: Uint8Array) => void) => unknown
  readonly once: (event: "end" | "close", listener: () => void) => unknown
}

const isIncoming = (source: object): source is Incoming =>
  Predicate.hasProperty(source, "once") && Predicate.hasProperty(source, "destroyed")

/** Returns a function that reads a body of `announced` bytes. Others may use the buffer of the bytes too. */
export const make = Effect.gen(function*() {
  const { jsonBody, jsonBytesPerSecond } = yield* Timeouts
  const awaited = yield* Timers.makeTimeouts("the timeout of request bodies")
  const timeout = (announced: number) => Duration.toMillis(jsonBody) + 1000 * announced / jsonBytesPerSecond

  const readInTime = (source: Incoming, announced: number) =>
    Effect.callback<Uint8Array, RequestTimeout | ValidationFailed>((resume) => {
      if (source.destroyed) return resume(Effect.fail(unreadable))
      let bytes = none
      const leave = awaited.begin(timeout(announced), () => resume(Effect.fail(tooSlow)))
      const end = (outcome: Effect.Effect<Uint8Array, ValidationFailed>) => {
        leave()
        resume(outcome)
      }
      source.on("data", (chunk) => {
        bytes = bytes === none ? chunk : Buffer.concat([bytes, chunk])
      })
      source.once("end", () => end(Effect.succeed(bytes)))
      // After the end it means nothing: the body was read.
      source.once("close", () => end(Effect.fail(unreadable)))
      return Effect.sync(leave)
    })

  return (request: HttpServerRequest.HttpServerRequest, announced: number) =>
    isIncoming(request.source)
      ? readInTime(request.source, announced)
      // The body of a request of this process is there already.
      : Effect.mapBoth(request.arrayBuffer, {
        onSuccess: (buffer): Uint8Array => new Uint8Array(buffer),
        onFailure: () => unreadable
      })
})
