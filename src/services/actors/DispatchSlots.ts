/** The dispatches in progress, and the limits of their concurrency: separate for new, recovered and large runs. */
import { Effect, PartitionedSemaphore } from "effect"
import { refersToOthers } from "../../domain/StoredRequest.ts"
import type { RunId, TaskId } from "../../domain/Task.ts"
import type { Run } from "../core/CoreClient.ts"

const concurrency = 256
/** For runs that the core may have already. A node that starts has many of them, and new runs must not wait for them. */
const recoveryConcurrency = 8
/** A large run takes several times its size in memory while it is dispatched. */
const largeConcurrency = 1

/** Characters. A run with a longer request is large. */
const largeRequest = 1024 * 1024

/** A request that refers to other tasks may be large when it has been put together. */
export const isLarge = (request: Run["request"]) => request.length > largeRequest || refersToOthers(request)

export type DispatchSlots = ReturnType<typeof make>

export const make = () => {
  // Partitioned, because a plain `Semaphore` visits all waiters at each release.
  const slotsOf = (permits: number) => PartitionedSemaphore.makeUnsafe({ permits }).withPermit("")
  const slots = slotsOf(concurrency)
  const recoverySlots = slotsOf(recoveryConcurrency)
  const largeSlots = slotsOf(largeConcurrency)
  /** Dispatches in progress, with whether they recover their run. */
  const dispatches = new Map<RunId, boolean>()
  /** Those whose run is large. */
  const large = new Set<RunId>()
  /** Tasks whose row may be stored already, and whose run is about to be dispatched. */
  const creating = new Set<TaskId>()
  let recoveries = 0

  /** Notes the size of a run. */
  const note = ({ request, runId }: Pick<Run, "request" | "runId">) => {
    if (isLarge(request)) large.add(runId)
  }

  return {
    note,
    isNoted: (runId: RunId): boolean => large.has(runId),
    /** Notes the size of a new run. Returns whether to keep it in memory until its slot is free, instead of reading it then. */
    mayKeep: (run: Run): boolean => {
      const isFree = large.size < largeConcurrency
      note(run)
      return !isLarge(run.request) || (isFree && !refersToOthers(run.request))
    },
    /** Registers a dispatch. Returns false if the run has one already. */
    enter: (runId: RunId, isRecovery: boolean): boolean => {
      if (dispatches.has(runId)) return false
      dispatches.set(runId, isRecovery)
      if (isRecovery) recoveries++
      return true
    },
    leave: (runId: RunId): void => {
      if (dispatches.get(runId) === true) recoveries--
      dispatches.delete(runId)
      large.delete(runId)
    },
    withSlot: <A, E>(runId: RunId, effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
      Effect.suspend(() =>
        (large.has(runId) ? largeSlots : dispatches.get(runId) === true ? recoverySlots : slots)(effect)
      ),
    isCreating: (uuid: TaskId): boolean => creating.has(uuid),
    /**
     * Counts the task as being created while `create` runs; `isImmediate` is false when no slot is free or the request is
     * large.
     */
    reserve: <A, E>(
      uuid: TaskId,
      request: Run["request"],
      create: (isImmediate: boolean) => Effect.Effect<A, E>
    ): Effect.Effect<A, E> =>
      Effect.suspend(() => {
        const isImmediate = !isLarge(request) && dispatches.size - recoveries + creating.size < concurrency
        creating.add(uuid)
        return Effect.ensuring(create(isImmediate), Effect.sync(() => creating.delete(uuid)))
      })
  }
}
