import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Option, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { Socket } from "node:net"
import * as AdmissionGate from "../../../src/runtime/postgres/AdmissionGate.ts"
import { monitor, whileAnswering } from "../../../src/runtime/postgres/DatabaseMonitor.ts"
import { eventually } from "../../kit/Service.ts"

/** Starts a statement that never ends, beside connections whose received bytes the test sets. */
const start = Effect.gen(function*() {
  const bytes = { received: 0 }
  const fiber = yield* Effect.forkChild(Effect.exit(whileAnswering(Effect.never, () => bytes.received)))
  return { bytes, fiber }
})

describe("a statement to a database", () => {
  it.effect("fails after half a second of silence", () =>
    Effect.gen(function*() {
      const { fiber } = yield* start
      yield* TestClock.adjust("499 millis")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.strictEqual((yield* Fiber.join(fiber))._tag, "Failure")
    }))

  it.effect("fails half a second after the last byte that another connection received", () =>
    Effect.gen(function*() {
      const { bytes, fiber } = yield* start
      yield* TestClock.adjust("150 millis")
      bytes.received++
      yield* TestClock.adjust("500 millis")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("50 millis")
      assert.strictEqual((yield* Fiber.join(fiber))._tag, "Failure")
    }))

  it.effect("ends without a result after two seconds while other connections receive something", () =>
    Effect.gen(function*() {
      const { bytes, fiber } = yield* start
      for (let step = 0; step < 20; step++) {
        assert.isUndefined(fiber.pollUnsafe())
        bytes.received++
        yield* TestClock.adjust("100 millis")
      }
      assert.deepStrictEqual(yield* Effect.flatten(Fiber.join(fiber)), Option.none())
    }))
})

describe("a connection that fails before the server has sent anything", () => {
  it.live.each(["ECONNREFUSED", "EPERM", "EPIPE"])(
    "makes the database unavailable: %s",
    (code) =>
      Effect.gen(function*() {
        let rotations = 0
        const open = () => {
          const socket = new Socket()
          process.nextTick(() => socket.destroy(Object.assign(new Error(`connect ${code}`), { code })))
          return socket
        }
        const gate = yield* AdmissionGate.make(1)
        const sockets = {
          open,
          openUnguarded: open,
          refuse: () => {},
          allow: () => {},
          rotate: () => void rotations++,
          received: () => 0
        }
        const options = { host: "unused", username: "a", password: Redacted.make("a"), database: "a" }
        const { problem } = yield* monitor(options, sockets, gate)
        yield* Effect.promise(() => eventually(async () => problem(), (found) => found !== null, 3000))
        assert.strictEqual(problem(), "does not answer")
        assert.isAbove(rotations, 0)
      })
  )
})
