import { assert, describe, it } from "vitest"
import { kinds, measureOutage, noticed } from "./kit/outage.ts"

describe("an unavailable database", () => {
  it.each(kinds)("%s: fast 503s, a healthy process, and full speed after its return", async (kind) => {
    const report = await measureOutage(kind, {
      readers: 100,
      creators: 10,
      pause: 20,
      before: 1500,
      outage: 4000,
      after: 1500
    })
    const { after, away, before, health, logged, slowestBefore } = report
    const seen = JSON.stringify(report)
    // Responses of calls in flight when the outage began, and of calls during it.
    assert.deepStrictEqual(Object.keys(away.statuses).filter((status) => !/^(200|201|429|503)$/.test(status)), [], seen)
    assert.isAbove(away.statuses[503] ?? 0, kind === "immediate restart" ? 0 : 300, seen)
    // Other suites share the machine, so delays that this measurement itself shows are allowed on top.
    const slack = 3 * slowestBefore + health.worst
    assert.isBelow(away.slowest, noticed + slack, seen)
    assert.isBelow(away.slowestLater, 1000 + slack, seen)
    assert.isBelow(health.p99, 100 + 2 * slowestBefore, seen)
    assert.isAbove(after, before * 0.5, seen)
    assert.isBelow(logged, 20_000, seen)
  })
})
