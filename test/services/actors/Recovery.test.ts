/** Runs that the core may have already are dispatched again, a few at a time, under TestClock. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Layer, Queue } from "effect"
import { SecureRandom } from "effect/crypto"
import { TestClock } from "effect/testing"
import { now, plus } from "../../../src/domain/Timestamp.ts"
import { TaskOwnership } from "../../../src/services/cluster/TaskOwnership.ts"
import type { Run } from "../../../src/services/core/CoreClient.ts"
import { Tasks } from "../../../src/services/tasks/Tasks.ts"
import { commit, stored } from "../../kit/StoredTasks.ts"
import { caller, type CoreScript, question, withCore } from "../../kit/TestTasks.ts"

/** Tasks that another process created, whose runs the core may have. */
const others = (count: number, status: "pending" | "processing") =>
  Effect.replicateEffect(
    Effect.gen(function*() {
      const deadline = plus(yield* now, "1 hour")
      const { uuid } = yield* stored({ userToken: "user-token:text", deadline })
      if (status === "processing") yield* commit(uuid, "Accepted")
      return uuid
    }),
    count
  )

/** Runs a test with a core that takes 10 s for each run, and a sweep that finds runs within a second. */
const withSlowCore = (
  script: Partial<CoreScript>,
  body: (starts: Queue.Dequeue<Run>) => ReturnType<Parameters<typeof withCore>[1]>
) =>
  withCore(
    { onStart: () => Effect.sleep("10 seconds"), sweepInterval: Duration.seconds(1), ...script },
    ({ starts }) => body(starts)
  )

const sizeAfter = (starts: Queue.Dequeue<Run>, duration: Duration.Input) =>
  Effect.andThen(TestClock.adjust(duration), Queue.size(starts))

describe("recovery", () => {
  it.effect("dispatches eight runs at a time, each once, and new ones meanwhile", () =>
    withSlowCore({}, (starts) =>
      Effect.gen(function*() {
        const tasks = yield* Tasks
        yield* others(20, "processing")
        assert.strictEqual(yield* sizeAfter(starts, "5 seconds"), 8)
        const { uuid } = yield* tasks.create(caller, question)
        assert.strictEqual((yield* Queue.takeAll(starts)).at(-1)?.taskId, uuid)
        assert.strictEqual(yield* sizeAfter(starts, "10 seconds"), 8)
        assert.strictEqual(yield* sizeAfter(starts, "10 seconds"), 12)
        assert.strictEqual(yield* sizeAfter(starts, "1 minute"), 12)
      }).pipe(Effect.provide(SecureRandom.layerWebCrypto))))

  it.effect("does not let pending runs wait for others", () =>
    withSlowCore({}, (starts) =>
      Effect.gen(function*() {
        yield* others(20, "processing")
        yield* TestClock.adjust("2 seconds")
        yield* Queue.takeAll(starts)
        const pending = yield* others(10, "pending")
        yield* TestClock.adjust("2 seconds")
        const begun = (yield* Queue.takeAll(starts)).map(({ taskId }) => taskId)
        assert.sameMembers(begun, pending)
      }).pipe(Effect.provide(SecureRandom.layerWebCrypto))))

  it.effect("dispatches 64 pending runs at a time, and new ones meanwhile", () =>
    withSlowCore({}, (starts) =>
      Effect.gen(function*() {
        const tasks = yield* Tasks
        yield* others(300, "pending")
        assert.strictEqual(yield* sizeAfter(starts, "5 seconds"), 64)
        const { uuid } = yield* tasks.create(caller, question)
        assert.strictEqual((yield* Queue.takeAll(starts)).at(-1)?.taskId, uuid)
        assert.strictEqual(yield* sizeAfter(starts, "10 seconds"), 64)
      }).pipe(Effect.provide(SecureRandom.layerWebCrypto))))

  it.effect("leaves out runs that are no longer this node's when their turn comes, until they are again", () => {
    let isMine = true
    const layerOwnership = Layer.effect(
      TaskOwnership,
      Effect.map(TaskOwnership, (alone) => ({ ...alone, isMine: () => isMine }))
    ).pipe(Layer.provide(TaskOwnership.layerAlone))
    return withSlowCore({ layerOwnership }, (starts) =>
      Effect.gen(function*() {
        const all = yield* others(20, "processing")
        yield* TestClock.adjust("5 seconds")
        isMine = false
        const first = yield* Queue.takeAll(starts)
        assert.lengthOf(first, 8)
        assert.strictEqual(yield* sizeAfter(starts, "1 minute"), 0)
        isMine = true
        yield* TestClock.adjust("1 minute")
        const again = (yield* Queue.takeAll(starts)).map(({ taskId }) => taskId)
        assert.sameMembers(again, all)
      }).pipe(Effect.provide(SecureRandom.layerWebCrypto)))
  })
})
