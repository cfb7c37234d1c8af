/** Polling intervals for changes that nobody notifies this node of: by other nodes, and by expiry. */
import { Context, Duration } from "effect"

export const Intervals = Context.Reference<{
  /** Compares tasks that requests wait for with their rows. */
  readonly watchRepair: Duration.Duration
  /** Reads new revocations. A revocation must apply on every node within 5 s. */
  readonly revocationSync: Duration.Duration
  /** Removes expired revocations from memory. */
  readonly revocationPrune: Duration.Duration
  /** Deletes expired rows; the interval is shorter when the retention period is below ten minutes. */
  readonly retention: Duration.Duration
}>("async-task-service/services/timing/Intervals", {
  defaultValue: () => ({
    watchRepair: Duration.seconds(5),
    revocationSync: Duration.seconds(2),
    revocationPrune: Duration.minutes(1),
    retention: Duration.minutes(1)
  })
})
