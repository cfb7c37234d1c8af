/**
 * Dispatches runs again that the core may have lost with their node. Runs wait in a queue, so that a node that starts with many of
 * them overloads neither the core nor itself. Pending runs have a queue of their own, because their acceptance deadline is near.
 */
import { Duration, Effect, Latch } from "effect"
import type { RunId, TaskHead } from "../../domain/Task.ts"
import * as Worker from "../timing/Worker.ts"

/** At most this many runs are dispatched at a time, and between two pauses. */
const largestBatch = 128
const pace = Duration.millis(100)

interface Options {
  /** Whether this node still has to dispatch the run. */
  readonly isWanted: (head: TaskHead) => boolean
  /** Dispatches the run. Completes after the first attempt. */
  readonly dispatch: (head: TaskHead) => Effect.Effect<void>
  /** Forgets a run that is not dispatched, so that it is queued again if it becomes this node's. */
  readonly drop: (head: TaskHead) => void
}

const makeQueue = Effect.fnUntraced(function*({ dispatch, drop, isWanted }: Options, name: string) {
  const scope = yield* Effect.scope
  const waiting = new Map<RunId, TaskHead>()
  const hasWaiting = Latch.makeUnsafe()
  let dispatching = 0

  const takeBatch = () => {
    const batch: Array<TaskHead> = []
    for (const [runId, head] of waiting) {
      if (dispatching + batch.length === largestBatch) break
      waiting.delete(runId)
      if (isWanted(head)) batch.push(head)
      else drop(head)
    }
    return batch
  }

  const start = (head: TaskHead) => {
    dispatching++
    return Effect.forkIn(Effect.ensuring(dispatch(head), Effect.sync(() => dispatching--)), scope)
  }

  yield* Worker.make({
    name,
    runOnce: Effect.gen(function*() {
      if (waiting.size === 0) return
      yield* Effect.forEach(takeBatch(), start, { discard: true })
      yield* Effect.sleep(pace)
      if (waiting.size > 0) hasWaiting.openUnsafe()
    }),
    interval: Duration.infinity,
    wake: hasWaiting
  })
  return (head: TaskHead): void => {
    waiting.set(head.runId, head)
    hasWaiting.openUnsafe()
  }
})

/** Returns the function that queues a run. */
export const make = Effect.fnUntraced(function*(options: Options) {
  const addPending = yield* makeQueue(options, "the recovery of pending tasks")
  const addOther = yield* makeQueue(options, "the recovery of tasks")
  return (head: TaskHead): void => head.status === "pending" ? addPending(head) : addOther(head)
})
