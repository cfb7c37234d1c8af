import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { best, combine, type Sample, sampleOf, uncertaintyAt } from "../../src/domain/ClockOffset.ts"

const epoch = 1_795_000_000_000

/** Milliseconds with three digits after the point. */
const millis = (minimum: number, maximum: number) =>
  Schema.Int.check(Schema.isBetween({ minimum: minimum * 1000, maximum: maximum * 1000 }))
const inMillis = (micros: number) => micros / 1000

const Trip = Schema.Struct({ pause: millis(0, 60_000), there: millis(0, 3000), back: millis(0, 3000) })
const Trips = Schema.Array(Trip).check(Schema.isMaxLength(30))
/** Millionths. */
const Drift = Schema.Int.check(Schema.isBetween({ minimum: -400, maximum: 400 }))

describe("samples of a remote clock", () => {
  it("assume half the round trip for the way back, and as the uncertainty", () => {
    assert.deepStrictEqual(sampleOf(1000, epoch, 1010), { offset: epoch - 1005, uncertainty: 5, at: 1010 })
    const samples = [sampleOf(0, epoch, 9), sampleOf(10, epoch, 12), sampleOf(20, epoch, 25)] as const
    assert.strictEqual(best([...samples]), samples[1])
  })

  it.prop("bound the true offset for any delays and any drift of two correct clocks", [Trips, Drift], ([
    trips,
    drift
  ]) => {
    let local = 0
    const remoteAt = (at: number) => epoch + at * (1 + drift / 1e6)
    let known: Sample | undefined
    for (const trip of trips) {
      const sentAt = local + inMillis(trip.pause)
      const readAt = sentAt + inMillis(trip.there)
      local = readAt + inMillis(trip.back)
      const sample = sampleOf(sentAt, remoteAt(readAt), local)
      known = known === undefined ? sample : combine(known, sample)
      // The drift within a trip of 6 s is not counted: 2.4 ms.
      const wrongBy = Math.abs(known.offset - (remoteAt(local) - local))
      assert.isAtMost(wrongBy, uncertaintyAt(known, local) + 2.5)
    }
  })

  it("are dropped after a slow round trip until the known sample has aged", () => {
    const known = sampleOf(0, epoch, 2)
    const slow = (sentAt: number) => sampleOf(sentAt, epoch + sentAt + 1, sentAt + 40)
    assert.strictEqual(combine(known, slow(10_000)), known)
    const late = slow(60_000)
    assert.strictEqual(combine(known, late), late)
  })

  it("replace a better known sample when they show that a clock was set", () => {
    const known = sampleOf(0, epoch, 2)
    for (const change of [-3_600_000, -100, 100, 3_600_000]) {
      const slow = sampleOf(1000, epoch + 1000 + change, 1040)
      assert.strictEqual(combine(known, slow), slow)
    }
  })
})
