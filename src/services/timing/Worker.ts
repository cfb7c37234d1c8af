/**
 * A background loop: a round, then a pause, until its scope closes. A failed round is logged and repeated after a backoff;
 * it never ends the loop. Of failures in a row the 1st, 2nd, 4th, 8th and so on are logged.
 *
 * Three kinds of loops are not workers: those that block on a queue or a connection, those without a scope (per socket),
 * and waits inside a request.
 */
import { Duration, Effect, Fiber, Latch, Option, type Scope } from "effect"
import * as Backoff from "../../domain/Backoff.ts"
import { isLogged, logFault } from "./Retry.ts"

/** Whether a round has work. */
export interface Demand {
  readonly isDue: Effect.Effect<boolean>
  /** Follows each round. */
  readonly ran: Effect.Effect<void>
}

export const always: Demand = { isDue: Effect.succeed(true), ran: Effect.void }

export interface Options<E> {
  /** The subject of the log lines, as in "the task sweep failed". */
  readonly name: string
  readonly runOnce: Effect.Effect<unknown, E>
  /** The pause after a round. An effect is evaluated after each round. */
  readonly interval: Duration.Input | Effect.Effect<Duration.Duration>
  /** Ends a pause when it is opened. The worker closes it before each round, so no signal is lost. */
  readonly wake?: Latch.Latch
  /** A round after a pause that nothing ended is left out while it is not due. A round that failed is repeated. */
  readonly demand?: Demand
  /** Whether a pause precedes the first round too. */
  readonly isDelayed?: boolean
}

export interface Worker {
  /** Begins no more rounds. Completes when the current one has ended. */
  readonly drain: Effect.Effect<void>
}

/** The first and the longest pause after a failed round, unless the interval is shorter. */
const firstRetryDelay = Duration.millis(100)
const maxRetryDelay = Duration.seconds(2)

export const make = Effect.fnUntraced(function*<E>(options: Options<E>): Effect.fn.Return<Worker, never, Scope.Scope> {
  const { interval, isDelayed = false, demand = always, name, runOnce, wake = Latch.makeUnsafe() } = options
  const pause = Effect.isEffect(interval) ? interval : Effect.succeed(Duration.fromInputUnsafe(interval))
  /** Failures in a row. */
  let failures = 0
  let isDraining = false

  const attempt = Effect.matchCauseEffect(runOnce, {
    onSuccess: () => Effect.sync(() => void (failures = 0)),
    onFailure: (cause) =>
      isLogged(++failures)
        ? logFault(failures === 1 ? `${name} failed` : `${name} failed ${failures} times in a row`)(cause)
        : Effect.void
  })

  const round = Effect.suspend(() => {
    wake.closeUnsafe()
    return Effect.andThen(attempt, demand.ran)
  })

  /** Returns whether it ended in time, without a signal. */
  const pauseOnce = Effect.flatMap(pause, (regular) => {
    if (failures > 0) {
      const delay = Duration.min(regular, Backoff.delayAfter(failures - 1, firstRetryDelay, maxRetryDelay))
      return Effect.as(Effect.sleep(delay), false)
    }
    // Opening a latch resumes this fiber in the middle of its caller: let the caller finish its turn.
    return wake.isOpen()
      ? Effect.succeed(false)
      : Effect.tap(Effect.map(Effect.timeoutOption(wake.await, regular), Option.isNone), () => Effect.yieldNow)
  })

  /** Whether the next round is left out. */
  const isIdle = Effect.suspend(() => isDraining ? Effect.succeed(false) : Effect.map(demand.isDue, (isDue) => !isDue))
  const rest = Effect.gen(function*() {
    while ((yield* pauseOnce) && (yield* isIdle)) {
      // Nothing to do: the next pause begins.
    }
  })

  const loop = Effect.gen(function*() {
    if (isDelayed) yield* rest
    for (;;) {
      if (isDraining) return
      yield* round
      if (!isDraining) yield* rest
    }
  })
  const fiber = yield* Effect.forkScoped(loop, { startImmediately: true })

  return {
    drain: Effect.suspend(() => {
      isDraining = true
      wake.openUnsafe()
      return Effect.asVoid(Fiber.await(fiber))
    })
  }
})
