import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as Admissions from "../../../src/services/actors/Admissions.ts"
import { TaskActors } from "../../../src/services/actors/TaskActors.ts"
import { TaskOwnership } from "../../../src/services/cluster/TaskOwnership.ts"
import { CoreBusy } from "../../../src/services/queue/CoreBusy.ts"
import { Settings } from "../../../src/services/settings/Settings.ts"
import { Changes } from "../../../src/services/signals/Changes.ts"
import { type Admission, type Admitted, RunQueue } from "../../../src/services/store/queue/RunQueue.ts"

/** A round that does not pause would call for ever: it ends with the test. */
const most = 1000

/** The moments, in milliseconds, of the calls of a queue that answers so. */
const callsOf = Effect.fnUntraced(function*(outcome: (call: number) => Admitted["outcome"]) {
  const calls: Array<number> = []
  const layerQueue = Layer.mock(RunQueue)({
    admit: ({ at, floor, servedAt }: Admission) =>
      Effect.sync((): Admitted => {
        calls.push(at / 1000)
        return { outcome: calls.length < most ? outcome(calls.length) : "full", heads: [], floor, servedAt }
      })
  })
  const layer = Admissions.layer.pipe(
    Layer.provideMerge(CoreBusy.layer),
    Layer.provide([
      layerQueue,
      Layer.mock(TaskActors)({}),
      TaskOwnership.layerAlone,
      Changes.layer,
      Settings.layer({ sweepInterval: Duration.seconds(1), coreRuns: 1 })
    ])
  )
  yield* Effect.provide(TestClock.adjust("900 millis"), Layer.fresh(layer))
  return calls
})

describe("an admission", () => {
  for (const outcome of ["busy", "more"] as const) {
    const because = outcome === "busy" ? "another node admits" : "what it found is locked"
    it.effect(`pauses 20 ms while ${because}`, () =>
      Effect.gen(function*() {
        const calls = yield* callsOf((call) => call < 11 ? outcome : "full")
        assert.deepStrictEqual(calls, Array.from({ length: 11 }, (_, index) => calls[0]! + 20 * index))
      }))
  }

  for (const outcome of ["full", "empty"] as const) {
    it.effect(`waits for a signal or the next second when the queue is ${outcome}`, () =>
      Effect.gen(function*() {
        assert.lengthOf(yield* callsOf(() => outcome), 1)
      }))
  }
})
