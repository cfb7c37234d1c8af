import { assert, describe, it } from "@effect/vitest"
import { Clock, DateTime, Deferred, Effect, Schema } from "effect"
import { sampleOf } from "../../../src/domain/ClockOffset.ts"
import { now, plus } from "../../../src/domain/Timestamp.ts"
import * as NodeClock from "../../../src/services/timing/NodeClock.ts"
import * as Timers from "../../../src/services/timing/Timers.ts"

const epoch = 1_795_000_000_000

/** A machine whose clocks the test sets. `wall` is correct at first. */
const makeMachine = () => {
  const machine = { local: 1000, ahead: 0 }
  const clock = NodeClock.make({ monotonic: () => machine.local, wall: () => epoch + machine.local + machine.ahead })
  /** Milliseconds that the database's clock is ahead of the machine's initial wall clock. */
  const follow = (more = 0, uncertainty = 0.5) =>
    clock.follow(sampleOf(machine.local - uncertainty, epoch + machine.local + more, machine.local + uncertainty))
  return { clock, follow, machine }
}

/** Changes that a sample shows to be ones, however old the one before it is. */
const Change = Schema.Int.check(Schema.isBetween({ minimum: -20_000, maximum: 20_000 }))
const Pause = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 30_000 }))
const Corrections = Schema.Array(Schema.Struct({ pause: Pause, change: Change })).check(Schema.isMaxLength(20))

describe("the node's clock", () => {
  it("follows the wall clock until the first sample, and the database's clock immediately after it", () => {
    const { clock, follow, machine } = makeMachine()
    machine.ahead = 3000
    assert.strictEqual(clock.clock.currentTimeMillisUnsafe(), epoch + 1000)
    assert.strictEqual(NodeClock.problemOf(clock.status()), "the database's clock was never read")
    assert.strictEqual(follow(-3_600_000), 0)
    assert.strictEqual(clock.clock.currentTimeMillisUnsafe(), epoch + 1000 - 3_600_000)
    assert.strictEqual(NodeClock.problemOf(clock.status()), null)
  })

  it("ignores changes of the wall clock and reports them", () => {
    const { clock, follow, machine } = makeMachine()
    follow()
    machine.ahead = -3_600_000
    machine.local += 5000
    assert.strictEqual(clock.clock.currentTimeMillisUnsafe(), epoch + 6000)
    const { sampleAge, uncertainty, wallOffset } = clock.status()
    assert.closeTo(wallOffset, -3_600_000, 0.001)
    assert.closeTo(sampleAge, 4999.5, 0.001)
    assert.closeTo(uncertainty, 3, 0.001)
  })

  it("steps after the machine was suspended, and calls its listeners", () =>
    Effect.runPromise(Effect.scoped(Effect.gen(function*() {
      const { clock, follow } = makeMachine()
      follow()
      let woken = 0
      yield* clock.onStep(() => woken++)
      // The monotonic clock stopped for an hour.
      assert.closeTo(follow(3_600_000), 3_600_000, 0.001)
      assert.strictEqual(clock.clock.currentTimeMillisUnsafe(), epoch + 1000 + 3_600_000)
      assert.strictEqual(woken, 1)
    }))))

  it("stands still while it is ahead, and adds what is left to its uncertainty", () => {
    const { clock, follow, machine } = makeMachine()
    follow()
    assert.strictEqual(clock.clock.currentTimeMillisUnsafe(), epoch + 1000)
    assert.closeTo(follow(-1000), -1000, 0.001)
    assert.strictEqual(clock.clock.currentTimeMillisUnsafe(), epoch + 1000)
    assert.closeTo(clock.status().uncertainty, 1000.5, 0.01)
    machine.local += 600
    assert.strictEqual(clock.clock.currentTimeMillisUnsafe(), epoch + 1000)
    assert.closeTo(clock.status().uncertainty, 400.8, 0.01)
    machine.local += 600
    assert.strictEqual(clock.clock.currentTimeMillisUnsafe(), epoch + 1200)
    assert.closeTo(clock.status().uncertainty, 1.1, 0.01)
  })

  it.prop("never goes back but by more than five seconds, and is the sampled time unless it was ahead of it", [
    Corrections
  ], ([corrections]) => {
    const { clock, follow, machine } = makeMachine()
    follow()
    let offset = 0
    let latest = 0
    for (const { change, pause } of corrections) {
      machine.local += pause
      offset += change
      const before = clock.clock.currentTimeMillisUnsafe()
      const step = follow(offset)
      const present = clock.clock.currentTimeMillisUnsafe()
      const sampled = Math.floor(epoch + machine.local + offset)
      assert.closeTo(step, change, 0.001)
      latest = step < -NodeClock.maxHeld ? 0 : Math.max(latest, before)
      assert.closeTo(present, Math.max(sampled, latest), 1)
      assert.isAtLeast(present, latest)
      latest = present
    }
  })

  it("follows a database clock that was set back by an hour, as newly started nodes do", () => {
    const { clock, follow } = makeMachine()
    follow()
    assert.closeTo(follow(-3_600_000), -3_600_000, 0.001)
    assert.strictEqual(clock.clock.currentTimeMillisUnsafe(), epoch + 1000 - 3_600_000)
  })

  it("reports a problem when the last sample is old", () => {
    const { clock, follow, machine } = makeMachine()
    follow()
    machine.local += 3_600_000
    assert.match(NodeClock.problemOf(clock.status()) ?? "", /^may be 1\.8 s off .* 3600 s ago$/)
  })

  it("is the Clock of layers built on it, in whole milliseconds and microseconds", () => {
    const machine: NodeClock.MachineClocks = { monotonic: () => 1.2345678, wall: () => epoch }
    return Effect.runPromise(
      Effect.gen(function*() {
        assert.strictEqual(yield* Clock.currentTimeMillis, epoch)
        assert.strictEqual((yield* DateTime.now).epochMilliseconds, epoch)
        assert.strictEqual(yield* now, epoch * 1000)
      }).pipe(Effect.provide(NodeClock.NodeClock.layer(machine)))
    )
  })

  it("costs at most a constant factor of the monotonic clock", () => {
    const { clock } = NodeClock.make(NodeClock.machineClocks)
    const time = (read: () => unknown) => {
      const begun = performance.now()
      for (let count = 0; count < 100_000; count++) read()
      return performance.now() - begun
    }
    // Pairs, because a busy machine slows neighbouring measurements alike.
    const ratios = Array.from({ length: 10 }, () => time(clock.currentTimeMillisUnsafe) / time(() => performance.now()))
    assert.isBelow(Math.min(...ratios), 3)
  })
})

describe("timers", () => {
  it("fire after a step of the clock to their moment, although they sleep for the earlier duration", () => {
    const { clock, follow, machine } = makeMachine()
    follow()
    return Effect.runPromise(
      Effect.gen(function*() {
        const rung = yield* Deferred.make<string>()
        const alarms = yield* Timers.make((id: string) => Deferred.succeed(rung, id))
        alarms.set("a minute", plus(yield* now, "1 minute"))
        // The timer goes to sleep.
        yield* Effect.sleep("10 millis")
        machine.local += 1
        follow(3_600_000)
        assert.strictEqual(yield* Deferred.await(rung), "a minute")
      }).pipe(
        Effect.scoped,
        Effect.provideService(Clock.Clock, clock.clock),
        Effect.provideService(NodeClock.NodeClock, clock)
      )
    )
  })
})
