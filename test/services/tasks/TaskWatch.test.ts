import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { TestClock } from "effect/testing"
import type { TaskHead } from "../../../src/domain/Task.ts"
import { Memory } from "../../../src/services/limits/Memory.ts"
import { Changes } from "../../../src/services/signals/Changes.ts"
import * as RevocationRepositoryMemory from "../../../src/services/store/revocations/RevocationRepositoryMemory.ts"
import { TaskStore } from "../../../src/services/store/tasks/TaskStore.ts"
import * as TaskStoreMemory from "../../../src/services/store/tasks/TaskStoreMemory.ts"
import { TaskWatch } from "../../../src/services/tasks/TaskWatch.ts"
import { Turns } from "../../../src/services/tasks/Turns.ts"
import { commit, stored } from "../../kit/StoredTasks.ts"
import { layerFormats } from "../../kit/WebhookStoreContract.ts"

const layerStores = TaskStoreMemory.layer.pipe(
  Layer.provide(layerFormats),
  Layer.provideMerge([Changes.layer, Memory.layer, RevocationRepositoryMemory.layer])
)

layer(
  TaskWatch.layer.pipe(
    Layer.provide(Turns.layer),
    Layer.provideMerge(layerStores),
    Layer.provideMerge(SecureRandom.layerWebCrypto)
  )
)("a wait for a change", (it) => {
  it.effect("ends with a change of this node, but not with one that its caller knew when it is published late", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const watch = yield* TaskWatch
      const { publish, receive } = yield* Changes
      const { uuid } = yield* stored()
      yield* commit(uuid, "Accepted")
      const [accepted] = yield* store.heads([uuid])
      yield* commit(uuid, "Progressed")
      const [known] = yield* store.heads([uuid])
      const isNew = ({ redispatches, revision }: TaskHead) =>
        revision !== known!.revision || redispatches !== known!.redispatches
      const waiting = yield* Effect.forkChild(watch.until(known!, isNew, Duration.seconds(30)))
      yield* TestClock.adjust(1)
      yield* publish(uuid, accepted)
      // Dispatches change without a revision.
      yield* publish(uuid, { ...known!, redispatches: 1 })
      yield* TestClock.adjust(1)
      assert.isUndefined(waiting.pollUnsafe())
      // The row is not read again to see whether it is enough: it is not.
      yield* publish(uuid, { ...known!, revision: known!.revision + 1 })
      // Nor after a change of another node that follows at once.
      yield* receive(uuid)
      yield* TestClock.adjust(1)
      assert.isDefined(waiting.pollUnsafe())
    }))
})
