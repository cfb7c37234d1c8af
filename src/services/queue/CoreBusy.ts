/**
 * The pace of this node's runs. A core that answers that it has no room has shown its capacity: from then on the node gives it as many runs
 * as it has, one more whenever one of them ends, and a probe from time to time. Nothing here is stored: another node finds out for itself.
 */
import { Context, Duration, Effect, Latch, Layer } from "effect"
import { longestRetryAfter } from "../../domain/DispatchRetry.ts"
import type { RunId } from "../../domain/Task.ts"
import { plus, type Timestamp } from "../../domain/Timestamp.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import { Settings } from "../settings/Settings.ts"
import type { RunLimits } from "../store/queue/RunQueue.ts"
import type { QueueEntry } from "../store/tasks/TaskStore.ts"
import * as Metrics from "../telemetry/Metrics.ts"

/** The pause before a probe, doubled up to the longest while probes are refused. A core that asks for more gets it. */
const firstPause = Duration.seconds(1)
const longestPause = Duration.seconds(10)

/** After so long without a refusal a core for which no run waits has room. */
const forgetAfter = longestPause

interface Pace {
  readonly since: Timestamp
  /** How many runs the core has at most, as far as it is known. */
  allowed: number
  /** Until then only runs that replace others are sent. */
  pausedUntil: Timestamp
  lastRefusalAt: Timestamp
  /** Refusals of probes in a row: each doubles the pause. */
  refusals: number
  /** The run that is sent in order to find out whether there is room. */
  probe: RunId | undefined
}

export class CoreBusy extends Context.Service<CoreBusy, {
  /** When the core answered first that it has no room; undefined while it has, as far as this node knows. */
  readonly busySince: () => Timestamp | undefined
  readonly isBusy: () => boolean

  /** How many runs may be sent. */
  readonly room: (at: Timestamp) => number
  /** When a probe is due, if that is what a waiting run needs. */
  readonly probeAt: () => Timestamp | undefined
  /** How a new run enters the queue, while `others` do. */
  readonly entry: (at: Timestamp, others: number, isLarge: boolean) => QueueEntry
  /** Whether a run of which the core has had one before waits until it is admitted. */
  readonly resumedWaits: (at: Timestamp) => boolean

  /** A run is about to be sent. Returns the number of the present pace; undefined when it has no room. */
  readonly begin: (runId: RunId, at: Timestamp) => number | undefined
  /** Whether a run that has begun with this pace is to be sent. */
  readonly allows: (pace: number | undefined) => boolean
  /** The attempt has ended. */
  readonly end: (runId: RunId, at: Timestamp) => void
  /** How many attempts have. */
  readonly ended: () => number
  /** The core has one more run of this node. */
  readonly noteTaken: () => void
  /** It has one less, which counted for a limit or not. */
  readonly noteLeft: (wasHeld: boolean) => void
  /** It has answered 2xx. */
  readonly accepted: (runId: RunId, at: Timestamp) => void
  /** It has answered that it has no room. */
  readonly refused: (
    runId: RunId,
    pace: number | undefined,
    retryAfter: Duration.Duration | null,
    at: Timestamp
  ) => Effect.Effect<void>

  /**
   * Leaves a place to a run that has no room and cannot go back into the queue, because the core may have it: otherwise new runs, which
   * follow each end immediately, would take every place before its next attempt. After `ACCEPTANCE_TIMEOUT` all such runs have one place
   * together, and that half of the time: the core may refuse a run alone.
   */
  readonly reserve: (runId: RunId, at: Timestamp) => void
  /** It needs no place any more. */
  readonly unreserve: (runId: RunId) => void

  /** A run of this node waits, or may wait. */
  readonly noteWaiting: () => void
  readonly beginAdmission: () => {
    /** It has found an empty queue. */
    readonly emptied: (at: Timestamp) => Effect.Effect<void>
    /** It has found only runs that a limit or a pause blocks, although the core may have room. An end may free one of them. */
    readonly blocked: (at: Timestamp) => Effect.Effect<void>
  }
  /** Whether `CORE_RUNS` or `CORE_RUNS_PER_ASSISTANT` is set. */
  readonly isLimited: boolean
  readonly limits: RunLimits
  /** Open when an admission may find room. */
  readonly wake: Latch.Latch
  /** An end on another node may have made room for a run that waits here. */
  readonly poke: () => void
}>()("async-task-service/services/queue/CoreBusy") {
  static readonly layer = Layer.effect(CoreBusy, Effect.suspend(() => make))
}

