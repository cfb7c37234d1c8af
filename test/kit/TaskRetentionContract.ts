/** The contract of `TaskRetention`, run on memory and on Postgres. */
import { assert } from "@effect/vitest"
import { Effect, Option } from "effect"
import { now, plus } from "../../src/domain/Timestamp.ts"
import { TaskReads } from "../../src/services/store/TaskReads.ts"
import { TaskRetention } from "../../src/services/store/TaskRetention.ts"
import { commit, makeTask, stored, type StoreTests } from "./StoredTasks.ts"

export const contract = (it: StoreTests) => {
  it.effect("deletes tasks that ended long enough ago, with all their rows, in batches", () =>
    Effect.gen(function*() {
      const retention = yield* TaskRetention
      const reads = yield* TaskReads
      const { principal } = yield* makeTask()
      const ended = yield* Effect.forEach([1, 2, 3], () => stored({ principal }))
      const live = yield* stored({ principal })
      for (const { uuid } of ended) yield* commit(uuid, "Completed")
      const at = yield* now
      assert.strictEqual(yield* retention.deleteEnded(plus(at, "-1 second"), 10_000), 0)
      const remaining = Effect.map(
        reads.list({ sub: principal.sub, statuses: [], page: 1, perPage: 100 }),
        ({ tasks }) => tasks.map(({ uuid }) => uuid)
      )
      assert.strictEqual((yield* remaining).length, 4)
      // Tasks of other suites may have ended earlier than these.
      yield* Effect.repeat(retention.deleteEnded(plus(at, "1 second"), 2), { while: (deleted) => deleted === 2 })
      assert.deepStrictEqual(yield* remaining, [live.uuid])
      for (const { uuid } of ended) {
        assert.isTrue(Option.isNone(yield* reads.get(uuid)))
        assert.deepStrictEqual(yield* reads.eventsAfter(uuid, -1, 10), [])
      }
    }))
}
