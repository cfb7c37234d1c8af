import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Fiber, Logger } from "effect"
import { SqlError } from "effect/sql"
import { TestClock } from "effect/testing"
import { StoreUnavailable } from "../../../src/domain/StoreUnavailable.ts"
import { logFault, retryForever } from "../../../src/services/timing/Retry.ts"

/** Repeats a statement that fails until `isMended` is set, and records its log lines above the level of debugging. */
const makeWorld = () => {
  const state = { isMended: false, tries: 0, lines: [] as Array<string> }
  const logger = Logger.make(({ logLevel, message }) => {
    if (logLevel !== "Debug") state.lines.push(`${logLevel} ${String(message)}`)
  })
  const start = (failure: Effect.Effect<never, StoreUnavailable>) =>
    Effect.forkChild(
      retryForever(Effect.suspend(() => {
        state.tries++
        return state.isMended ? Effect.succeed("done") : failure
      })).pipe(Effect.provide(Logger.layer([logger]))),
      { startImmediately: true }
    )
  return { state, start }
}

describe("a statement that is retried", () => {
  it.effect("is sent every two seconds during an outage, without a line", () =>
    Effect.gen(function*() {
      const { start, state } = makeWorld()
      const fiber = yield* start(Effect.fail(new StoreUnavailable({ cause: "away" })))
      yield* TestClock.adjust("1 hour")
      assert.isAtLeast(state.tries, 1800)
      assert.deepStrictEqual(state.lines, [])
      state.isMended = true
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(yield* Fiber.join(fiber), "done")
    }))

  it.effect("is sent once a minute while it fails by a defect, with an error at powers of two, and goes on when it is mended", () =>
    Effect.gen(function*() {
      const { start, state } = makeWorld()
      const fiber = yield* start(Effect.die("a row cannot be read"))
      yield* TestClock.adjust("24 hours")
      assert.isBelow(state.tries, 1500)
      assert.lengthOf(state.lines, 11)
      assert.isTrue(state.lines.every((line) => line.startsWith("Error a statement failed by a defect")))
      state.isMended = true
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* Fiber.join(fiber), "done")
    }))

  it.effect("ends when it is interrupted", () =>
    Effect.gen(function*() {
      const { start, state } = makeWorld()
      const fiber = yield* start(Effect.fail(new StoreUnavailable({ cause: "away" })))
      yield* Fiber.interrupt(fiber)
      const { tries } = state
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(state.tries, tries)
    }))
})

it.effect("a statement of a background loop that takes too long is a warning, an outage is not", () => {
  const lines: Array<string> = []
  const logger = Logger.make(({ logLevel, message }) => {
    if (logLevel !== "Debug") lines.push(`${logLevel} ${String(message).slice(0, 10)}`)
  })
  const log = (cause: unknown) => logFault("the upkeep")(Cause.fail(new StoreUnavailable({ cause })))
  const timeout = new SqlError.StatementTimeoutError({
    cause: new Error("canceling statement due to statement timeout")
  })
  return Effect.gen(function*() {
    yield* log(new SqlError.SqlError({ reason: timeout }))
    yield* log(new SqlError.SqlError({ reason: new SqlError.ConnectionError({ cause: new Error("away") }) }))
    assert.deepStrictEqual(lines, ["Warn the upkeep"])
  }).pipe(Effect.provide(Logger.layer([logger])))
})
