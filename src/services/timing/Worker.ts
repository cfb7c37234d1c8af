/**
 * A background loop: a round, then a pause, until its scope closes. A failed round is logged and repeated after a backoff;
 * it never ends the loop. Of failures in a row the 1st, 2nd, 4th, 8th and so on are logged.
 *
 * Three kinds of loops are not workers: those that block on a queue or a connection, those without a scope (per socket),
 * and waits inside a request.
 */
import { Duration, Effect, Fiber, Latch, type Scope } from "effect"
import * as Backoff from "../../domain/Backoff.ts"
import { logFault } from "./Retry.ts"

export interface Options<E> {
  /** The subject of the log lines, as in "the task sweep failed". */
  readonly name: string
  readonly runOnce: Effect.Effect<unknown, E>
  /** The pause after a round. An effect is evaluated after each round. */
  readonly interval: Duration.Input | Effect.Effect<Duration.Duration>
  /** Ends a pause when it is opened. The worker closes it before each round, so no signal is lost. */
  readonly wake?: Latch.Latch
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

const isPowerOfTwo = (count: number) => Number.isInteger(Math.log2(count))

export const make = Effect.fnUntraced(function*<E>(options: Options<E>): Effect.fn.Return<Worker, never, Scope.Scope> {
  const { interval, isDelayed = false, name, runOnce, wake = Latch.makeUnsafe() } = options
  const pause = Effect.isEffect(interval) ? interval : Effect.succeed(Duration.fromInputUnsafe(interval))
  /** Failures in a row. */
  let failures = 0
  let isDraining = false

  const attempt = Effect.matchCauseEffect(runOnce, {
    onSuccess: () => Effect.sync(() => void (failures = 0)),
    onFailure: (cause) =>
      isPowerOfTwo(++failures)
        ? logFault(failures === 1 ? `${name} failed` : `${name} failed ${failures} times in a row`)(cause)
        : Effect.void
  })

  const round = Effect.suspend(() => {
    wake.closeUnsafe()
    return attempt
  })

  const rest = Effect.flatMap(pause, (regular) => {
    if (failures > 0) {
      return Effect.sleep(Duration.min(regular, Backoff.delayAfter(failures - 1, firstRetryDelay, maxRetryDelay)))
    }
    // Opening a latch resumes this fiber in the middle of its caller: let the caller finish its turn.
    return wake.isOpen() ? Effect.void : Effect.andThen(Effect.timeoutOption(wake.await, regular), Effect.yieldNow)
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
