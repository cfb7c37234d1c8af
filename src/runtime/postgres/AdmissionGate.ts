/**
 * Admits a bounded number of statements to the connection pool. The pool's own queue costs time quadratic in the number of
 * those who wait while connections fail, so callers wait here: first come, first served, not for long, and not at all while
 * the database is away.
 */
import { Deferred, Duration, Effect, Schedule } from "effect"
import { SqlError } from "effect/sql"
import * as Metrics from "../../services/telemetry/Metrics.ts"

const unavailable = (message: string) =>
  Effect.fail(
    new SqlError.SqlError({
      reason: new SqlError.ConnectionError({ message, cause: new Error(message), operation: "admit" })
    })
  )

/** Made once each: an outage refuses thousands of calls a second, and a stack trace costs more than the refusal. */
const databaseIsAway = unavailable("The database is away")
const waitedTooLong = unavailable("No database connection became free in time")
const tooManyWaiting = unavailable("Too many statements wait for a database connection")

const maxWait = Duration.toMillis("5 seconds")
const maxWaiting = 10_000
const expiryInterval = Duration.millis(250)

interface Waiter {
  readonly since: number
  readonly answer: Deferred.Deferred<void, SqlError.SqlError>
  /** It holds a permit. */
  isAdmitted: boolean
}

export interface AdmissionGate {
  /** Runs a statement when there is room for it. */
  readonly admit: <A, E, R>(statement: Effect.Effect<A, E, R>) => Effect.Effect<A, E | SqlError.SqlError, R>
  /** Fails those who wait and refuses all others until `open`. */
  readonly close: () => void
  readonly open: () => void
}

/** A gate for `permits` statements at a time. */
export const make = Effect.fnUntraced(function*(permits: number) {
  let free = permits
  let isOpen = true
  /** In the order of their arrival. */
  const waiters = new Set<Waiter>()

  const release = Effect.sync(() => {
    const [waiter] = waiters
    if (waiter === undefined) {
      free++
      return
    }
    // The permit passes on.
    waiters.delete(waiter)
    waiter.isAdmitted = true
    Deferred.doneUnsafe(waiter.answer, Effect.void)
  })

  const refuse = (waiter: Waiter, reason: Effect.Effect<never, SqlError.SqlError>) => {
    waiters.delete(waiter)
    Deferred.doneUnsafe(waiter.answer, reason)
  }

  const wait = Effect.suspend(() => {
    const waiter: Waiter = { since: performance.now(), answer: Deferred.makeUnsafe(), isAdmitted: false }
    waiters.add(waiter)
    return Effect.onInterrupt(
      Deferred.await(waiter.answer),
      () => waiter.isAdmitted ? release : Effect.sync(() => waiters.delete(waiter))
    )
  })

  const admit: AdmissionGate["admit"] = (statement) =>
    Effect.uninterruptibleMask((restore) => {
      if (!isOpen) return databaseIsAway
      const held = Effect.ensuring(restore(statement), release)
      if (free > 0) {
        free--
        return held
      }
      return waiters.size < maxWaiting ? Effect.andThen(restore(wait), held) : tooManyWaiting
    })

  const expire = Effect.sync(() => {
    const before = performance.now() - maxWait
    for (const waiter of waiters) {
      if (waiter.since > before) return
      refuse(waiter, waitedTooLong)
    }
  })
  yield* Metrics.databaseWaiting.observe(() => waiters.size)
  yield* Effect.forkScoped(Effect.repeat(expire, Schedule.spaced(expiryInterval)))

  return {
    admit,
    close: () => {
      isOpen = false
      for (const waiter of waiters) refuse(waiter, databaseIsAway)
    },
    open: () => {
      isOpen = true
    }
  } satisfies AdmissionGate
})
