import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Metric, Struct } from "effect"
import * as Limits from "../../../src/domain/Limits.ts"
import { Memory, Sizes, sizes } from "../../../src/services/limits/Memory.ts"

const mebibyte = 1024 * 1024

/** The values of one gauge of a use, by its name. */
const gaugesOf = (use: string) =>
  Effect.map(Metric.snapshot, (metrics) =>
    Object.fromEntries(
      metrics.flatMap((metric) =>
        metric.attributes?.["use"] === use && metric.type === "Gauge" ? [[metric.id, Number(metric.state.value)]] : []
      )
    ))

describe("the memory of large texts", () => {
  it("is 208 MiB for users and 226 MiB for the core, as the deployment page says", () => {
    const sumOf = (budget: string) =>
      Struct.keys(sizes).reduce((sum, use) => sizes[use].budget === budget ? sum + sizes[use].total : sum, 0) / mebibyte
    assert.deepStrictEqual([sumOf("users"), sumOf("core") + Limits.rpcBytesInFlight / mebibyte], [208, 226])
  })

  it.effect("shows what is held, the limit and who waits, and no user takes another's share", () =>
    Effect.gen(function*() {
      const { sent } = yield* Memory
      yield* sent.take("ann", 60)
      const second = yield* Effect.forkChild(Effect.scoped(sent.take("ann", 30)), { startImmediately: true })
      yield* sent.take("bob", 30)
      assert.deepStrictEqual(yield* gaugesOf("sent"), {
        "memory.in_use": 90,
        "memory.limit": 100,
        "memory.waiting": 1
      })
      yield* Fiber.interrupt(second)
      assert.strictEqual((yield* gaugesOf("sent"))["memory.waiting"], 0)
      // More than a user may hold counts as all of it.
      yield* Effect.scoped(sent.take("eve", 1000)).pipe(Effect.forkChild({ startImmediately: true }))
      assert.strictEqual((yield* gaugesOf("sent"))["memory.waiting"], 1)
    }).pipe(
      Effect.scoped,
      Effect.provide(Memory.layer),
      Effect.provideService(Sizes, { ...sizes, sent: { budget: "users", total: 100, perHolder: 60 } })
    ))
})
