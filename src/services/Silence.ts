/** Notices that the other end of a connection gives no sign of life while it is waited for. A wait costs two assignments. */
import { Clock, Duration, Effect } from "effect"

export const make = (patience: Duration.Duration) =>
  Clock.clockWith((clock) =>
    Effect.sync(() => {
      const bound = Duration.toMillis(patience)
      let since: number | undefined
      const present = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
      const exceeded: Effect.Effect<void> = Effect.suspend(() => {
        const left = since === undefined ? bound : since + bound - present()
        // A wait that begins meanwhile is noticed a quarter late at most.
        return left > 0 ? Effect.andThen(Effect.sleep(Math.min(left, bound / 4)), exceeded) : Effect.void
      })
      return {
        /** From now on it is waited for. */
        begin: () => {
          since = present()
        },
        end: () => {
          since = undefined
        },
        /** Ends once a wait has lasted for longer than `patience`. */
        exceeded
      }
    })
  )
