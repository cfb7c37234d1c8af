import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import * as Limits from "../../src/domain/Limits.ts"
import { TaskId } from "../../src/domain/Task.ts"
import * as Webhook from "../../src/domain/Webhook.ts"

describe("the schedule of a delivery", () => {
  it.effect("has five attempts with delays of 10, 30, 60 and 120 s", () =>
    Effect.gen(function*() {
      const delays = yield* Webhook.delays
      assert.deepStrictEqual(delays.map((delay) => Duration.toSeconds(delay)), [10, 30, 60, 120])
      assert.strictEqual(delays.length + 1, Limits.webhookAttempts)
    }))

  it.effect("derives each delay from the attempt count, never shortens it and adds at most 5 %", () =>
    Effect.gen(function*() {
      const bases = [10, 30, 60, 120]
      for (let round = 0; round < 200; round++) {
        for (const [index, base] of bases.entries()) {
          const delay = Duration.toSeconds((yield* Webhook.nextDelay(index + 1))!)
          assert.isAtLeast(delay, base)
          assert.isAtMost(delay, base * 1.05)
        }
      }
      for (const spent of [5, 6, 100]) assert.isUndefined(yield* Webhook.nextDelay(spent))
    }))
})

describe("a delivery's id", () => {
  const taskId = TaskId.make("019ac5d2-7f3e-7c41-9b1a-2f60c8a7d913")

  it("is parsed to the key that it was made from", () => {
    const key = { taskId, revision: 17 }
    assert.deepStrictEqual(Webhook.parseDeliveryId(Webhook.deliveryId(key)), key)
  })

  it("is not parsed from any other text", () => {
    for (
      const text of [
        "",
        "x",
        taskId,
        `${taskId}-`,
        `${taskId}--1`,
        `${taskId}-1e3`,
        `${taskId}-99999999999`,
        `x${taskId}-1`
      ]
    ) {
      assert.isUndefined(Webhook.parseDeliveryId(text), text)
    }
  })
})
