/**
 * Reads small bodies of an announced size, which nearly every request has: without a stream, and without a fiber for the timeout of
 * each. HTTP's framing ends such a body after the announced bytes.
 */
import { Context, Duration, Effect, Latch } from "effect"
import type { HttpServerRequest } from "effect/http"
import { Timeouts } from "../../../services/timing/Timeouts.ts"
import * as Worker from "../../../services/timing/Worker.ts"
import { invalid, RequestTimeout, type ValidationFailed } from "../../contract/Errors.ts"

export const smallBytes = 64 * 1024

/** Whether a body of `announced` bytes is read here. The general way also answers `Expect: 100-continue`. */
export const isSmall = ({ headers }: HttpServerRequest.HttpServerRequest, announced: number): boolean =>
  announced <= smallBytes && headers["expect"] === undefined

export const tooSlow = new RequestTimeout({ message: "The request body did not arrive in time." })
export const unreadable = invalid("body", "The body could not be read")

/** Interval between the checks for bodies that are late, while any is awaited. */
const checkInterval = Duration.millis(250)

/** Calls `onEnd` with all bytes of a body, or with undefined when it was cut off. */
type Read = (onEnd: (bytes: Uint8Array | undefined) => void) => void

/** Returns how to read the body of a request that has a socket, and undefined for other requests. */
export const SocketBodies = Context.Reference<(source: object) => Read | undefined>(
  "async-task-service/http/handlers/SocketBodies",
  { defaultValue: () => () => undefined }
)

interface Awaited {
  /** Checks until the body is late. */
  left: number
  readonly refuse: () => void
}

/** Returns a function that reads a body of `announced` bytes. Others may use the buffer of the bytes too. */
export const make = Effect.gen(function*() {
  const { jsonBody, jsonBytesPerSecond } = yield* Timeouts
  const readSocket = yield* SocketBodies
  const awaited = new Set<Awaited>()
  const wake = Latch.makeUnsafe()
  let isIdle = false
  yield* Worker.make({
    name: "the check for late request bodies",
    runOnce: Effect.sync(() => {
      for (const body of awaited) if (--body.left < 0) body.refuse()
    }),
    interval: Effect.sync(() => {
      isIdle = awaited.size === 0
      return isIdle ? Duration.infinity : checkInterval
    }),
    wake
  })
  const add = (body: Awaited) => {
    awaited.add(body)
    if (isIdle) wake.openUnsafe()
    isIdle = false
  }
  const checksPerSecond = 1 / Duration.toSeconds(checkInterval)
  const seconds = Duration.toSeconds(jsonBody)
  const checks = (announced: number) => Math.ceil((seconds + announced / jsonBytesPerSecond) * checksPerSecond)

  const readInTime = (read: Read, announced: number) =>
    Effect.callback<Uint8Array, RequestTimeout | ValidationFailed>((resume) => {
      const end = (result: Effect.Effect<Uint8Array, RequestTimeout | ValidationFailed>) => {
        awaited.delete(body)
        resume(result)
      }
      const body: Awaited = { left: checks(announced), refuse: () => end(Effect.fail(tooSlow)) }
      add(body)
      read((bytes) => end(bytes === undefined ? Effect.fail(unreadable) : Effect.succeed(bytes)))
      return Effect.sync(() => awaited.delete(body))
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
