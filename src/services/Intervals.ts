/** How often this node looks for what no one tells it of: what other nodes did, and what has expired. */
import { Context, Duration } from "effect"

export const Intervals = Context.Reference<{
  /** Changes of tasks that someone waits for. */
  readonly watchRepair: Duration.Duration
  /** Revocations; CONTRACT 6 gives them 5 s. */
  readonly revocationSync: Duration.Duration
  /** Revocations that have expired. */
  readonly revocationPrune: Duration.Duration
  /** The longest that what has been kept for its time may stay. */
  readonly retention: Duration.Duration
}>("async-task-service/services/Intervals", {
  defaultValue: () => ({
    watchRepair: Duration.seconds(5),
    revocationSync: Duration.seconds(2),
    revocationPrune: Duration.minutes(1),
    retention: Duration.minutes(1)
  })
})
