/** The contract of the outbox of stops, run on memory and on Postgres. */
import { assert } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { now, plus } from "../../src/domain/Timestamp.ts"
import { TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import { commit, stored, type StoreTests } from "./StoredTasks.ts"

export const contract = (it: StoreTests) => {
  it.effect("returns a pending stop until it is deleted", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const task = yield* stored()
      yield* commit(task.uuid, "TimeLimitExceeded")
      const at = yield* now
      const claim = (after: Duration.Input) =>
        Effect.map(
          store.claimStops(plus(at, after), Duration.seconds(30), 10_000),
          (stops) => stops.filter(({ runId }) => runId === task.runId)
        )
      assert.deepStrictEqual(yield* claim(0), [
        { runId: task.runId, taskId: task.uuid, reason: "time_limit_exceeded", attempt: 1, endedAt: at }
      ])
      assert.deepStrictEqual(yield* claim("29 seconds"), [])
      assert.strictEqual((yield* claim("31 seconds"))[0]?.attempt, 2)
      yield* store.postponeStop(task.runId, plus(at, "100 seconds"))
      assert.deepStrictEqual(yield* claim("99 seconds"), [])
      assert.strictEqual((yield* claim("101 seconds"))[0]?.attempt, 3)
      yield* store.deleteStop(task.runId)
      assert.deepStrictEqual(yield* claim("1000 seconds"), [])
    }))
}
