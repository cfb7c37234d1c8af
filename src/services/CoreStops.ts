/** Tells the core which runs are no longer wanted: owed from the moment a task ends until the core has been told. */
import { Context, Duration, Effect, Latch, Layer } from "effect"
import { stopDelay } from "../domain/HandOver.ts"
import { now, plus } from "../domain/Timestamp.ts"
import { CoreClient } from "./CoreClient.ts"
import { logFault } from "./Persistently.ts"
import { Settings } from "./Settings.ts"
import { type OwedStop, TaskRepository } from "./TaskRepository.ts"

const batch = 64
/** A claimed stop comes up again after this if its node died on the way. */
const lease = Duration.seconds(30)

export class CoreStops extends Context.Service<CoreStops, {
  /** A stop may have come to be owed: look now, not at the next interval. */
  readonly wake: Effect.Effect<void>
}>()("async-task-service/services/CoreStops") {
  static readonly layer = Layer.effect(
    CoreStops,
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const core = yield* CoreClient
      const { sweepInterval } = yield* Settings
      const awake = yield* Latch.make()

      const deliver = (stop: OwedStop) =>
        core.stop(stop.runId, stop.reason).pipe(
          Effect.matchEffect({
            onSuccess: () => repository.settleStop(stop.runId),
            onFailure: (error) =>
              Effect.logDebug("the core was not told to stop a run", error).pipe(
                Effect.andThen(now),
                Effect.flatMap((at) => repository.postponeStop(stop.runId, plus(at, stopDelay(stop.attempt))))
              )
          }),
          Effect.annotateLogs({ taskId: stop.taskId, runId: stop.runId })
        )

      const deliverDue = Effect.gen(function*() {
        const stops = yield* repository.claimStops(yield* now, lease, batch)
        yield* Effect.forEach(stops, deliver, { concurrency: 16, discard: true })
        return stops.length
      }).pipe(
        Effect.repeat({ while: (found) => found === batch }),
        Effect.catchCause(logFault("stops are held up"))
      )

      const pass = Effect.gen(function*() {
        yield* awake.close
        yield* deliverDue
        yield* Effect.timeoutOption(awake.await, sweepInterval)
      })
      yield* Effect.forkScoped(Effect.forever(pass))
      return CoreStops.of({ wake: Effect.asVoid(awake.open) })
    })
  )
}
