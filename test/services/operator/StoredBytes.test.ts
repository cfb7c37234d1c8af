import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { Timestamp } from "../../../src/domain/Timestamp.ts"
import * as StoredBytes from "../../../src/services/operator/StoredBytes.ts"

/** Two users are due once. The count of "many" has no end. */
const makeStore = () => {
  const calls: Array<string> = []
  let due = ["few", "many"]
  const counted = (sub: string): StoredBytes.Count => {
    const last = sub === "few" ? null : { at: Timestamp.make(1), uuid: "a" }
    return { sub, bytes: 200, tasks: 1, last }
  }
  const called = <A>(name: string, result: A) =>
    Effect.sync(() => {
      calls.push(name)
      return result
    })
  const layer = Layer.succeed(StoredBytes.StoredBytesStore, {
    countedAt: Effect.succeed(null),
    noteActive: () => called("noteActive", null),
    claim: () => Effect.sync(() => due.splice(0)),
    count: (counts) => Effect.succeed(counts.map(({ sub }) => counted(sub))),
    record: () => called("record", undefined),
    largest: () => Effect.succeed([]),
    above: () => Effect.succeed([])
  })
  return { calls, layer }
}

it.effect("a user is refused before the count of one with many tasks has ended", () =>
  Effect.gen(function*() {
    const { layerWorker, limits } = StoredBytes.make(100)
    yield* Layer.build(Layer.provide(layerWorker, makeStore().layer))
    yield* TestClock.adjust(100)
    const refused = ["few", "many"].map((sub) => limits[0]?.(sub)?.message)
    assert.match(refused[0]!, /^Your tasks hold more than 100 bytes\./)
    assert.isUndefined(refused[1])
  }).pipe(Effect.scoped))

it.effect("without a limit creates ask nothing, and users are counted only after someone asked", () =>
  Effect.gen(function*() {
    const { ask, layerWorker, limits } = StoredBytes.make(undefined)
    const { calls, layer } = makeStore()
    yield* Layer.build(Layer.provide(layerWorker, layer))
    assert.deepStrictEqual(limits, [])
    yield* TestClock.adjust("1 day")
    assert.deepStrictEqual(calls, [])
    yield* ask
    yield* TestClock.adjust("6 seconds")
    assert.deepStrictEqual(calls, ["noteActive", "record"])
  }).pipe(Effect.scoped))
