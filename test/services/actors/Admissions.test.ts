import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { RunId, TaskId } from "../../../src/domain/Task.ts"
import { fromMicros, now } from "../../../src/domain/Timestamp.ts"
import * as Admissions from "../../../src/services/actors/Admissions.ts"
import { TaskActors } from "../../../src/services/actors/TaskActors.ts"
import { TaskOwnership } from "../../../src/services/cluster/TaskOwnership.ts"
import { CoreBusy } from "../../../src/services/queue/CoreBusy.ts"
import { Settings } from "../../../src/services/settings/Settings.ts"
import { Changes } from "../../../src/services/signals/Changes.ts"
import { type Admission, type Admitted, RunQueue } from "../../../src/services/store/queue/RunQueue.ts"

/** A round that does not pause would call for ever: it ends with the test. */
const most = 1000

const calling = (
  calls: Array<number>,
  outcome: (call: number) => Admitted["outcome"],
  settings: { readonly coreRuns?: number } = { coreRuns: 1 },
  layerOwnership = TaskOwnership.layerAlone
) => {
  const layerQueue = Layer.mock(RunQueue)({
    admit: ({ at, floor, servedAt }: Admission) =>
      Effect.sync((): Admitted => {
        calls.push(at / 1000)
        return { outcome: calls.length < most ? outcome(calls.length) : "full", heads: [], floor, servedAt }
      })
  })
  return Layer.fresh(Admissions.layer.pipe(
    Layer.provideMerge([CoreBusy.layer, Changes.layer]),
    Layer.provide([
      layerQueue,
      Layer.mock(TaskActors)({}),
      layerOwnership,
      Settings.layer({ sweepInterval: Duration.seconds(1), ...settings })
    ])
  ))
}

/** The moments, in milliseconds, of the calls of a queue that answers so. */
const callsOf = Effect.fnUntraced(function*(outcome: (call: number) => Admitted["outcome"]) {
  const calls: Array<number> = []
  yield* Effect.provide(TestClock.adjust("900 millis"), calling(calls, outcome))
  return calls
})

const layerOneOfMany = Layer.effect(
  TaskOwnership,
  Effect.map(TaskOwnership, (alone) => ({ ...alone, shards: () => [] }))
).pipe(Layer.provide(TaskOwnership.layerAlone))

describe("an admission", () => {
  for (const outcome of ["busy", "more"] as const) {
    const because = outcome === "busy" ? "another node admits" : "what it found is locked"
    it.effect(`pauses 20 ms while ${because}`, () =>
      Effect.gen(function*() {
        const calls = yield* callsOf((call) => call < 11 ? outcome : "full")
        assert.deepStrictEqual(calls, Array.from({ length: 11 }, (_, index) => calls[0]! + 20 * index))
      }))
  }

  it.effect("follows soon when another node may have made room for a run that waits here, and not too often", () => {
    const calls: Array<number> = []
    return Effect.gen(function*() {
      const { receive } = yield* Changes
      const busy = yield* CoreBusy
      const changed = Effect.andThen(
        receive(TaskId.make("019ac5d2-8001-7b10-a5f3-000000000001")),
        TestClock.adjust("5 millis")
      )
      const callsAfter = (repetitions: number) =>
        Effect.gen(function*() {
          const before = calls.length
          for (let number = 0; number < repetitions; number++) yield* changed
          yield* TestClock.adjust("60 millis")
          return calls.length - before
        })
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* callsAfter(1), 0)
      busy.noteWaiting()
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* callsAfter(1), 1)
      // In 100 ms.
      assert.isAtMost(yield* callsAfter(20), 4)
    }).pipe(Effect.provide(calling(calls, (call) => call === 1 ? "empty" : "full", {}, layerOneOfMany)))
  })

  it.effect("follows each end while runs wait, also those from before the start, and none while nothing waits", () => {
    const calls: Array<number> = []
    return Effect.gen(function*() {
      const busy = yield* CoreBusy
      const callsAfterEnd = Effect.gen(function*() {
        const before = calls.length
        busy.noteLeft(true)
        yield* TestClock.adjust("1 millis")
        return calls.length - before
      })
      yield* TestClock.adjust("1 millis")
      const found: Array<number> = []
      for (let number = 0; number < 4; number++) found.push(yield* callsAfterEnd)
      assert.deepStrictEqual(found, [1, 1, 1, 0])
    }).pipe(Effect.provide(calling(calls, (call) => call < 4 ? "full" : "empty")))
  })

  it.effect("of a node that knows no limit sends the next runs when one of those before was answered", () => {
    const admitted: Array<number> = []
    const answered = RunId.make("019ac5d2-8001-7b10-a5f3-000000000002")
    const head: Admitted["heads"][number] = {
      uuid: TaskId.make("019ac5d2-8001-7b10-a5f3-000000000001"),
      sub: "ann",
      status: "pending",
      revision: 0,
      runId: answered,
      maxExecutionTime: 60,
      deadline: fromMicros(60_000_000),
      acceptanceDeadline: null,
      resumedAt: null,
      lastEventAt: null,
      redispatches: null,
      room: "held",
      queueRevision: 1
    }
    const layerQueue = Layer.mock(RunQueue)({
      admit: ({ floor, most, servedAt }: Admission) =>
        Effect.sync((): Admitted => {
          admitted.push(most)
          return { outcome: "more", heads: Array.from({ length: most }, () => head), floor, servedAt }
        })
    })
    return Effect.gen(function*() {
      const busy = yield* CoreBusy
      yield* TestClock.adjust("500 millis")
      assert.deepStrictEqual(admitted, [8])
      busy.begin(answered, yield* now)
      busy.end(answered, yield* now)
      yield* TestClock.adjust("500 millis")
      assert.deepStrictEqual(admitted, [8, 16])
      yield* TestClock.adjust("600 millis")
      assert.deepStrictEqual(admitted, [8, 16, 32])
    }).pipe(Effect.provide(Admissions.layer.pipe(
      Layer.provideMerge([CoreBusy.layer, Changes.layer]),
      Layer.provide([
        layerQueue,
        Layer.mock(TaskActors)({ ensure: () => Effect.void }),
        TaskOwnership.layerAlone,
        Settings.layer({ sweepInterval: Duration.seconds(1) })
      ])
    )))
  })

  for (const outcome of ["full", "empty"] as const) {
    it.effect(`waits for a signal or the next second when the queue is ${outcome}`, () =>
      Effect.gen(function*() {
        assert.lengthOf(yield* callsOf(() => outcome), 1)
      }))
  }

  it.effect("ends the time of a busy core for which nothing waits but what a pause or a limit holds", () =>
    Effect.gen(function*() {
      const busy = yield* CoreBusy
      const run = RunId.make("019ac5d2-8001-7b10-a5f3-000000000002")
      yield* busy.refused(run, busy.begin(run, yield* now)!, null, yield* now)
      busy.end(run, yield* now)
      busy.noteWaiting()
      yield* TestClock.adjust("9 seconds")
      assert.isTrue(busy.isBusy())
      yield* TestClock.adjust("3 seconds")
      assert.isFalse(busy.isBusy())
    }).pipe(Effect.provide(calling([], () => "full", {}))))
})
