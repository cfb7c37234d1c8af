/** The contract of every store of trials, run on memory and on Postgres. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { RecoveryTrials } from "../../src/services/store/RecoveryTrials.ts"
import { newRunId, type StoreTests, uuid } from "./StoredTasks.ts"

export const contract = (it: StoreTests) => {
  it.effect("reports an unended trial as a loss to other nodes, but not to the node that began it", () =>
    Effect.gen(function*() {
      const trials = yield* RecoveryTrials
      const [first, second, third] = [yield* uuid, yield* uuid, yield* uuid]
      const [run, other] = [yield* newRunId, yield* newRunId]
      const lost = (node: string) => trials.lost(node, [run, other])
      assert.deepStrictEqual(yield* lost(first), [])
      yield* trials.begin(first, [run], 1)
      assert.deepStrictEqual(yield* lost(first), [])
      assert.deepStrictEqual(yield* lost(second), [{ runId: run, concurrentTrials: 1, losses: 1, lossesAlone: 1 }])
      // The same node again, now with another run: no loss.
      yield* trials.begin(first, [run, other], 2)
      assert.sameDeepMembers([...yield* lost(second)], [
        { runId: run, concurrentTrials: 2, losses: 1, lossesAlone: 0 },
        { runId: other, concurrentTrials: 2, losses: 1, lossesAlone: 0 }
      ])
      yield* trials.begin(second, [run], 1)
      yield* trials.begin(third, [run], 1)
      assert.deepInclude(yield* lost(first), { runId: run, concurrentTrials: 1, losses: 3, lossesAlone: 2 })
    }))

  it.effect("does not suspect a run that passed, but counts later losses", () =>
    Effect.gen(function*() {
      const trials = yield* RecoveryTrials
      const [first, second] = [yield* uuid, yield* uuid]
      const run = yield* newRunId
      yield* trials.begin(first, [run], 1)
      yield* trials.begin(second, [run], 1)
      // The previous owner is late: the run is on trial on another node.
      yield* trials.pass(first, [run])
      assert.strictEqual((yield* trials.lost(first, [run]))[0]?.concurrentTrials, 1)
      yield* trials.pass(second, [run])
      assert.deepStrictEqual(yield* trials.lost(first, [run]), [
        { runId: run, concurrentTrials: 0, losses: 2, lossesAlone: 0 }
      ])
    }))

  it.effect("ends only trials of the given node", () =>
    Effect.gen(function*() {
      const trials = yield* RecoveryTrials
      const [first, second] = [yield* uuid, yield* uuid]
      const run = yield* newRunId
      yield* trials.begin(first, [run], 1)
      yield* trials.end(second, [run])
      assert.lengthOf(yield* trials.lost(second, [run]), 1)
      yield* trials.end(first, [run])
      assert.deepStrictEqual(yield* trials.lost(second, [run]), [])
    }))

  it.effect("accepts an empty batch", () =>
    Effect.gen(function*() {
      const trials = yield* RecoveryTrials
      const node = yield* uuid
      yield* trials.begin(node, [], 0)
      yield* trials.pass(node, [])
      yield* trials.end(node, [])
      assert.deepStrictEqual(yield* trials.lost(node, []), [])
    }))
}
