import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import {
  best,
  combine,
  constant,
  type Course,
  maxSlewAhead,
  maxSlewBack,
  offsetAt,
  type Sample,
  sampleOf,
  steer,
  uncertaintyAt
} from "../../src/domain/ClockOffset.ts"

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
  it("take half the round trip for the way back, and for what they may be wrong by", () => {
    assert.deepStrictEqual(sampleOf(1000, epoch, 1010), { offset: epoch - 1005, uncertainty: 5, at: 1010 })
    const samples = [sampleOf(0, epoch, 9), sampleOf(10, epoch, 12), sampleOf(20, epoch, 25)] as const
    assert.strictEqual(best([...samples]), samples[1])
  })

  it.prop("bound the true offset, whatever the delays and however two sound clocks drift", [Trips, Drift], ([
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

  it("are dropped after a slow round trip, until what is known has aged", () => {
    const known = sampleOf(0, epoch, 2)
    const slow = (sentAt: number) => sampleOf(sentAt, epoch + sentAt + 1, sentAt + 40)
    assert.strictEqual(combine(known, slow(10_000)), known)
    const late = slow(60_000)
    assert.strictEqual(combine(known, late), late)
  })

  it("are taken though they are worse, once they show that a clock was set", () => {
    const known = sampleOf(0, epoch, 2)
    for (const change of [-3_600_000, -100, 100, 3_600_000]) {
      const slow = sampleOf(1000, epoch + 1000 + change, 1040)
      assert.strictEqual(combine(known, slow), slow)
    }
  })
})

const Corrections = Schema.Array(
  Schema.Struct({ pause: millis(0, 30_000), change: millis(-maxSlewBack, 100_000) })
).check(Schema.isMaxLength(20))
const Reads = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 200 }))

describe("a node's time", () => {
  it.prop("never goes back but by a step back, and is right ten seconds after the last correction", [
    Corrections,
    Reads
  ], ([corrections, reads]) => {
    let course: Course = constant(epoch)
    let local = 0
    let latest = 0
    const read = () => {
      const time = local + offsetAt(course, local)
      // A double of this size tells half a microsecond.
      assert.isAtLeast(time, latest - 0.0005)
      latest = Math.max(latest, time)
    }
    for (const { change, pause } of corrections) {
      const begun = local
      for (let count = 1; count <= reads; count++) {
        local = begun + inMillis(pause) * count / reads
        read()
      }
      const before = offsetAt(course, local)
      const target = before + inMillis(change)
      const steered = steer(course, target, local)
      assert.strictEqual(steered.step !== 0, target - before > maxSlewAhead || target - before < -maxSlewBack)
      course = steered.course
      if (steered.step < 0) latest = 0
      read()
      assert.closeTo(offsetAt(course, local + 10_000), target, 0.001)
    }
  })

  it.prop("goes at half its speed at least, and a fortieth faster at most, while it is corrected", [
    millis(-maxSlewBack, maxSlewAhead),
    millis(0, 20_000),
    millis(1, 1000)
  ], (given) => {
    const [change = 0, at = 0, span = 0] = given.map(inMillis)
    const { course, step } = steer(constant(epoch), epoch + change, 0)
    assert.strictEqual(step, 0)
    const passed = span + offsetAt(course, at + span) - offsetAt(course, at)
    assert.isAtLeast(passed, span / 2 - 0.001)
    assert.isAtMost(passed, span * 1.025 + 0.001)
  })

  it("is stepped where a slew would take too long", () => {
    for (const change of [maxSlewAhead + 1, 3_600_000, -maxSlewBack - 1, -3_600_000]) {
      const { course, step } = steer(constant(epoch), epoch + change, 7)
      assert.strictEqual(step, change)
      assert.strictEqual(offsetAt(course, 7), epoch + change)
    }
  })
})
