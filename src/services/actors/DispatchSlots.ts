/** How many runs are handed over to the core at a time: new ones, those it may have already, and large ones. */
import { Effect } from "effect"
import type { RunId } from "../../domain/Task.ts"
import type { Run } from "../core/CoreClient.ts"
import * as FifoPermits from "../limits/FifoPermits.ts"

export const concurrency = 256
/** Beside them, runs that the core may have already: after a start there are many, and new ones must not wait for them. */
const recoveryConcurrency = 8
/** Large runs: each takes several times its size while it is handed over. */
const largeConcurrency = 1

/** Characters of a run's request from which it is large. */
const largeRequest = 1024 * 1024

export const isLarge = (request: Run["request"]) => request.length > largeRequest

export const make = () => {
  const inTurn = FifoPermits.make(concurrency)
  const inTurnOfRecovery = FifoPermits.make(recoveryConcurrency)
  const inTurnOfLarge = FifoPermits.make(largeConcurrency)
  /** The runs under way that are known to be large. */
  const large = new Set<RunId>()

  /** Notes the size of a run. */
  const note = ({ request, runId }: Run) => {
    if (isLarge(request)) large.add(runId)
  }

  return {
    note,
    /** Notes the size of a new run; whether it may be kept until its turn, or else has to be read again then. */
    mayKeep: (run: Run): boolean => {
      const isFree = large.size < largeConcurrency
      note(run)
      return isFree || !isLarge(run.request)
    },
    forget: (runId: RunId) => large.delete(runId),
    inTurn: <A, E>(runId: RunId, isRecovery: boolean, effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      Effect.suspend(() => (large.has(runId) ? inTurnOfLarge : isRecovery ? inTurnOfRecovery : inTurn)(effect))
  }
}
