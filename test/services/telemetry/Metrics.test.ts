import { assert, describe, it } from "@effect/vitest"
import { Effect, Metric } from "effect"
import * as Metrics from "../../../src/services/telemetry/Metrics.ts"

const seriesOf = (name: string) =>
  Effect.map(
    Metric.snapshot,
    (all) => all.filter(({ id }) => id === name).map(({ attributes, state }) => [attributes, state])
  )

describe("a metric", () => {
  it.effect("has a series for each set of label values", () =>
    Effect.gen(function*() {
      Metrics.clusterNotifications.add(2, "sent")
      Metrics.clusterNotifications.add(3, "received")
      Metrics.clusterNotifications.add(1, "sent")
      assert.deepStrictEqual(yield* seriesOf("cluster.notifications"), [
        [{ direction: "sent" }, { count: 3, incremental: true }],
        [{ direction: "received" }, { count: 3, incremental: true }]
      ])
    }))

  it.effect("is observed while the scope is open", () =>
    Effect.gen(function*() {
      yield* Effect.scoped(Effect.gen(function*() {
        yield* Metrics.actors.observe(() => 7)
        assert.deepStrictEqual(yield* seriesOf("task.active"), [[{}, { value: 7 }]])
      }))
      assert.deepStrictEqual(yield* seriesOf("task.active"), [])
    }))

  it("has its unit in the name for Prometheus", () => {
    assert.strictEqual(Metrics.prometheusName("task.deadline.overdue"), "task_deadline_overdue_seconds")
    assert.strictEqual(Metrics.prometheusName("cluster.notifications"), "cluster_notifications_total")
  })
})
