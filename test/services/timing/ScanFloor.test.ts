import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { TestClock } from "effect/testing"
import { now, plus, Timestamp } from "../../../src/domain/Timestamp.ts"
import * as ScanFloor from "../../../src/services/timing/ScanFloor.ts"

const before = (moment: Timestamp, millis: number) => plus(moment, Duration.millis(-millis))

describe("the floor of scans", () => {
  it.effect("is where the scan before found nothing older, less a quarter of a second, and at the first moment every 5 seconds", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(1_000_000)
      const floor = ScanFloor.make()
      const start = yield* now
      assert.strictEqual(yield* floor.from(start), ScanFloor.lowest)
      // The full scan left rows, or failed.
      assert.strictEqual(yield* floor.from(start), ScanFloor.lowest)
      yield* floor.raise(start)
      assert.strictEqual(yield* floor.from(start), before(start, 250))
      yield* TestClock.adjust("4999 millis")
      const later = yield* now
      assert.strictEqual(yield* floor.from(later), before(start, 250))
      yield* floor.raise(later)
      assert.strictEqual(yield* floor.from(later), before(later, 250))
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* floor.from(yield* now), ScanFloor.lowest)
    }))

  it.effect("is full less often the longer full scans take, and lower the longer any scan takes", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(1_000_000)
      const floor = ScanFloor.make()
      const scan = Effect.fnUntraced(function*(millis: number) {
        const at = yield* now
        const from = yield* floor.from(at)
        yield* TestClock.adjust(Duration.millis(millis))
        yield* floor.raise(at)
        return { at, from }
      })
      // What the first full scan takes more than others is not known.
      assert.strictEqual((yield* scan(9)).from, ScanFloor.lowest)
      const usual = yield* scan(2)
      for (const millis of [7, 1000, 5]) {
        yield* TestClock.adjust("5 seconds")
        assert.strictEqual((yield* scan(millis)).from, ScanFloor.lowest)
      }
      const slow = yield* scan(500)
      assert.strictEqual(slow.from, before(plus(slow.at, Duration.millis(-5)), 250))
      assert.strictEqual((yield* scan(0)).from, before(slow.at, 10_000))
      assert.isBelow(usual.at, slow.at)
      yield* TestClock.adjust("5494 millis")
      assert.isAbove((yield* scan(0)).from, ScanFloor.lowest)
      yield* TestClock.adjust("1 millis")
      assert.strictEqual((yield* scan(0)).from, ScanFloor.lowest)
    }))

  it.effect("is below what this node has committed, however long that took and whatever a scan found meanwhile", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(1_000_000)
      const floor = ScanFloor.make()
      const start = yield* now
      yield* floor.from(start)
      yield* floor.raise(start)
      yield* TestClock.adjust("3 seconds")
      const later = yield* now
      yield* floor.from(later)
      floor.lower(before(start, 7000))
      yield* floor.raise(later)
      assert.strictEqual(yield* floor.from(later), before(start, 7000))
      yield* floor.raise(later)
      assert.strictEqual(yield* floor.from(later), before(later, 250))
    }))

  it.effect("follows a clock that goes back", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(1_000_000)
      const floor = ScanFloor.make()
      const start = yield* now
      yield* floor.from(start)
      yield* floor.raise(start)
      assert.strictEqual(yield* floor.from(before(start, 60_000)), before(start, 60_250))
    }))

  it.effect("leaves no row that becomes visible late for longer than 5 seconds", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(1_000_000)
      const floor = ScanFloor.make()
      let rows: ReadonlyArray<{ readonly due: Timestamp; readonly visible: Timestamp }> = []
      for (let step = 0; step < 400; step++) {
        const at = yield* now
        const from = yield* floor.from(at)
        const waits = (row: typeof rows[number]) => row.visible > at || row.due < from || row.due > at
        for (const { due, visible } of rows.filter((row) => !waits(row))) {
          assert.isAtMost((at - Math.max(due, visible)) / 1000, 5100)
        }
        rows = rows.filter(waits)
        yield* floor.raise(at)
        // Commits take up to 4 s.
        rows = [...rows, { due: at, visible: Timestamp.make(at + (step * 7919 % 4000) * 1000) }]
        yield* TestClock.adjust("100 millis")
      }
      assert.isBelow(rows.length, 100)
    }))
})
