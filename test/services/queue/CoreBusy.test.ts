/** The pace of a node whose core has said that it has no room. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { RunId } from "../../../src/domain/Task.ts"
import { now, plus } from "../../../src/domain/Timestamp.ts"
import { TaskOwnership } from "../../../src/services/cluster/TaskOwnership.ts"
import { CoreBusy } from "../../../src/services/queue/CoreBusy.ts"
import { Settings } from "../../../src/services/settings/Settings.ts"

const runId = (number: number) => RunId.make(`019ac5d2-8001-7b10-a5f3-00000000000${number}`)

const layer = CoreBusy.layer.pipe(Layer.provide([TaskOwnership.layerAlone, Settings.layer({})]))

describe("a busy core", () => {
  it.effect("leaves the place of an ended run to one that the core may have, for a time", () =>
    Effect.gen(function*() {
      const busy = yield* CoreBusy
      const at = yield* now
      for (const number of [1, 2]) {
        const token = busy.begin(runId(number), at)
        assert.isTrue(busy.allows(token))
        busy.took()
        busy.end(runId(number), at)
      }
      yield* busy.refused(runId(3), busy.begin(runId(3), at), null, at)
      busy.end(runId(3), at)
      assert.strictEqual(busy.room(at), 0)
      const until = plus(at, Duration.seconds(30))
      busy.reserve(runId(3), until)
      busy.left()
      assert.strictEqual(busy.room(at), 0)
      // No probe takes it either.
      assert.strictEqual(busy.room(plus(at, Duration.seconds(20))), 0)
      // A further refusal gives it no more time.
      busy.reserve(runId(3), plus(at, Duration.hours(1)))
      assert.strictEqual(busy.room(until), 1)
      assert.strictEqual(busy.room(at), 0)
      busy.unreserve(runId(3))
      assert.strictEqual(busy.room(at), 1)
    }).pipe(Effect.provide(layer)))
})
