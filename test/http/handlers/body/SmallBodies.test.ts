import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Result } from "effect"
import { HttpServerRequest } from "effect/http"
import { TestClock } from "effect/testing"
import { PassThrough } from "node:stream"
import * as SmallBodies from "../../../../src/http/handlers/body/SmallBodies.ts"
import { Timeouts } from "../../../../src/services/timing/Intervals.ts"

const request = HttpServerRequest.fromWeb(new Request("http://localhost/", { method: "POST", body: "here" }))

/** Starts reading a body of 64 KiB from a socket. Returns the fiber and the socket. */
const start = Effect.gen(function*() {
  const read = yield* SmallBodies.make
  const source = new PassThrough()
  const incoming = Object.create(request, { source: { value: source } }) as HttpServerRequest.HttpServerRequest
  const reading = yield* Effect.forkChild(Effect.result(read(incoming, 64 * 1024)), { startImmediately: true })
  return { reading, source }
})

describe("SmallBodies", () => {
  it("leaves bodies of an unknown size to the reader that bounds them, whatever is allowed", () => {
    const announced = Object.create(request, { headers: { value: { "content-length": "4" } } })
    assert.isTrue(SmallBodies.isSmall(announced, 4))
    assert.isFalse(SmallBodies.isSmall(request, 4))
  })

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
      const { reading, source } = yield* start
      source.destroy()
      assert.include(yield* Fiber.join(reading), { _tag: "Failure", failure: SmallBodies.unreadable })
    }))

  it.effect("ignores what happens after the end of a body", () =>
    Effect.gen(function*() {
      const { reading, source } = yield* start
      source.write(new Uint8Array([1]))
      source.end(new Uint8Array([2]))
      const outcome = yield* Fiber.join(reading)
      yield* TestClock.adjust("1 minute")
      assert.isTrue(source.destroyed)
      assert.deepEqual(Result.getOrThrow(Result.map(outcome, (bytes) => [...bytes])), [1, 2])
    }))

  it.effect("reads the body of a request without a socket", () =>
    Effect.gen(function*() {
      const read = yield* SmallBodies.make
      assert.strictEqual(new TextDecoder().decode(yield* read(request, 4)), "here")
    }))
})
