/**
 * Whether this node reaches the core: what its calls found, and when they say nothing, a connection that is opened and closed. A core that
 * is gone with all its runs is seen that way, although there is nothing to tell it.
 */
import { Duration, Effect, Fiber, type Scope } from "effect"
import type { CoreUnavailable } from "../../domain/DispatchRetry.ts"
import { monotonicMillis, now, type Timestamp } from "../../domain/Timestamp.ts"
import * as Metrics from "../telemetry/Metrics.ts"

export interface Unreachable {
  readonly since: Timestamp
  readonly reason: string
}

/** A connection that takes longer is awaited by nobody; what it finds is known later. */
const patience = Duration.seconds(1)

/** Between two connections that show whether the core is there, while a run is silent or the core is lost. */
export const probeInterval = Duration.seconds(10)

/** `connect` opens a connection to the core, and closes it. */
export const make = Effect.fnUntraced(function*(
  connect: Effect.Effect<void, CoreUnavailable>
): Effect.fn.Return<
  {
    /** Learns from a call. */
    readonly observe: <A>(call: Effect.Effect<A, CoreUnavailable>) => Effect.Effect<A, CoreUnavailable>
    readonly unreachable: (maxAge: Duration.Duration) => Effect.Effect<Unreachable | undefined>
  },
  never,
  Scope.Scope
> {
  const scope = yield* Effect.scope
  let found: Unreachable | undefined
  /** `monotonicMillis` of the latest finding. */
  let knownAt = -Infinity
  let connecting: Fiber.Fiber<void> | undefined
  let isProbing = false
  Metrics.coreUnreachable.set(0)

  const noteReached = Effect.map(monotonicMillis, (millis) => {
    knownAt = millis
    if (found === undefined) return
    found = undefined
    Metrics.coreUnreachable.set(0)
  })

  const noteLost = Effect.fnUntraced(function*({ reason }: CoreUnavailable) {
    found = { since: found?.since ?? (yield* now), reason }
    knownAt = yield* monotonicMillis
    Metrics.coreUnreachable.set(1)
    // Without runs nothing else would find that the core is back.
    if (isProbing) return
    isProbing = true
    yield* Effect.forkIn(probeWhileLost, scope)
  })

  const observe = <A>(call: Effect.Effect<A, CoreUnavailable>) =>
    Effect.tapError(Effect.tap(call, () => noteReached), noteLost)

  const probe = Effect.suspend(() => {
    const before = found
    return Effect.matchEffect(connect, {
      onSuccess: () =>
        Effect.andThen(
          noteReached,
          before === undefined ? Effect.void : Effect.logInfo("the core can be reached again")
        ),
      onFailure: (error) =>
        Effect.andThen(
          noteLost(error),
          before === undefined
            ? Effect.logWarning(`The core cannot be reached: ${error.reason}. Nothing is known of the runs that it has`)
            : Effect.void
        )
    })
  })

  const refresh = Effect.gen(function*() {
    connecting ??= yield* Effect.forkIn(Effect.ensuring(probe, Effect.sync(() => (connecting = undefined))), scope)
    yield* Effect.timeoutOption(Fiber.await(connecting), patience)
  })

  const unreachable = (maxAge: Duration.Duration) =>
    Effect.flatMap(
      monotonicMillis,
      (at) => Effect.map(at - knownAt <= Duration.toMillis(maxAge) ? Effect.void : refresh, () => found)
    )

  const probeWhileLost: Effect.Effect<unknown> = Effect.repeat(
    Effect.delay(Effect.suspend(() => unreachable(Duration.zero)), probeInterval),
    { while: (lost) => lost !== undefined }
  ).pipe(Effect.ensuring(Effect.sync(() => {
    isProbing = false
  })))

  return { observe, unreachable }
})
