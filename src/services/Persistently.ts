/** What must reach the store, however long it is away. */
import { Effect, Schedule, Schema } from "effect"

class StoreFault extends Schema.TaggedError<StoreFault>()("StoreFault", { defect: Schema.Defect() }) {}

const storeRetry = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("2 seconds")])

/** Tries again, soon and then every two seconds, for as long as the store does not answer. */
export const persistently = <A>(effect: Effect.Effect<A>): Effect.Effect<A> =>
  effect.pipe(
    Effect.catchDefect((defect) => Effect.fail(new StoreFault({ defect }))),
    Effect.tapError(({ defect }) => Effect.logWarning("the store does not answer", defect)),
    Effect.retry(storeRetry),
    Effect.orDie
  )
