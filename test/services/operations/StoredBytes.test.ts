import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { Timestamp } from "../../../src/domain/Timestamp.ts"
import * as StoredBytes from "../../../src/services/operations/StoredBytes.ts"
import { Settings } from "../../../src/services/settings/Settings.ts"
import { type Count, StoredBytesStore } from "../../../src/services/store/StoredBytesStore.ts"

/** Two users are due once. The count of "many" has no end. */
const layerStore = Layer.sync(StoredBytesStore, () => {
  let due = ["few", "many"]
  const counted = (sub: string): Count => {
    const last = sub === "few" ? null : { at: Timestamp.make(1), uuid: "a" }
    return { sub, bytes: 200, tasks: 1, last }
  }
  return StoredBytesStore.of({
    noteActive: () => Effect.void,
    claim: () => Effect.sync(() => due.splice(0)),
    count: (counts) => Effect.succeed(counts.map(({ sub }) => counted(sub))),
    record: () => Effect.void,
    largest: () => Effect.succeed([]),
    above: () => Effect.succeed([])
  })
})

it.effect("a user is refused before the count of one with many tasks has ended", () =>
  Effect.gen(function*() {
    const { isAbove } = yield* StoredBytes.StoredBytes
    yield* TestClock.adjust(100)
    assert.deepStrictEqual([isAbove("few"), isAbove("many")], [true, false])
  }).pipe(Effect.provide(
    StoredBytes.layer.pipe(Layer.provide(layerStore), Layer.provide(Settings.layer({ storedBytes: 100 })))
  )))
