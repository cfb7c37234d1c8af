import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { TestClock } from "effect/testing"
import { StoreUnavailable } from "../../../src/domain/StoreUnavailable.ts"
import { Timestamp } from "../../../src/domain/Timestamp.ts"
import { TaskActors } from "../../../src/services/actors/TaskActors.ts"
import { TaskOwnership } from "../../../src/services/cluster/TaskOwnership.ts"
import { makeSelf } from "../../../src/services/operations/ClusterNodes.ts"
import { TaskStore } from "../../../src/services/store/tasks/TaskStore.ts"

const deadline = Timestamp.make(3_600_000_000)
const later = Timestamp.make(7_200_000_000)

describe("a node's description", () => {
  it.effect("leaves out the deadlines that its searches found more than two intervals ago", () => {
    let search: Effect.Effect<Timestamp | null, StoreUnavailable> = Effect.succeed(deadline)
    return Effect.gen(function*() {
      const self = yield* makeSelf({ address: "here", version: "1" })
      const nextDue = Effect.map(self.describe, (report) => report.nextDue)
      assert.strictEqual(yield* nextDue, deadline)
      search = Effect.fail(new StoreUnavailable({ cause: "away" }))
      yield* TestClock.adjust("20 seconds")
      assert.strictEqual(yield* nextDue, deadline)
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(yield* nextDue, later, "the next deadline of an actor")
      search = Effect.succeed(deadline)
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(yield* nextDue, deadline)
    }).pipe(Effect.provide([
      Layer.mock(TaskActors, { load: Effect.succeed({ tasks: 0, nextDue: later, lateness: 0 }) }),
      Layer.mock(TaskStore, { nextDeadline: () => Effect.suspend(() => search) }),
      TaskOwnership.layerAlone,
      SecureRandom.layerWebCrypto
    ]))
  })
})
