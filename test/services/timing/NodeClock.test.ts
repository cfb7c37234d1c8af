import { assert, describe, it } from "@effect/vitest"
import { Clock, DateTime, Deferred, Effect } from "effect"
import { sampleOf } from "../../../src/domain/ClockOffset.ts"
import { now, plus } from "../../../src/domain/Timestamp.ts"
import * as NodeClock from "../../../src/services/timing/NodeClock.ts"
import * as TimerQueue from "../../../src/services/timing/TimerQueue.ts"

const epoch = 1_795_000_000_000

/** A machine whose clocks a test moves; `wall` is right at first. */
const makeMachine = () => {
  const machine = { local: 1000, ahead: 0 }
  const clock = NodeClock.make({ monotonic: () => machine.local, wall: () => epoch + machine.local + machine.ahead })
  /** The database's clock says so much more than the machine's wall clock did at first. */
  const follow = (more = 0, uncertainty = 0.5) =>
    clock.follow(sampleOf(machine.local - uncertainty, epoch + machine.local + more, machine.local + uncertainty))
  return { clock, follow, machine }
}

describe("the node's clock", () => {
  it("goes by the wall clock until the first sample, and by the database's at once after it", () => {
    const { clock, follow, machine } = makeMachine()
    machine.ahead = 3000
    assert.strictEqual(clock.clock.currentTimeMillisUnsafe(), epoch + 1000)
    assert.strictEqual(NodeClock.problemOf(clock.status()), "the database's clock was never read")
    assert.strictEqual(follow(-3_600_000), 0)
    assert.strictEqual(clock.clock.currentTimeMillisUnsafe(), epoch + 1000 - 3_600_000)
    assert.strictEqual(NodeClock.problemOf(clock.status()), null)
  })

  it("does not care what is done to the wall clock, and reports it", () => {
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

  it("catches up with a machine that was suspended, and wakes who sleeps until a moment", () =>
    Effect.runPromise(Effect.scoped(Effect.gen(function*() {
      const { clock, follow } = makeMachine()
      follow()
      let woken = 0
      yield* clock.onStep(() => woken++)
      // The monotonic clock stood still for an hour.
      assert.closeTo(follow(3_600_000), 3_600_000, 0.001)
      assert.strictEqual(clock.clock.currentTimeMillisUnsafe(), epoch + 1000 + 3_600_000)
      assert.strictEqual(woken, 1)
    }))))

  it("slows down where it is ahead, and counts what is left in its uncertainty", () => {
    const { clock, follow, machine } = makeMachine()
    follow()
    assert.strictEqual(follow(-1000), 0)
    assert.closeTo(clock.status().uncertainty, 1000.5, 0.01)
    machine.local += 5000
    assert.closeTo(clock.clock.currentTimeMillisUnsafe(), epoch + 6000 - 500, 1)
    machine.local += 5000
    assert.closeTo(clock.clock.currentTimeMillisUnsafe(), epoch + 11_000 - 1000, 1)
  })

  it("follows a database that was set back by an hour, since the nodes that start anew do", () => {
    const { clock, follow } = makeMachine()
    follow()
    assert.closeTo(follow(-3_600_000), -3_600_000, 0.001)
    assert.strictEqual(clock.clock.currentTimeMillisUnsafe(), epoch + 1000 - 3_600_000)
  })

  it("says that it cannot be relied on when the last sample is old", () => {
    const { clock, follow, machine } = makeMachine()
    follow()
    machine.local += 3_600_000
    assert.match(NodeClock.problemOf(clock.status()) ?? "", /^may be 1\.8 s off .* 3600 s ago$/)
  })

  it("is the Clock of all that is built on its layer, in whole milliseconds and microseconds", () => {
    const machine: NodeClock.MachineClocks = { monotonic: () => 1.2345678, wall: () => epoch }
    return Effect.runPromise(
      Effect.gen(function*() {
        assert.strictEqual(yield* Clock.currentTimeMillis, epoch)
        assert.strictEqual((yield* DateTime.now).epochMilliseconds, epoch)
        assert.strictEqual(yield* now, epoch * 1000)
      }).pipe(Effect.provide(NodeClock.NodeClock.layer(machine)))
    )
  })

  it("is as cheap as the monotonic clock, within a factor", () => {
    const { clock } = NodeClock.make(NodeClock.machineClocks)
    const time = (read: () => unknown) => {
      const begun = performance.now()
      for (let count = 0; count < 100_000; count++) read()
      return performance.now() - begun
    }
    const best = (read: () => unknown) => Math.min(...Array.from({ length: 5 }, () => time(read)))
    assert.isBelow(best(clock.currentTimeMillisUnsafe), 3 * best(() => performance.now()) + 1)
  })
})

describe("alarms", () => {
  it("ring when a step has brought their moment, though they slept for what was left before", () => {
    const { clock, follow, machine } = makeMachine()
    follow()
    return Effect.runPromise(
      Effect.gen(function*() {
        const rung = yield* Deferred.make<string>()
        const alarms = yield* TimerQueue.make((id: string) => Deferred.succeed(rung, id))
        alarms.set("a minute", plus(yield* now, "1 minute"))
        // It goes to sleep.
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
