/** Timeouts for the peer of a connection. Tests shorten them. */
import { Context, Duration } from "effect"

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
