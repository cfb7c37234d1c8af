import { assert, describe, it } from "@effect/vitest"
import { Effect, Metric } from "effect"
import * as Metrics from "../../../src/services/telemetry/Metrics.ts"

const seriesOf = (name: string) =>
  Effect.map(
    Metric.snapshot,
    (all) => all.filter(({ id }) => id === name).map(({ attributes, state }) => [attributes, state])
  )

describe("a renamed metric", () => {
  it.effect("counts under both names, with the former label values under the former one", () =>
    Effect.gen(function*() {
      Metrics.clusterNotifications.add(2, "sent")
      Metrics.clusterNotifications.add(3, "received")
      Metrics.clusterNotifications.add(1, "sent")
      assert.deepStrictEqual(yield* seriesOf("cluster.notifications"), [
        [{ direction: "sent" }, { count: 3, incremental: true }],
        [{ direction: "received" }, { count: 3, incremental: true }]
      ])
      assert.deepStrictEqual(yield* seriesOf("node.hints"), [
        [{ direction: "told" }, { count: 3, incremental: true }],
        [{ direction: "heard" }, { count: 3, incremental: true }]
      ])
    }))

  it.effect("is observed under both names while the scope is open", () =>
    Effect.gen(function*() {
      yield* Effect.scoped(Effect.gen(function*() {
        yield* Metrics.actors.observe(() => 7)
        for (const name of ["task.active", "task.actors"]) {
          assert.deepStrictEqual(yield* seriesOf(name), [[{}, { value: 7 }]])
        }
      }))
      for (const name of ["task.active", "task.actors"]) assert.deepStrictEqual(yield* seriesOf(name), [])
    }))

  it("keeps its unit and is described as deprecated under its former name", () => {
    const renamed = Metrics.definitions.flatMap(({ former, name }) => former === undefined ? [] : [[former.name, name]])
    assert.sameDeepMembers(renamed, [
      ["node.hints", "cluster.notifications"],
      ["task.oldest_due", "task.deadline.overdue"],
      ["cluster.shard.moves", "cluster.shard.reassignments"],
      ["webhook.attempts.lost", "webhook.attempts.abandoned"],
      ["task.actors", "task.active"]
    ])
    for (const [former, name] of renamed) {
      const found = Metrics.definitions.find((definition) => definition.name === former)
      assert.strictEqual(found?.meaning, `deprecated, removed in the next version: use ${name}`)
    }
    assert.strictEqual(Metrics.prometheusName("task.oldest_due"), "task_oldest_due_seconds")
    assert.strictEqual(Metrics.prometheusName("task.deadline.overdue"), "task_deadline_overdue_seconds")
    assert.strictEqual(Metrics.prometheusName("node.hints"), "node_hints_total")
  })
})
