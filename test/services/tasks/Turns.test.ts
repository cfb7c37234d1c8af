import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as Limits from "../../../src/domain/Limits.ts"
import { TaskId } from "../../../src/domain/Task.ts"
import { Memory } from "../../../src/services/limits/Memory.ts"
import { TaskStore } from "../../../src/services/store/tasks/TaskStore.ts"
import { makeClient, slicesOf, Turns } from "../../../src/services/tasks/Turns.ts"

const uuid = TaskId.make("019a0000-0000-7000-8000-000000000000")
const versionOf = (revision: number, sub = "user", turnBytes = 100_000) => ({ uuid, sub, revision, turnBytes })
const large = Limits.coreEventBytes

describe("Turns", () => {
  it.effect("reads a version once for all who need it at the same time, and again afterwards", () =>
    Effect.gen(function*() {
      const read: Array<number> = []
      const share = yield* (yield* Turns).share(({ revision }) => Effect.sync(() => read.push(revision)))
      const both = Effect.scoped(
        Effect.andThen(share(makeClient(), versionOf(1)), share(makeClient(), { ...versionOf(1) }))
      )
      yield* both
      yield* Effect.scoped(share(makeClient(), versionOf(2)))
      yield* both
      assert.deepStrictEqual(read, [1, 2, 1])
    }).pipe(Effect.provide(Layer.provide(Turns.layer, [Memory.layer, Layer.mock(TaskStore, {})]))))

  it.effect.each(
    [
      ["takes all and is sent no more", () => Effect.void],
      ["takes nothing, so that its connection is full", () => Effect.never]
    ] as const
  )(
    "ends a slow client only while another user waits for its memory: one that %s",
    ([, take]) =>
      Effect.gen(function*() {
        const sent = yield* Turns
        const share = yield* sent.share(() => Effect.void)
        const scope = yield* Scope.make()
        const hold = (sub: string) =>
          share(makeClient(), versionOf(1, sub, large)).pipe(Effect.provideService(Scope.Scope, scope))
        const slow = makeClient()
        yield* Effect.scoped(Effect.gen(function*() {
          yield* share(slow, versionOf(1, "slow", large))
          const bytes = Stream.concat(Stream.succeed(new Uint8Array(10)), Stream.never)
          const sending = yield* Effect.forkChild(Stream.runForEach(sent.send(slow, bytes), take))
          yield* hold("one")
          yield* hold("two")
          yield* TestClock.adjust("1 minute")
          assert.isUndefined(sending.pollUnsafe())
          const waiting = yield* Effect.forkChild(hold("three"))
          yield* TestClock.adjust("4 seconds")
          assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(sending)))
          yield* Fiber.interrupt(waiting)
        }))
        yield* Scope.close(scope, Exit.void)
      }).pipe(Effect.provide(Layer.provide(Turns.layer, [Memory.layer, Layer.mock(TaskStore, {})])))
  )

  it.effect("sends the pieces in their order", () =>
    Effect.gen(function*() {
      const pieces = [Uint8Array.of(1), new Uint8Array(300_000).fill(2), Uint8Array.of(3)]
      const slices = yield* Stream.runCollect(slicesOf(pieces))
      assert.deepStrictEqual(Buffer.concat(slices), Buffer.concat(pieces))
      assert.isBelow(Math.max(...slices.map(({ length }) => length)), 150_000)
    }))
})
