import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as Held from "../../../src/http/facades/Held.ts"
import { Memory } from "../../../src/services/limits/Memory.ts"
import { TaskStore } from "../../../src/services/store/tasks/TaskStore.ts"
import { makeClient, Turns } from "../../../src/services/tasks/Turns.ts"

it.effect("sends a blank every 15 s until the answer is there, and then the answer", () =>
  Effect.gen(function*() {
    const open = yield* Held.makeOpen
    const answer = yield* Deferred.make<string>()
    const frame = Effect.map(Deferred.await(answer), (text) => Stream.make(new TextEncoder().encode(text)))
    const { body } = yield* open(makeClient(), Stream.fromEffect(frame), Held.json)
    if (body._tag !== "Stream") return assert.fail("no stream")
    const sent = yield* Effect.forkChild(Stream.mkString(Stream.decodeText(body.stream)))
    for (const seconds of [1, 15, 15, 15]) yield* TestClock.adjust(`${seconds} seconds`)
    yield* Deferred.succeed(answer, "{}")
    assert.strictEqual(yield* Fiber.join(sent), "   {}")
  }).pipe(Effect.provide(Layer.provide(Turns.layer, [Memory.layer, Layer.mock(TaskStore, {})]))))
