import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Exit, Fiber, Latch, Logger, Scope } from "effect"
import { TestClock } from "effect/testing"
import { now } from "../../../src/domain/Timestamp.ts"
import * as Worker from "../../../src/services/timing/Worker.ts"

/** A worker that records the second of each round. */
const start = Effect.fnUntraced(function*(
  options: Partial<Worker.Options<string>> = {},
  each: (round: number) => Effect.Effect<void, string> = () => Effect.void
) {
  const rounds: Array<number> = []
  const runOnce = Effect.flatMap(now, (at) => each(rounds.push(at / 1_000_000)))
  const worker = yield* Worker.make({ name: "the test", interval: "10 seconds", ...options, runOnce })
  return { rounds, worker }
})

describe("a worker", () => {
  it.effect("runs immediately and then after each interval, until its scope closes", () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const { rounds } = yield* Scope.provide(start(), scope)
      yield* TestClock.adjust("25 seconds")
      assert.deepStrictEqual(rounds, [0, 10, 20])
      yield* Scope.close(scope, Exit.void)
      yield* TestClock.adjust("1 hour")
      assert.lengthOf(rounds, 3)
    }))

  it.effect("pauses from the end of a round, for a time that may depend on it", () =>
    Effect.gen(function*() {
      let next = 1
      const interval = Effect.sync(() => Duration.seconds(next *= 2))
      const { rounds } = yield* start({ interval }, () => Effect.sleep("1 second"))
      yield* TestClock.adjust("20 seconds")
      assert.deepStrictEqual(rounds, [0, 3, 8, 17])
    }))

  it.effect("waits before the first round when it is delayed", () =>
    Effect.gen(function*() {
      const { rounds } = yield* start({ isDelayed: true })
      yield* TestClock.adjust("15 seconds")
      assert.deepStrictEqual(rounds, [10])
    }))

  it.effect("starts a round for every wake-up, also for one during a round", () =>
    Effect.gen(function*() {
      const wake = yield* Latch.make()
      const { rounds } = yield* start({ wake, interval: Duration.infinity }, () => Effect.sleep("2 seconds"))
      yield* TestClock.adjust("1 second")
      yield* wake.open
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(rounds, [0, 2])
      yield* wake.open
      yield* TestClock.adjust("0 seconds")
      assert.deepStrictEqual(rounds, [0, 2, 6])
    }))

  it.effect("leaves out rounds without work, but none that follows a wake-up or a failure", () =>
    Effect.gen(function*() {
      let isDue = false
      const asked: Array<number> = []
      const ran: Array<number> = []
      const note = (moments: Array<number>) => Effect.map(now, (at) => void moments.push(at / 1_000_000))
      const demand = { isDue: Effect.andThen(note(asked), Effect.sync(() => isDue)), ran: note(ran) }
      const wake = yield* Latch.make()
      const fails = (round: number) => round === 3 ? Effect.fail("typed") : Effect.void
      const { rounds } = yield* Effect.provide(start({ demand, wake }, fails), Logger.layer([]))
      yield* TestClock.adjust("25 seconds")
      assert.deepStrictEqual([rounds, asked], [[0], [10, 20]])
      yield* wake.open
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(rounds, [0, 25])
      isDue = true
      yield* TestClock.adjust("6 seconds")
      isDue = false
      yield* TestClock.adjust("20 seconds")
      assert.deepStrictEqual([rounds, asked], [[0, 25, 35, 35.1], [10, 20, 35, 45.1, 55.1]])
      assert.deepStrictEqual(ran, rounds)
    }))

  it.effect("repeats failed rounds with backoff up to 2 s and logs ever fewer of them", () =>
    Effect.gen(function*() {
      const lines: Array<unknown> = []
      const logger = Logger.make(({ message }) => void lines.push(message))
      const fails = (round: number) =>
        round <= 8 ? Effect.die("broken") : round === 9 ? Effect.fail("typed") : Effect.void
      const { rounds } = yield* Effect.provide(start({}, fails), Logger.layer([logger]))
      yield* TestClock.adjust("20 seconds")
      assert.deepStrictEqual(rounds, [0, 0.1, 0.3, 0.7, 1.5, 3.1, 5.1, 7.1, 9.1, 11.1])
      assert.deepStrictEqual(lines.map((line) => String(line).replace(/,.*/s, "")), [
        "the test failed",
        "the test failed 2 times in a row",
        "the test failed 4 times in a row",
        "the test failed 8 times in a row"
      ])
    }))

  it.effect("never waits longer than its interval after a failure", () =>
    Effect.gen(function*() {
      const { rounds } = yield* start({ interval: "50 millis" }, () => Effect.die("broken"))
      yield* TestClock.adjust("200 millis")
      assert.deepStrictEqual(rounds, [0, 0.05, 0.1, 0.15, 0.2])
    }))

  it.effect("finishes the current round when it drains, and begins no more", () =>
    Effect.gen(function*() {
      const { rounds, worker } = yield* start({}, () => Effect.sleep("3 seconds"))
      yield* TestClock.adjust("1 second")
      const drained = yield* Effect.forkChild(worker.drain, { startImmediately: true })
      assert.isUndefined(drained.pollUnsafe())
      yield* TestClock.adjust("2 seconds")
      yield* Fiber.join(drained)
      yield* TestClock.adjust("1 hour")
      assert.lengthOf(rounds, 1)
    }))

  it.effect("drains immediately during a pause", () =>
    Effect.gen(function*() {
      const { rounds, worker } = yield* start()
      yield* TestClock.adjust("1 second")
      yield* worker.drain
      assert.lengthOf(rounds, 1)
    }))
})
