/** Deletes what was kept for its time, in small batches, so that no delete holds its locks for long. */
import { Duration, Effect, Layer, Schedule } from "effect"
import { now } from "../domain/Timestamp.ts"
import { TaskRepository } from "./TaskRepository.ts"

const interval = Duration.minutes(1)
const batch = 500

export const layer = Layer.effectDiscard(
  Effect.gen(function*() {
    const repository = yield* TaskRepository
    const forgetClaims = Effect.flatMap(now, (at) => repository.forgetClaims(at, batch)).pipe(
      Effect.repeat({ while: (forgotten) => forgotten === batch })
    )
    yield* forgetClaims.pipe(
      Effect.catchCause((cause) => Effect.logWarning("what has expired was not deleted", cause)),
      Effect.repeat(Schedule.spaced(interval)),
      Effect.forkScoped
    )
  })
)
