/** How long the service waits for whoever is at the other end of a socket. All in one place; tests shorten them. */
import { Context, Duration } from "effect"

export const Timeouts = Context.Reference<{
  /** For the whole head of a request. */
  readonly requestHead: Duration.Duration
  /** For the next request on a connection that has none. */
  readonly idleConnection: Duration.Duration
  /** For a JSON body, beside a second for every `jsonBytesPerSecond` of it. */
  readonly jsonBody: Duration.Duration
  readonly jsonBytesPerSecond: number
  /** For the peer to take more of an answer, beside a second for every `jsonBytesPerSecond` that wait for it. */
  readonly answerSilence: Duration.Duration
  /** For the next bytes of an upload while they are wanted; a slow upload as a whole may take for ever. */
  readonly uploadSilence: Duration.Duration
  /** For the assistant backend to take the next bytes of an upload, and to answer it once it has them all. */
  readonly backendSilence: Duration.Duration
}>("async-task-service/services/timing/Timeouts", {
  defaultValue: () => ({
    requestHead: Duration.seconds(20),
    idleConnection: Duration.seconds(75),
    jsonBody: Duration.seconds(30),
    jsonBytesPerSecond: 64 * 1024,
    answerSilence: Duration.seconds(60),
    uploadSilence: Duration.seconds(60),
    backendSilence: Duration.minutes(2)
  })
})
