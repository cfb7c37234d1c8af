/**
 * Reads small bodies of an announced size, which nearly every request has: without a stream, and without a fiber for the timeout of
 * each. HTTP's framing ends such a body after the announced bytes.
 */
import { Context, Duration, Effect } from "effect"
import type { HttpServerRequest } from "effect/http"
import { Timeouts } from "../../../services/timing/Intervals.ts"
import * as Timers from "../../../services/timing/Timers.ts"
import { invalid, RequestTimeout, type ValidationFailed } from "../../contract/Errors.ts"

export const smallBytes = 64 * 1024

/** Whether a body of `announced` bytes is read here. The general way also answers `Expect: 100-continue`. */
export const isSmall = ({ headers }: HttpServerRequest.HttpServerRequest, announced: number): boolean =>
  announced <= smallBytes && headers["expect"] === undefined

export const tooSlow = new RequestTimeout({ message: "The request body did not arrive in time." })
export const unreadable = invalid("body", "The body could not be read")

/** Calls `onEnd` with all bytes of a body, or with undefined when it was cut off. */
type Read = (onEnd: (bytes: Uint8Array | undefined) => void) => void

/** Returns how to read the body of a request that has a socket, and undefined for other requests. */
export const SocketBodies = Context.Reference<(source: object) => Read | undefined>(
  "async-task-service/http/handlers/SocketBodies",
  { defaultValue: () => () => undefined }
)

/** Returns a function that reads a body of `announced` bytes. Others may use the buffer of the bytes too. */
export const make = Effect.gen(function*() {
  const { jsonBody, jsonBytesPerSecond } = yield* Timeouts
  const readSocket = yield* SocketBodies
  const awaited = yield* Timers.makeTimeouts("the timeout of request bodies")
  const timeout = (announced: number) => Duration.toMillis(jsonBody) + 1000 * announced / jsonBytesPerSecond

  const readInTime = (read: Read, announced: number) =>
    Effect.callback<Uint8Array, RequestTimeout | ValidationFailed>((resume) => {
      const end = awaited.begin(timeout(announced), () => resume(Effect.fail(tooSlow)))
      read((bytes) => {
        end()
        resume(bytes === undefined ? Effect.fail(unreadable) : Effect.succeed(bytes))
      })
      return Effect.sync(end)
    })

  return (request: HttpServerRequest.HttpServerRequest, announced: number) => {
    const read = readSocket(request.source)
    return read === undefined
      // The body of a request of this process is there already.
      ? Effect.mapBoth(request.arrayBuffer, {
        onSuccess: (buffer): Uint8Array => new Uint8Array(buffer),
        onFailure: () => unreadable
      })
      : readInTime(read, announced)
  }
})
