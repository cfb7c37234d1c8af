/**
 * An idle timeout: detects that the other end of a connection stays silent while we wait. A wait costs two assignments.
 */
import { Clock, Duration, Effect } from "effect"
import { monotonicMillisOf } from "../../domain/Timestamp.ts"

export const make = (timeout: Duration.Duration) =>
  Clock.clockWith((clock) =>
    Effect.sync(() => {
      const bound = Duration.toMillis(timeout)
      let since: number | undefined
      const present = () => monotonicMillisOf(clock)
      const exceeded: Effect.Effect<void> = Effect.suspend(() => {
        const left = since === undefined ? bound : since + bound - present()
        // A wait that begins during the sleep is noticed at most a quarter of the timeout late.
        return left > 0 ? Effect.andThen(Effect.sleep(Math.min(left, bound / 4)), exceeded) : Effect.void
      })
      return {
        /** Starts a wait, or starts the present one again. */
        begin: () => {
          since = present()
        },
        /** Ends the wait. */
        end: () => {
          since = undefined
        },
        /** Completes when a wait has lasted longer than `timeout`. */
        exceeded
      }
    })
  )
