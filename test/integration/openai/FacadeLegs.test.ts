import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import { Timestamp } from "../../../src/domain/Timestamp.ts"
import * as Kept from "../../../src/http/openai/Kept.ts"
import * as Response from "../../../src/http/openai/Response.ts"
import { FacadeLegs } from "../../../src/services/facades/FacadeLegs.ts"
import * as FacadeLegsSql from "../../../src/services/facades/FacadeLegsSql.ts"
import { TaskStore } from "../../../src/services/store/tasks/TaskStore.ts"
import { commit, stored } from "../../kit/StoredTasks.ts"
import { layerSql } from "../../kit/StoreLayers.ts"

const kept = Kept.encode({
  model: "m",
  instructions: null,
  previous_response_id: null,
  metadata: {},
  tools: [],
  background: true,
  store: true,
  max_output_tokens: null,
  text: { format: { type: "text" } }
})
const createdAt = Timestamp.make(1_764_000_000_000_001)

layer(Layer.provideMerge(FacadeLegsSql.layer, layerSql))("the store of legs", (it) => {
  it.effect("finds the latest leg up to a number, and counts the legs of the task", () =>
    Effect.gen(function*() {
      const legs = yield* FacadeLegs
      const { uuid: taskId } = yield* stored()
      assert.isUndefined(yield* legs.find(taskId, 0))
      yield* legs.add({ taskId, leg: 0, request: "first", createdAt, isStored: true })
      yield* legs.add({ taskId, leg: 0, request: "ignored", createdAt, isStored: true })
      const first = {
        leg: 0,
        request: "first",
        output: null,
        usage: null,
        usageBefore: null,
        createdAt,
        current: 0,
        turnSince: null
      }
      assert.deepStrictEqual(yield* legs.find(taskId, 0), first)
      yield* commit(taskId, "Accepted")
      yield* commit(taskId, "Interrupted")
      assert.deepStrictEqual(yield* legs.find(taskId, 0), { ...first, turnSince: 2 })
      const usage = { input: 3, output: 2, total: 5, cached: 1, reasoning: 0 }
      yield* legs.freeze(taskId, 0, "calls", usage)
      yield* commit(taskId, "ToolResultsSubmitted")
      const changes = [4, 2, 3, 4].map((revision) => ({ uuid: taskId, revision }))
      assert.deepStrictEqual(yield* legs.endedBy(changes), [1, 0, 0, 1])
      assert.deepStrictEqual(yield* legs.endedBy([]), [])
      const answered = { ...first, output: "calls", usage, current: 1 }
      assert.deepStrictEqual(yield* legs.find(taskId, 1), { ...answered, usageBefore: usage })
      yield* legs.add({ taskId, leg: 1, request: "second", createdAt, isStored: true })
      assert.deepStrictEqual(yield* legs.find(taskId, 0), answered)
      assert.deepInclude(yield* legs.find(taskId, 1), { leg: 1, request: "second", output: null, turnSince: null })

      const before = Option.getOrThrow(yield* (yield* TaskStore).outline(taskId))
      yield* commit(taskId, "Completed")
      const after = Option.getOrThrow(yield* (yield* TaskStore).outline(taskId))
      const found = yield* legs.find(taskId, 1)
      assert.deepInclude(found, { leg: 1, turnSince: 4 })
      // A task that was read before the leg had the turn of the previous leg.
      const hasTurn = (task: typeof before) => Response.snapshotOf(task, [], 1, { ...found!, request: kept }).hasTurn
      assert.deepStrictEqual([before, after].map(hasTurn), [false, true])
    }))

  it.effect("deletes the legs of a deleted task", () =>
    Effect.gen(function*() {
      const legs = yield* FacadeLegs
      const { uuid: taskId } = yield* stored()
      yield* legs.add({ taskId, leg: 0, request: "x", createdAt, isStored: true })
      yield* commit(taskId, "Failed")
      assert.isTrue(yield* (yield* TaskStore).deleteTask(taskId))
      assert.isUndefined(yield* legs.find(taskId, 0))
      yield* legs.add({ taskId, leg: 0, request: "late", createdAt, isStored: true })
      assert.isUndefined(yield* legs.find(taskId, 0))
    }))

  it.effect("finds the ended tasks that are not stored", () =>
    Effect.gen(function*() {
      const legs = yield* FacadeLegs
      const tasks = yield* Effect.forEach([true, false, false], (isStored) =>
        Effect.gen(function*() {
          const { uuid: taskId } = yield* stored()
          yield* legs.add({ taskId, leg: 0, request: "x", createdAt, isStored })
          return taskId
        }))
      yield* Effect.forEach(tasks.slice(0, 2), (taskId) => commit(taskId, "Failed"))
      const found = (before: Timestamp) =>
        Effect.map(legs.unstored(before, 10), (ids) => ids.filter((id) => tasks.includes(id)))
      assert.deepStrictEqual(yield* found(Timestamp.make(4e15)), tasks.slice(1, 2))
      assert.deepStrictEqual(yield* found(Timestamp.make(-1)), [])
    }))
})
