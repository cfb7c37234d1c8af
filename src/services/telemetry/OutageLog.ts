/** Logs the outage of another system at most every ten seconds, because every call fails during one. */
import { Effect } from "effect"
import { monotonicMillis } from "../../domain/Timestamp.ts"

/** Milliseconds. */
const logInterval = 10_000

export const make = (level: "Warn" | "Error" = "Warn") => {
  let loggedAt = -Infinity
  return {
    /** Logs a message, unless it did so shortly before. */
    log: (message: string) =>
      Effect.flatMap(monotonicMillis, (at) => {
        if (at - loggedAt < logInterval) return Effect.void
        loggedAt = at
        return Effect.logWithLevel(level)(message)
      }),
    /** Logs the next message in any case, because the outage has ended. */
    end: () => {
      loggedAt = -Infinity
    }
  }
}
