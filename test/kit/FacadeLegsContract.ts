/** The contract of `FacadeLegs`, run on memory and on Postgres. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { Timestamp } from "../../src/domain/Timestamp.ts"
import { FacadeLegs } from "../../src/services/store/FacadeLegs.ts"
import { TaskRetention } from "../../src/services/store/TaskRetention.ts"
import { commit, stored, type StoreTests } from "./StoredTasks.ts"

const createdAt = Timestamp.make(1_764_000_000_000_001)

export const contract = (it: StoreTests) => {
  it.effect("finds the latest leg up to a number, and counts the legs of the task", () =>
    Effect.gen(function*() {
      const legs = yield* FacadeLegs
      const { uuid: taskId } = yield* stored()
      assert.isUndefined(yield* legs.find(taskId, 0))
      yield* legs.add({ taskId, leg: 0, request: "first", createdAt })
      yield* legs.add({ taskId, leg: 0, request: "ignored", createdAt })
      const first = { leg: 0, request: "first", output: null, createdAt, current: 0, hasTurn: false }
      assert.deepStrictEqual(yield* legs.find(taskId, 0), first)
      yield* commit(taskId, "Accepted")
      yield* commit(taskId, "Interrupted")
      assert.deepStrictEqual(yield* legs.find(taskId, 0), { ...first, hasTurn: true })
      yield* legs.freeze(taskId, 0, "calls")
      yield* commit(taskId, "ToolResultsSubmitted")
      const answered = { ...first, output: "calls", current: 1 }
      assert.deepStrictEqual(yield* legs.find(taskId, 1), answered)
      yield* legs.add({ taskId, leg: 1, request: "second", createdAt })
      assert.deepStrictEqual(yield* legs.find(taskId, 0), answered)
      assert.deepInclude(yield* legs.find(taskId, 1), { leg: 1, request: "second", output: null, hasTurn: false })
    }))

  it.effect("deletes the legs of a deleted task", () =>
    Effect.gen(function*() {
      const legs = yield* FacadeLegs
      const { uuid: taskId } = yield* stored()
      yield* legs.add({ taskId, leg: 0, request: "x", createdAt })
      yield* commit(taskId, "Failed")
      assert.isTrue(yield* (yield* TaskRetention).deleteTask(taskId))
      assert.isUndefined(yield* legs.find(taskId, 0))
    }))
}
