/**
 * Deletes what was kept for its time (SPEC "Retention"): ended tasks with all that belongs to them, idempotency keys, and
 * revocations of tokens that have expired. It goes in small batches, so that no delete holds its locks for long.
 */
import { Duration, Effect, Layer, Schedule } from "effect"
import { now, plus } from "../domain/Timestamp.ts"
import { Intervals } from "./Intervals.ts"
import { logFault } from "./Persistently.ts"
import { RevocationRepository } from "./RevocationRepository.ts"
import { Settings } from "./Settings.ts"
import { TaskRepository } from "./TaskRepository.ts"

const batch = 200

/** How late a delete may be; less where tasks are kept for minutes only. */
const intervalOf = (retention: Duration.Duration, maximum: Duration.Duration) =>
  Duration.clamp(Duration.divideUnsafe(retention, 10), { minimum: Duration.seconds(1), maximum })

export const layer = Layer.effectDiscard(
  Effect.gen(function*() {
    const repository = yield* TaskRepository
    const revocations = yield* RevocationRepository
    const { retention } = yield* Settings

    const whileFull = (deletion: Effect.Effect<number>) =>
      Effect.repeat(deletion, { while: (deleted) => deleted === batch })
    const forgetClaims = Effect.flatMap(now, (at) => repository.forgetClaims(at, batch))
    const forgetRevocations = Effect.flatMap(now, (at) => revocations.forget(at, batch))
    const deleteEnded = Effect.flatMap(
      now,
      (at) => repository.deleteEnded(plus(at, Duration.negate(retention)), batch)
    )
    yield* Effect.forEach([forgetClaims, forgetRevocations, deleteEnded], whileFull, { discard: true }).pipe(
      Effect.catchCause(logFault("what has expired was not deleted")),
      Effect.repeat(Schedule.spaced(intervalOf(retention, (yield* Intervals).retention))),
      Effect.forkScoped
    )
  })
)
