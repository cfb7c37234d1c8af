/**
 * Admits a bounded number of statements to the connection pool. While connections fail, the pool's own queue takes time
 * quadratic in the number of waiting callers, so callers wait here instead: first come, first served, at most `maxWait`, and
 * not at all while the database is unavailable.
 */
import { Deferred, Duration, Effect } from "effect"
import { SqlError } from "effect/sql"
import * as Metrics from "../../services/telemetry/Metrics.ts"
import * as Timers from "../../services/timing/Timers.ts"

const unavailable = (message: string) =>
  Effect.fail(
    new SqlError.SqlError({
      reason: new SqlError.ConnectionError({ message, cause: new Error(message), operation: "admit" })
    })
  )

/** Each error is created once: an outage refuses thousands of calls a second, and a stack trace costs more than a refusal. */
const databaseUnavailable = unavailable("The database is unavailable")
const waitedTooLong = unavailable("No database connection became free in time")
const tooManyWaiting = unavailable("Too many statements wait for a database connection")

const maxWait = Duration.toMillis("5 seconds")
const maxWaiting = 10_000

interface Waiter {
  readonly admission: Deferred.Deferred<void, SqlError.SqlError>
  /** True if it holds a permit. */
  isAdmitted: boolean
}

export type AdmissionGate = Effect.Success<ReturnType<typeof make>>

/** Makes a gate for `permits` concurrent statements. */
export const make = Effect.fnUntraced(function*(permits: number) {
  const expiry = yield* Timers.makeTimeouts("the expiry of waiting statements")
  const inBackground = Effect.forkIn(yield* Effect.scope)
  let free = permits
  let isOpen = true
  /** Oldest first. */
  const waiters = new Set<Waiter>()

  const release = Effect.sync(() => {
    const [waiter] = waiters
    if (waiter === undefined) {
      free++
      return
    }
    // The next waiter gets the permit.
    waiters.delete(waiter)
    waiter.isAdmitted = true
    // Yields, because statements that end immediately would deepen the admitting stack.
    Deferred.doneUnsafe(waiter.admission, Effect.yieldNow)
  })

  const refuse = (waiter: Waiter, reason: Effect.Effect<never, SqlError.SqlError>) => {
    waiters.delete(waiter)
    Deferred.doneUnsafe(waiter.admission, reason)
  }

  const wait = Effect.suspend(() => {
    const waiter: Waiter = { admission: Deferred.makeUnsafe(), isAdmitted: false }
    waiters.add(waiter)
    const end = expiry.begin(maxWait, () => refuse(waiter, waitedTooLong))
    return Deferred.await(waiter.admission).pipe(
      Effect.onInterrupt(() => waiter.isAdmitted ? release : Effect.sync(() => waiters.delete(waiter))),
      Effect.ensuring(Effect.sync(end))
    )
  })

  /**
   * Runs a statement when a permit is free. The driver cannot withdraw one that it has sent: `leftover` waits for the end of one that
   * was interrupted, which keeps the permit until then, so that callers who go away do not queue statements without limit.
   */
  const admit = <A, E, R>(
    statement: Effect.Effect<A, E, R>,
    leftover: () => Effect.Effect<void> | undefined = () => undefined
  ): Effect.Effect<A, E | SqlError.SqlError, R> =>
    Effect.uninterruptibleMask((restore) => {
      if (!isOpen) return databaseUnavailable
      const released = Effect.suspend(() => {
        const end = leftover()
        return end === undefined ? release : Effect.asVoid(inBackground(Effect.ensuring(end, release)))
      })
      const held = Effect.ensuring(restore(statement), released)
      if (free > 0) {
        free--
        return held
      }
      return waiters.size < maxWaiting ? Effect.andThen(restore(wait), held) : tooManyWaiting
    })

  yield* Metrics.databaseWaiting.observe(() => waiters.size)

  /** Fails all waiting statements and refuses new ones until `open`. */
  const close = () => {
    isOpen = false
    for (const waiter of waiters) refuse(waiter, databaseUnavailable)
  }
  return { admit, close, open: () => void (isOpen = true) }
})
