/** Concurrency limits of dispatches to the core, separate for new, recovered and large runs. */
import { Effect } from "effect"
import type { RunId } from "../../domain/Task.ts"
import type { Run } from "../core/CoreClient.ts"
import * as FifoPermits from "../limits/FifoPermits.ts"

export const concurrency = 256
/** For runs that the core may have already. A node that starts has many of them, and new runs must not wait for them. */
const recoveryConcurrency = 8
/** A large run takes several times its size in memory while it is dispatched. */
const largeConcurrency = 1

/** Characters. A run with a longer request is large. */
const largeRequest = 1024 * 1024

export const isLarge = (request: Run["request"]) => request.length > largeRequest

export const make = () => {
  const slots = FifoPermits.make(concurrency)
  const recoverySlots = FifoPermits.make(recoveryConcurrency)
  const largeSlots = FifoPermits.make(largeConcurrency)
  /** Dispatches in progress whose run is large. */
  const large = new Set<RunId>()

  /** Notes the size of a run. */
  const note = ({ request, runId }: Run) => {
    if (isLarge(request)) large.add(runId)
  }

  return {
    note,
    /** Notes the size of a new run. Returns whether to keep it in memory until its slot is free, instead of reading it then. */
    mayKeep: (run: Run): boolean => {
      const isFree = large.size < largeConcurrency
      note(run)
      return isFree || !isLarge(run.request)
    },
    release: (runId: RunId) => large.delete(runId),
    withSlot: <A, E>(runId: RunId, isRecovery: boolean, effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      Effect.suspend(() => (large.has(runId) ? largeSlots : isRecovery ? recoverySlots : slots)(effect))
  }
}
