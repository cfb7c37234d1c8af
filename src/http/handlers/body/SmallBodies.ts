/**
 * Reads small bodies of an announced size, which nearly every request has: without a stream, and without a fiber for the timeout of
 * each. HTTP's framing ends such a body after the announced bytes.
 */
import { Context, Duration, Effect, Exit } from "effect"
import type { HttpServerRequest } from "effect/http"
import { Timeouts } from "../../../services/timing/Timeouts.ts"
import * as Worker from "../../../services/timing/Worker.ts"
import { invalid, RequestTimeout, type ValidationFailed } from "../../contract/Errors.ts"

export const tooSlow = new RequestTimeout({ message: "The request body did not arrive in time." })
export const unreadable = invalid("body", "The body could not be read")

/** Interval between the checks for bodies that are late. */
const checkInterval = Duration.millis(250)

/**
 * Reads the whole body of a request that has a socket. Calls `onEnd` with the bytes, or with undefined when the body was cut off.
 * Returns false for other requests.
 */
export const SocketBodies = Context.Reference<
  (source: object, onEnd: (bytes: Uint8Array | undefined) => void) => boolean
>("async-task-service/http/handlers/SocketBodies", { defaultValue: () => () => false })

interface Awaited {
  /** Checks until the body is late. */
  left: number
  readonly refuse: () => void
}

/** Returns a function that reads a body of `announced` bytes. Others may use the buffer of the bytes too. */
export const make = Effect.gen(function*() {
  const { jsonBody, jsonBytesPerSecond } = yield* Timeouts
  const readSocket = yield* SocketBodies
  const fork = Effect.runForkWith(yield* Effect.context())
  const awaited = new Set<Awaited>()
  yield* Worker.make({
    name: "the check for late request bodies",
    runOnce: Effect.sync(() => {
      for (const body of awaited) if (--body.left < 0) body.refuse()
    }),
    interval: checkInterval
  })
  const checks = (announced: number) =>
    Math.ceil((Duration.toMillis(jsonBody) + 1000 * announced / jsonBytesPerSecond) / Duration.toMillis(checkInterval))

  return (request: HttpServerRequest.HttpServerRequest, announced: number) =>
    Effect.callback<Uint8Array, RequestTimeout | ValidationFailed>((resume) => {
      const end = (result: Effect.Effect<Uint8Array, RequestTimeout | ValidationFailed>) => {
        awaited.delete(body)
        resume(result)
      }
      const body: Awaited = { left: checks(announced), refuse: () => end(Effect.fail(tooSlow)) }
      awaited.add(body)
      const onEnd = (bytes: Uint8Array | undefined) =>
        end(bytes === undefined ? Effect.fail(unreadable) : Effect.succeed(bytes))
      if (!readSocket(request.source, onEnd)) {
        fork(request.arrayBuffer).addObserver((exit) =>
          onEnd(Exit.isSuccess(exit) ? new Uint8Array(exit.value) : undefined)
        )
      }
      return Effect.sync(() => awaited.delete(body))
    })
})
