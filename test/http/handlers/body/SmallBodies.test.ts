import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { HttpServerRequest } from "effect/http"
import { TestClock } from "effect/testing"
import * as SmallBodies from "../../../../src/http/handlers/body/SmallBodies.ts"
import { Timeouts } from "../../../../src/services/timing/Intervals.ts"

type OnEnd = (bytes: Uint8Array | undefined) => void

const request = HttpServerRequest.fromWeb(new Request("http://localhost/", { method: "POST", body: "here" }))

/** Starts reading a body of 64 KiB from a socket. Returns the fiber, and the function that ends the body. */
const start = Effect.gen(function*() {
  let end: OnEnd = () => {}
  const read = yield* Effect.provideService(SmallBodies.make, SmallBodies.SocketBodies, () => (onEnd) => {
    end = onEnd
  })
  const reading = yield* Effect.forkChild(Effect.result(read(request, 64 * 1024)), { startImmediately: true })
  return { reading, end: (bytes: Uint8Array | undefined) => end(bytes) }
})

describe("SmallBodies", () => {
  it.effect("refuses a body that is late, and not before", () =>
    Effect.gen(function*() {
      const { reading } = yield* start
      const { jsonBody } = yield* Timeouts
      yield* TestClock.adjust(jsonBody)
      assert.isUndefined(reading.pollUnsafe())
      // One second more for 64 KiB.
      yield* TestClock.adjust("1 second")
      assert.include(yield* Fiber.join(reading), { _tag: "Failure", failure: SmallBodies.tooSlow })
    }))

  it.effect("refuses a body that was cut off", () =>
    Effect.gen(function*() {
      const { end, reading } = yield* start
      end(undefined)
      assert.include(yield* Fiber.join(reading), { _tag: "Failure", failure: SmallBodies.unreadable })
    }))

  it.effect("ignores what happens after the end of a body", () =>
    Effect.gen(function*() {
      const { end, reading } = yield* start
      end(new Uint8Array([1]))
      end(undefined)
      yield* TestClock.adjust("1 minute")
      assert.deepInclude(yield* Fiber.join(reading), { _tag: "Success", success: new Uint8Array([1]) })
    }))

  it.effect("reads the body of a request without a socket", () =>
    Effect.gen(function*() {
      const read = yield* SmallBodies.make
      assert.strictEqual(new TextDecoder().decode(yield* read(request, 4)), "here")
    }))
})
