/** Defects: the log has the cause, and the client only that there was one. */
import { Effect } from "effect"

/** What a client reads of a defect. */
export const message = "Something went wrong on our side."

/** Logs why a request could not be answered, which may be a defect or its cause. */
export const log = (defect: unknown) => Effect.logError("a request failed", defect)

/** Logs a defect, and fails instead. */
export const failWith = <F>(failure: F) => <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | F, R> =>
  Effect.catchDefect(effect, (defect) => Effect.andThen(log(defect), Effect.fail(failure)))
