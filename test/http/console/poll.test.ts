import { afterEach, assert, beforeEach, describe, it, vi } from "vitest"
import { RateLimitError } from "../../../src/http/client/promise/ApiErrors.ts"
import { delayAfter, isAway, poll } from "../../../src/http/console/poll.ts"

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
  isAway.value = false
})

describe("poll", () => {
  it("reads again after the interval, backs off after failures, keeps the last data, and recovers", async () => {
    let [reads, isBroken] = [0, false]
    const { start, state } = poll(async () => {
      reads++
      if (isBroken) throw new Error("away")
      return reads
    }, () => 3000)
    const stop = start()
    await vi.advanceTimersByTimeAsync(0)
    assert.strictEqual(state.value.data, 1)
    await vi.advanceTimersByTimeAsync(3000)
    assert.strictEqual(state.value.data, 2)
    isBroken = true
    // Retries follow after about 1, 2, 4 and 8 s.
    await vi.advanceTimersByTimeAsync(3000 + 20_000)
    assert.deepInclude(state.value, { data: 2, error: new Error("away") })
    assert.isTrue(reads >= 5 && reads <= 8, String(reads))
    isBroken = false
    await vi.advanceTimersByTimeAsync(40_000)
    assert.isUndefined(state.value.error)
    stop()
    const before = reads
    await vi.advanceTimersByTimeAsync(60_000)
    assert.strictEqual(reads, before)
  })

  it("pauses while the tab is hidden, and reads once when it is visible again", async () => {
    let reads = 0
    const stop = poll(async () => ++reads, () => 1000).start()
    await vi.advanceTimersByTimeAsync(0)
    isAway.value = true
    await vi.advanceTimersByTimeAsync(60_000)
    assert.strictEqual(reads, 1)
    isAway.value = false
    await vi.advanceTimersByTimeAsync(0)
    assert.strictEqual(reads, 2)
    stop()
  })

  it("honours Retry-After", () => {
    const error = new RateLimitError(429, "Too many", new Headers({ "retry-after": "7" }))
    assert.strictEqual(delayAfter(1, error), 7000)
    assert.isBelow(delayAfter(1, new Error("away")), 1300)
  })
})
