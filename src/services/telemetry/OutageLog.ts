/** Logs the outage of another system at most every ten seconds, because every call fails during one. */
import { Effect } from "effect"
import { monotonicMillis } from "../../domain/Timestamp.ts"

/** Milliseconds. */
const logInterval = 10_000

/** Returns a function that logs a message as a warning, unless it did so shortly before. */
export const make = () => {
  let loggedAt = -Infinity
  return (message: string) =>
    Effect.flatMap(monotonicMillis, (at) => {
      if (at - loggedAt < logInterval) return Effect.void
      loggedAt = at
      return Effect.logWarning(message)
    })
}
