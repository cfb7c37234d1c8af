import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { SecureRandom } from "effect/crypto"
import { TestClock } from "effect/testing"
import * as SignsOfLife from "../../../../src/runtime/builtin/core/SignsOfLife.ts"

const run = { run_id: "r1" }

/** The signs of one run, by the ids of their events, with what the service answers. */
const make = Effect.gen(function*() {
  const state = { isRunning: true, isWanted: true, isAway: false }
  const given: Array<string> = []
  const stopped: Array<string> = []
  const signs = yield* SignsOfLife.make({
    report: ({ run_id }: typeof run, eventId) =>
      Effect.suspend(() => {
        given.push(`${run_id}/${eventId}`)
        return state.isAway ? Effect.fail("away") : Effect.succeed(state.isWanted)
      }),
    isRunning: () => state.isRunning,
    stop: (runId) => Effect.sync(() => void stopped.push(runId))
  })
  return { given, note: (type: Parameters<typeof signs.note>[1]) => signs.note(run, type), state, stopped }
}).pipe(Effect.provide(SecureRandom.layerWebCrypto))

describe("a run of the built-in core", () => {
  it.effect("gives three signs of life within its silence while it has nothing to report, each with its own id", () =>
    Effect.gen(function*() {
      const { given, note } = yield* make
      yield* TestClock.adjust("5 minutes")
      assert.lengthOf(given, 0)
      note("processing")
      for (let minute = 1; minute <= 10; minute++) {
        yield* TestClock.adjust(`${SignsOfLife.silenceSeconds} seconds`)
        assert.isAtLeast(given.length, 3 * minute)
      }
      assert.lengthOf(new Set(given), given.length)
      assert.isAtMost(given.length, 31)
    }))

  it.effect("gives none while it reports progress, and none after its last event or its end", () =>
    Effect.gen(function*() {
      const { given, note, state } = yield* make
      note("processing")
      for (let count = 0; count < 60; count++) {
        yield* TestClock.adjust("9 seconds")
        note("progress")
      }
      assert.lengthOf(given, 0)
      note("completed")
      yield* TestClock.adjust("5 minutes")
      assert.lengthOf(given, 0)
      note("processing")
      state.isRunning = false
      yield* TestClock.adjust("5 minutes")
      assert.lengthOf(given, 0)
    }))

  it.effect("gives a sign that did not reach the service again soon, and stops when the service no longer wants it", () =>
    Effect.gen(function*() {
      const { given, note, state, stopped } = yield* make
      note("processing")
      state.isAway = true
      yield* TestClock.adjust("50 seconds")
      assert.lengthOf(given, 4)
      state.isAway = false
      state.isWanted = false
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(stopped, ["r1"])
    }))
})
