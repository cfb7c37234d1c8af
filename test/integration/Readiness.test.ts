/** `/readyz` fails with the reason when the cluster cannot do its work. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as TaskShard from "../../src/domain/TaskShard.ts"
import { TaskSweeper } from "../../src/services/actors/TaskSweeper.ts"
import { TaskOwnership } from "../../src/services/cluster/TaskOwnership.ts"
import { ClusterNodes, type Member } from "../../src/services/operations/ClusterNodes.ts"
import { Readiness } from "../../src/services/operations/Readiness.ts"
import * as ReadinessSql from "../../src/services/operations/ReadinessSql.ts"
import { NodeClock } from "../../src/services/timing/NodeClock.ts"
import * as Database from "../kit/Database.ts"

const member = (shards: ReadonlyArray<TaskShard.TaskShard>): Member => ({
  address: "a",
  version: "1",
  isSelf: true,
  startedAt: 0 as Member["startedAt"],
  seenAt: 0 as Member["seenAt"],
  isDrained: false,
  shards,
  tasks: 0,
  nextDue: null,
  lateness: 0
})

const all = Array.from({ length: TaskShard.count }, (_, shard) => shard)
let owned = all
let lastSweep = 0

const layerStubs = Layer.mergeAll(
  Layer.succeed(ClusterNodes, { all: Effect.sync(() => [member(owned)]) }),
  Layer.effect(
    TaskOwnership,
    Effect.map(Layer.build(TaskOwnership.layerAlone), (context) => ({
      ...Context.get(context, TaskOwnership),
      shards: () => []
    }))
  ),
  Layer.mock(TaskSweeper, { lastSweep: Effect.sync(() => lastSweep) }),
  // Without the clock of the machine, which it would provide as well.
  Layer.effect(
    NodeClock,
    Effect.map(Layer.build(NodeClock.layer()), (context) => Context.get(context, NodeClock))
  )
)

layer(Layer.provide(ReadinessSql.layer, [layerStubs, Database.layer]))("a node of a cluster", (it) => {
  const problems = Effect.flatMap(Readiness, ({ checks }) => checks).pipe(
    Effect.map((found) =>
      found.filter(({ name, problem }) => problem !== null && name !== "clock").map(({ name, problem }) =>
        `${name}: ${problem}`
      )
    )
  )

  it.effect("is not ready once shards have had no owner for longer than a takeover takes", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* problems, [])
      owned = all.slice(3)
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(yield* problems, [])
      yield* TestClock.adjust("14 seconds")
      assert.includeMembers([...yield* problems], ["shards: 3 have no owner"])
      owned = all
      yield* TestClock.adjust("5 seconds")
      assert.notInclude((yield* problems).join(), "owner")
    }))

  it.effect("is not ready while its sweeps stall", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("20 seconds")
      assert.match((yield* problems).join(), /progress: no sweep for \d+ s/)
    }))
})
