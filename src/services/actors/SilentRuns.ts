/**
 * Finds the runs of this node that were silent for longer than their core declared, claims them in the store, so that one node alone
 * hands a run over, and queues them for recovery. The sweep calls it, so that time without the database does not count.
 */
import { Duration, Effect } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { TaskHead, TaskId } from "../../domain/Task.ts"
import { fromMicros, now, plus, type Timestamp } from "../../domain/Timestamp.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import { CoreClient } from "../core/CoreClient.ts"
import { lookInterval } from "../core/CoreReach.ts"
import { Settings } from "../settings/Settings.ts"
import { TaskReads } from "../store/tasks/TaskReads.ts"
import { TaskWrites } from "../store/tasks/TaskWrites.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import { type Actor, isQuiet, isSilent, type MutableActor } from "./Decision.ts"

/** Runs of one check: the rest waits for the next sweep. */
const batch = 1000
/** A sweep takes at most this long, unless the database or this node hangs. */
const sweepTime = Duration.seconds(1)
/** After a gap of this length the core has to reach the service again: its silence counts from the start. */
const longGap = Duration.seconds(5)

/** After every deadline. */
const never = fromMicros(Infinity)

const micros = (duration: Duration.Duration) => Duration.toMillis(duration) * 1000

interface Options {
  readonly actors: ReadonlyMap<TaskId, MutableActor>
  /** The run was claimed: it is handed over. */
  readonly handOver: (head: TaskHead) => void
  readonly wake: (head: TaskHead) => Effect.Effect<void>
}

export const make = Effect.fnUntraced(function*({ actors, handOver, wake }: Options) {
  const writes = yield* TaskWrites
  const reads = yield* TaskReads
  const { stuckAfter, sweepInterval } = yield* Settings
  const core = yield* CoreClient
  const { isMine } = yield* TaskOwnership
  const scope = yield* Effect.scope
  let checkedAt = yield* now
  // Without live tasks there is no sweep, and alerts need the series.
  Metrics.stuckRuns.set(0)

  const countFrom = (id: TaskId, at: Timestamp, handOvers: number): void => {
    const actor = actors.get(id)
    if (actor === undefined) return
    actor.quietSince = at
    actor.handOvers = handOvers
  }

  /** Leaves out the time in which this node could not have recorded an event. */
  const discountGap = (at: Timestamp) => {
    const lost = at - checkedAt - micros(Duration.sum(sweepInterval, sweepTime))
    checkedAt = at
    if (lost <= 0) return
    for (const [id, { handOvers, quietSince }] of actors) {
      if (quietSince > at) continue
      countFrom(id, lost > micros(longGap) ? at : fromMicros(Math.min(quietSince + lost, at)), handOvers)
    }
  }

  const findSilent = (at: Timestamp) => {
    const silent: Array<Actor> = []
    let handedOver = 0
    let stuck = 0
    let isAnyQuiet = false
    const stuckSince = plus(at, Duration.negate(stuckAfter))
    const quietSince = plus(at, Duration.negate(lookInterval))
    for (const actor of actors.values()) {
      if (actor.handOvers > 0) handedOver++
      isAnyQuiet ||= isQuiet(actor, quietSince)
      if (isQuiet(actor, stuckSince)) stuck++
      if (silent.length < batch && isSilent(actor, at) && isMine(actor.head.uuid)) silent.push(actor)
    }
    Metrics.silentRuns.set(handedOver)
    Metrics.stuckRuns.set(stuck)
    return { isAnyQuiet, silent }
  }

  const claim = Effect.fnUntraced(function*(silent: ReadonlyArray<Actor>, at: Timestamp) {
    const heads = new Map(silent.map(({ head }) => [head.uuid, head]))
    const asked = silent.map(({ head: { revision, runId, uuid }, quietSince }) => ({
      uuid,
      runId,
      revision,
      since: quietSince
    }))
    let claimed = 0
    for (const { handOvers, isClaimed, since, uuid } of yield* writes.claimSilent(asked, at)) {
      const head = heads.get(uuid)
      if (head === undefined) continue
      if (!isClaimed) {
        countFrom(uuid, since, handOvers)
        continue
      }
      heads.delete(uuid)
      claimed++
      // Its silence counts again from the core's answer.
      countFrom(uuid, never, handOvers)
      handOver(head)
    }
    if (claimed > 0) {
      Metrics.handOvers.add(claimed)
      yield* Effect.annotateLogs(Effect.logWarning("silent runs are handed over to the core again"), { runs: claimed })
    }
    // Another node has changed these tasks, or heard of their runs.
    if (heads.size > 0) yield* Effect.forEach(yield* reads.heads([...heads.keys()]), wake, { discard: true })
  })

  return Effect.gen(function*() {
    const at = yield* now
    discountGap(at)
    const { isAnyQuiet, silent } = findSilent(at)
    // Nobody waits for the connection.
    if (isAnyQuiet) yield* Effect.forkIn(core.unreachable(lookInterval), scope)
    if (silent.length > 0) yield* claim(silent, at)
  }) satisfies Effect.Effect<void, StoreUnavailable>
})
