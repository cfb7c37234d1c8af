/** Defects: the log has their cause, and clients get a message without it. */
import { Effect } from "effect"

/** The message of the response. */
export const message = "Something went wrong on our side."

/** Logs a defect, or a cause that has one. */
export const log = (defect: unknown) => Effect.logError("a request failed", defect)

/** Logs a defect, and fails instead. */
export const failWith = <F>(failure: F) => <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | F, R> =>
  Effect.catchDefect(effect, (defect) => Effect.andThen(log(defect), Effect.fail(failure)))