const make = Effect.gen(function*() {
  const { acceptanceTimeout, coreRuns = null, coreRunsPerAssistant = null } = yield* Settings
  const span = Duration.toMillis(acceptanceTimeout) * 1000
  const ownership = yield* TaskOwnership
  const limits: RunLimits = { runs: coreRuns, runsPerAssistant: coreRunsPerAssistant }
  const isLimited = coreRuns !== null || coreRunsPerAssistant !== null
  const goes: QueueEntry = { waits: false, limits }
  const waits: QueueEntry = { waits: true, limits }
  const wake = Latch.makeUnsafe()

  /** Runs of this node that the core has. */
  let taken = 0
  /** Runs that are about to be sent, or sent and not answered. */
  let active = 0
  let ended = 0
  let pace: Pace | undefined
  /** Since when a place is left to each of these runs. */
  const reserved = new Map<RunId, Timestamp>()
  /** The number of the present pace. A run that has begun with an earlier one was not meant for a busy core. */
  let number = 0
  /** Whether an admission may find a run that waits: also one from before the start of this node. */
  let mayWait = true
  /** Counts the runs that were noted as waiting. */
  let noted = 0

  const noteWaiting = () => {
    noted++
    mayWait = true
    wake.openUnsafe()
  }
  const poke = () => {
    if (mayWait) wake.openUnsafe()
  }

  const room = (at: Timestamp) => {
    if (pace === undefined) return Infinity
    let [first, later] = [0, 0]
    for (const since of reserved.values()) {
      const spans = Math.floor((at - since) / span)
      if (spans <= 0) first++
      else if (spans % 2 === 0) later = 1
    }
    const places = first + later
    const left = pace.allowed - taken - active - places
    return left > 0 ? left : places === 0 && pace.probe === undefined && at >= pace.pausedUntil ? 1 : 0
  }

  const asked = (retryAfter: Duration.Duration | null) => Duration.min(retryAfter ?? Duration.zero, longestRetryAfter)
  const pauseOf = ({ refusals }: Pace, retryAfter: Duration.Duration | null) =>
    Duration.max(Duration.min(Duration.times(firstPause, 2 ** refusals), longestPause), asked(retryAfter))

  const forget = (at: Timestamp) => {
    if (pace === undefined || pace.probe !== undefined) return Effect.void
    if (at < plus(pace.lastRefusalAt, forgetAfter) || at < pace.pausedUntil) return Effect.void
    pace = undefined
    return Effect.annotateLogs(Effect.logInfo("The core has room again"), { runs: taken })
  }

  return CoreBusy.of({
    busySince: () => pace?.since,
    isBusy: () => pace !== undefined,
    room,
    probeAt: () => pace?.pausedUntil,
    entry: (at, others, isLarge) => {
      if (isLarge && isLimited) return waits
      return pace === undefined || (!mayWait && room(at) - others > 0) ? goes : waits
    },
    resumedWaits: (at) => isLimited || (pace !== undefined && (mayWait || room(at) <= 0)),
    begin: (runId, at) => {
      const isFitting = room(at) > 0
      active++
      if (pace === undefined) return number
      if (!isFitting) return undefined
      if (taken + active > pace.allowed) pace.probe = runId
      return number
    },
    allows: (begun) => pace === undefined || begun === number,
    ended: () => ended,
    end: (runId, at) => {
      active--
      ended++
      if (pace?.probe === runId) {
        // Neither taken nor refused: nothing is known.
        pace.probe = undefined
        pace.pausedUntil = plus(at, pauseOf(pace, null))
      }
      poke()
    },
    noteTaken: () => {
      taken++
      if (pace !== undefined && taken > pace.allowed) pace.allowed = taken
    },
    noteLeft: (wasHeld) => {
      taken--
      // Runs of another node may wait, of which this one does not know.
      if (isLimited && ownership.shards() !== undefined) wake.openUnsafe()
      else if (isLimited || wasHeld || pace !== undefined) poke()
    },
    accepted: (runId, at) => {
      if (pace?.probe !== runId) return
      pace.probe = undefined
      pace.refusals = 0
      pace.allowed = Math.max(pace.allowed, taken)
      pace.pausedUntil = at
      poke()
    },
    refused: (runId, begun, retryAfter, at) => {
      Metrics.coreBusy.add(1)
      if (pace === undefined) {
        number++
        pace = {
          since: at,
          allowed: taken,
          pausedUntil: at,
          lastRefusalAt: at,
          refusals: 0,
          probe: undefined
        }
        pace.pausedUntil = plus(at, pauseOf(pace, retryAfter))
        return Effect.annotateLogs(
          Effect.logWarning("The core has no room. Runs wait until it has"),
          { runs: taken }
        )
      }
      pace.lastRefusalAt = at
      const isProbe = pace.probe === runId
      if (isProbe) {
        pace.probe = undefined
        pace.refusals++
      }
      // Each run that was sent before the first refusal is refused: that is no news.
      if (begun === number) pace.allowed = Math.min(pace.allowed, taken)
      const until = plus(at, begun === number ? pauseOf(pace, retryAfter) : asked(retryAfter))
      if (until > pace.pausedUntil) pace.pausedUntil = until
      return Effect.void
    },
    reserve: (runId, at) => {
      if (!reserved.has(runId)) reserved.set(runId, at)
    },
    unreserve: (runId) => {
      if (reserved.delete(runId)) poke()
    },
    noteWaiting,
    beginAdmission: () => {
      const before = noted
      return {
        emptied: (at) => {
          if (before !== noted) return Effect.void
          mayWait = false
          return forget(at)
        },
        blocked: (at) => {
          mayWait = true
          return forget(at)
        }
      }
    },
    isLimited,
    limits,
    wake,
    poke
  })
})
