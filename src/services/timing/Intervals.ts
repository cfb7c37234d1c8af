/** Intervals and timeouts that no setting changes. Tests shorten them. */
import { Context, Duration } from "effect"

/** Polling intervals for changes that nobody notifies this node of: by other nodes, and by expiry. */
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

/** Timeouts for the peer of a connection. */
export const Timeouts = Context.Reference<{
  /** For all headers of a request. */
  readonly requestHead: Duration.Duration
  /** For the next request on an idle connection. */
  readonly idleConnection: Duration.Duration
  /** For a JSON body, plus one second per `jsonBytesPerSecond` of its size. */
  readonly jsonBody: Duration.Duration
  readonly jsonBytesPerSecond: number
  /** For the peer to read more of a response, plus one second per `jsonBytesPerSecond` of unread bytes. */
  readonly responseIdle: Duration.Duration
  /** For the next bytes of an upload while the service reads. The whole upload has no limit. */
  readonly uploadIdle: Duration.Duration
  /** For the assistant backend to accept the next bytes of an upload, and to respond after the last. */
  readonly backendIdle: Duration.Duration
}>("async-task-service/services/timing/Timeouts", {
  defaultValue: () => ({
    requestHead: Duration.seconds(20),
    idleConnection: Duration.seconds(75),
    jsonBody: Duration.seconds(30),
    jsonBytesPerSecond: 64 * 1024,
    responseIdle: Duration.seconds(60),
    uploadIdle: Duration.seconds(60),
    backendIdle: Duration.minutes(2)
  })
})
