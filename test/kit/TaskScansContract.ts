/** The contract of `TaskStore`, run on memory and on Postgres. */
import { assert } from "@effect/vitest"
import { type Duration, Effect } from "effect"
import type { TaskHead, TaskId } from "../../src/domain/Task.ts"
import * as TaskShard from "../../src/domain/TaskShard.ts"
import { now, plus, Timestamp } from "../../src/domain/Timestamp.ts"
import { TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import { commit, stored, type StoreTests } from "./StoredTasks.ts"

export const contract = (it: StoreTests) => {
  it.effect("finds live tasks and overdue tasks", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const start = yield* now
      const task = yield* stored()
      const waiting = yield* stored({ acceptanceDeadline: null })
      const ended = yield* stored()
      yield* commit(ended.uuid, "Completed")
      const ids = [task.uuid, waiting.uuid].toSorted()
      const isOurs = ({ uuid }: { readonly uuid: TaskId }) => [...ids, ended.uuid].includes(uuid)
      const idsOf = (heads: ReadonlyArray<TaskHead>) => heads.filter(isOurs).map(({ uuid }) => uuid)
      assert.deepStrictEqual(idsOf(yield* store.running(undefined, 10_000)), ids)
      assert.deepStrictEqual(idsOf(yield* store.running(ids[1], 10_000)), [])
      for (const id of ids) {
        const shards = [TaskShard.of(id)]
        const sharing = ids.filter((other) => TaskShard.of(other) === shards[0])
        assert.deepStrictEqual(idsOf(yield* store.running(undefined, 10_000, shards)), sharing)
        assert.isAtMost((yield* store.nextDeadline(shards)) ?? Infinity, task.deadline)
      }
      assert.deepStrictEqual(yield* store.running(undefined, 10_000, []), [])
      assert.isNull(yield* store.nextDeadline([]))
      const within = (from: Timestamp, to: Timestamp) => Effect.map(store.dueWithin(from, to, undefined, 10_000), idsOf)
      assert.deepStrictEqual(yield* within(start, task.deadline), ids)
      assert.deepStrictEqual(yield* within(task.deadline, plus(start, "1 hour")), [])
      assert.deepStrictEqual(yield* within(start, Timestamp.make(task.deadline - 1)), [])
      const overdue = (after: Duration.Input) =>
        Effect.map(store.overdue(plus(start, after), 10_000), (heads) => heads.filter(isOurs).map((h) => h.uuid))
      assert.deepStrictEqual(yield* overdue("29 seconds"), [])
      assert.deepStrictEqual(yield* overdue("31 seconds"), [task.uuid])
      assert.sameMembers([...(yield* overdue("61 seconds"))], ids)
      yield* store.startAcceptance(waiting.uuid, waiting.runId, plus(start, "40 seconds"))
      assert.sameMembers([...(yield* overdue("41 seconds"))], ids)
      yield* commit(task.uuid, "Interrupted")
      assert.deepStrictEqual(idsOf(yield* store.running(undefined, 10_000)), [waiting.uuid])
      assert.deepStrictEqual(yield* within(start, task.deadline), ids)
    }))

  it.effect("counts live tasks by status and returns the next deadline", () =>
    Effect.gen(function*() {
      const store = yield* TaskStore
      const before = yield* store.liveStats
      const task = yield* stored()
      const ended = yield* stored()
      yield* commit(ended.uuid, "Completed")
      const after = yield* store.liveStats
      assert.deepStrictEqual(after.counts, { ...before.counts, pending: before.counts.pending + 1 })
      assert.isAtMost(after.nextDeadline ?? Infinity, task.acceptanceDeadline ?? 0)
    }))
}
