/**
 * Timeouts of waits that nearly always end in time. A wait is an entry in a set: it takes no timer and no fiber of its own. One
 * worker ends the waits that are overdue, and sleeps until the first one can be.
 */
import { Clock, Duration, Effect, Latch } from "effect"
import { monotonicMillisOf } from "../../domain/Timestamp.ts"
import * as Worker from "./Worker.ts"

interface Wait {
  /** In milliseconds of the monotonic clock. */
  readonly deadline: number
  /** Emptied at the end, because V8's sets keep former members alive for a while. */
  onOverdue: () => void
}

const nothing = () => {}

/** `name` is the worker's, as in "the timeout of webhooks". */
export const make = Effect.fnUntraced(function*(name: string) {
  const clock = yield* Clock.Clock
  const waits = new Set<Wait>()
  const sooner = Latch.makeUnsafe()
  /** No wait is overdue before this moment. It is kept when its wait has ended, so that short waits seldom wake the worker. */
  let checkAt = Infinity

  const check = Effect.sync(() => {
    const present = monotonicMillisOf(clock)
    if (present < checkAt) return
    checkAt = Infinity
    for (const wait of waits) {
      if (wait.deadline > present) checkAt = Math.min(checkAt, wait.deadline)
      else if (waits.delete(wait)) wait.onOverdue()
    }
  })
  yield* Worker.make({
    name,
    runOnce: check,
    // A timer of a fraction of a millisecond would end before the deadline.
    interval: Effect.sync(() => Duration.millis(Math.ceil(checkAt - monotonicMillisOf(clock)))),
    wake: sooner
  })

  return {
    /** Begins a wait of at most `timeout` milliseconds. Returns how to end it. */
    begin: (timeout: number, onOverdue: () => void): () => void => {
      const wait: Wait = { deadline: monotonicMillisOf(clock) + timeout, onOverdue }
      waits.add(wait)
      if (wait.deadline < checkAt) {
        checkAt = wait.deadline
        sooner.openUnsafe()
      }
      return () => {
        wait.onOverdue = nothing
        waits.delete(wait)
      }
    }
  }
})
