import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, References } from "effect"
import { TestClock } from "effect/testing"
import { TaskEvent, type TaskHead, TaskId } from "../../../../src/domain/Task.ts"
import { now } from "../../../../src/domain/Timestamp.ts"
import * as MeasuredTaskStore from "../../../../src/services/store/tasks/MeasuredTaskStore.ts"
import { TaskStore } from "../../../../src/services/store/tasks/TaskStore.ts"

/** Every commit applies. */
const layerApplied = Layer.mock(TaskStore, {
  commit: () =>
    Effect.succeed({ _tag: "Applied", head: { status: "failed" } as TaskHead, recordedAcceptance: false } as const)
})

describe("failed tasks", () => {
  it.effect("have one line for each reason and ten seconds, and then one with a count", () => {
    const lines: Array<readonly [unknown, unknown]> = []
    const logger = Logger.make(({ fiber, message }) => {
      const { taskId: _, ...annotations } = fiber.getRef(References.CurrentLogAnnotations)
      lines.push([String(message), annotations])
    })
    return Effect.gen(function*() {
      const store = yield* TaskStore
      const uuid = TaskId.make(crypto.randomUUID())
      const fail = (event: TaskEvent) => Effect.flatMap(now, (at) => store.commit(uuid, event, at))
      for (let n = 0; n < 4; n++) yield* fail(TaskEvent.cases.TimeLimitExceeded.make({ error: `${n}` }))
      yield* fail(TaskEvent.cases.TokenRevoked.make({}))
      const first = [["a task failed", { reason: "TimeLimitExceeded" }], ["a task failed", { reason: "TokenRevoked" }]]
      assert.deepStrictEqual<unknown>(lines, first)
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual<unknown>(lines.slice(2), [["more tasks failed", {
        tasks: 3,
        reason: "TimeLimitExceeded"
      }]])
      yield* fail(TaskEvent.cases.TokenRevoked.make({}))
      assert.lengthOf(lines, 4)
    }).pipe(
      Effect.provide(
        Layer.provide(MeasuredTaskStore.layer, [layerApplied, Logger.layer([logger])]).pipe(
          Layer.merge(Logger.layer([logger]))
        )
      )
    )
  })
})
