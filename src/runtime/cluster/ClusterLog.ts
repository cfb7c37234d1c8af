/** The log of Effect Cluster, which reports a lasting failure every second with a stack trace. */
import { Cause, Duration, Logger } from "effect"
import { rootCauseMessage } from "../../services/telemetry/RootCause.ts"

/** Between two lines with the same message. */
const pause = Duration.toMillis("10 seconds")

/** Logs each message once in `pause`, with the reason in place of the stack trace. The messages of the cluster are few. */
export const throttle = (loggers: Iterable<Logger.Logger<unknown, unknown>>) => {
  const throttled = (logger: Logger.Logger<unknown, unknown>) => {
    const loggedAt = new Map<string, number>()
    return Logger.make((options) => {
      const { cause, date } = options
      const message = String(options.message)
      if (date.getTime() - (loggedAt.get(message) ?? -pause) < pause) return
      loggedAt.set(message, date.getTime())
      const reason = cause.reasons.length === 0 ? "" : `: ${rootCauseMessage(Cause.squash(cause))}`
      logger.log({ ...options, message: message + reason, cause: Cause.empty })
    })
  }
  return new Set(Array.from(loggers, throttled))
}
