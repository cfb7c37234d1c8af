/**
 * The node's time: the machine's monotonic clock plus an offset to the database's clock. The machine's wall clock gives
 * the offset until the first sample of the database. After that it is only compared, never followed.
 */
import { Clock, Context, Effect, Layer, type Scope } from "effect"
import { combine, type Sample, uncertaintyAt } from "../../domain/ClockOffset.ts"

/** The machine's clocks, in milliseconds. */
export interface MachineClocks {
  /** From an arbitrary origin. It may stop while the machine is suspended. */
  readonly monotonic: () => number
  /** Measured from the Unix epoch. */
  readonly wall: () => number
}

const machineClock = Clock.Clock.defaultValue()

export const machineClocks: MachineClocks = {
  monotonic: () => performance.now(),
  wall: () => machineClock.currentTimeMillisUnsafe()
}

/** Milliseconds. */
export interface ClockStatus {
  /** The machine's wall clock less the database's. */
  readonly wallOffset: number
  /** Maximum error of the node's time; infinite without a sample. */
  readonly uncertainty: number
  /** Age of the last sample that was used; infinite without a sample. */
  readonly sampleAge: number
}

/** Milliseconds. A node with a larger uncertainty is not ready. */
const maxUncertainty = 1000

/** The reason why a node with this clock is not ready; null when it is. */
export const problemOf = ({ sampleAge, uncertainty }: ClockStatus): string | null => {
  if (uncertainty <= maxUncertainty) return null
  return sampleAge === Infinity
    ? "the database's clock was never read"
    : `may be ${(uncertainty / 1000).toFixed(1)} s off the database's, which was last read ${
      Math.round(sampleAge / 1000)
    } s ago`
}

const makeClock = (timeOf: (local: number) => number, { monotonic }: MachineClocks): Clock.Clock => {
  const currentTimeMillisUnsafe = () => Math.floor(timeOf(monotonic()))
  const currentTimeNanosUnsafe = () => BigInt(Math.floor(timeOf(monotonic()) * 1000)) * 1000n
  return {
    currentTimeMillisUnsafe,
    currentTimeMillis: Effect.sync(currentTimeMillisUnsafe),
    currentTimeNanosUnsafe,
    currentTimeNanos: Effect.sync(currentTimeNanosUnsafe),
    monotonicTimeNanosUnsafe: () => machineClock.monotonicTimeNanosUnsafe(),
    monotonicTimeNanos: machineClock.monotonicTimeNanos,
    sleep: (duration) => machineClock.sleep(duration)
  }
}

/**
 * Milliseconds. A longer way back is a step, because the database's clock was set back: a node that waited until the database's time has
 * caught up would end the tasks of newly started nodes too early. On a shorter one the node's time stands still.
 */
export const maxHeld = 5000

export const make = (machine: MachineClocks) => {
  const initial = machine.wall() - machine.monotonic()
  let known: Sample | undefined
  let latest = 0
  const listeners = new Set<() => void>()

  const timeOf = (local: number) => {
    latest = Math.max(latest, local + (known?.offset ?? initial))
    return latest
  }

  const follow = (sample: Sample): number => {
    const before = known
    known = before === undefined ? sample : combine(before, sample)
    if (known === before) return 0
    // Nothing has used the wall clock's offset before the first sample, so it is replaced without a step.
    const step = before === undefined ? 0 : known.offset - before.offset
    if (before === undefined || step < -maxHeld) latest = 0
    if (step !== 0) { for (const listener of listeners) listener() }
    return step
  }

  return {
    clock: makeClock(timeOf, machine),
    machine,
    /** Applies a sample of the database's clock; returns the step to its offset in milliseconds, mostly a fraction of one. */
    follow,
    status: (): ClockStatus => {
      const local = machine.monotonic()
      const time = timeOf(local)
      const wallOffset = machine.wall() - time
      if (known === undefined) return { wallOffset, uncertainty: Infinity, sampleAge: Infinity }
      const held = time - local - known.offset
      return { wallOffset, uncertainty: uncertaintyAt(known, local) + held, sampleAge: local - known.at }
    },
    /** Calls `listener` after every step, so that sleepers until a moment recompute the time that is left. */
    onStep: (listener: () => void): Effect.Effect<void, never, Scope.Scope> =>
      Effect.acquireRelease(
        Effect.sync(() => void listeners.add(listener)),
        () => Effect.sync(() => void listeners.delete(listener))
      )
  }
}

/** Optional for services: under TestClock there is none. */
export class NodeClock extends Context.Service<NodeClock, ReturnType<typeof make>>()(
  "async-task-service/services/timing/NodeClock"
) {
  /** Also replaces the `Clock` of all layers built on it. */
  static readonly layer = (machine: MachineClocks = machineClocks): Layer.Layer<NodeClock> =>
    Layer.unwrap(Effect.sync(() => {
      const made = make(machine)
      return Layer.merge(Layer.succeed(NodeClock, made), Layer.succeed(Clock.Clock, made.clock))
    }))
}
