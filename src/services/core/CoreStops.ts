/**
 * Sends stop requests to the core from an outbox. The statement that ends a run inserts one. It is retried until the core
 * stops the run, or does not know it when no start can be in flight.
 */
import { Context, Duration, Effect, Latch, Layer } from "effect"
import { stopDelay } from "../../domain/DispatchRetry.ts"
import { now, plus, type Timestamp } from "../../domain/Timestamp.ts"
import { Settings } from "../settings/Settings.ts"
import { PendingWork } from "../store/PendingWork.ts"
import { type PendingStop, TaskStore } from "../store/tasks/TaskStore.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"
import * as Worker from "../timing/Worker.ts"
import { CoreClient } from "./CoreClient.ts"

const batch = 64
/** A claimed stop can be claimed again after this time, in case its node died. */
const lease = Duration.seconds(30)
/** A start that another node sent may reach the core up to this long after the run has ended; it times out after 10 s. */
const startTime = Duration.seconds(15)

/** A stop may become visible this long after its moment: it waits for a connection, for locks and for its statement. */
const longestCommit = Duration.seconds(30)

/** Whether a core that does not know the run may still receive it. */
const mayStillStart = ({ attempt, endedAt }: PendingStop, at: Timestamp) =>
  endedAt === null ? attempt === 1 : at < plus(endedAt, startTime)

export class CoreStops extends Context.Service<CoreStops, {
  /** Claims pending stops now instead of at the next interval. */
  readonly wake: Effect.Effect<void>
}>()("async-task-service/services/core/CoreStops") {
  static readonly layer = Layer.effect(
    CoreStops,
    Effect.gen(function*() {
      const store = yield* TaskStore
      const core = yield* CoreClient
      const { sweepInterval } = yield* Settings
      const wake = yield* Latch.make()
      const floor = ScanFloor.make()

      const postpone = (stop: PendingStop, delay: Duration.Duration) =>
        Effect.flatMap(now, (at) => store.postponeStop(stop.runId, plus(at, delay)))

      const deliver = (stop: PendingStop) =>
        core.stop(stop.runId, stop.reason).pipe(
          Effect.matchEffect({
            onSuccess: (isKnown) =>
              Effect.flatMap(now, (at) =>
                !isKnown && mayStillStart(stop, at) ? postpone(stop, startTime) : store.deleteStop(stop.runId)),
            onFailure: (error) =>
              Effect.logDebug("a stop request failed and will be retried", error).pipe(
                Effect.andThen(postpone(stop, stopDelay(stop.attempt)))
              )
          }),
          Effect.annotateLogs({ taskId: stop.taskId, runId: stop.runId })
        )

      const deliverDue = Effect.gen(function*() {
        const at = yield* now
        const stops = yield* store.claimStops(at, lease, batch, yield* floor.from(at))
        if (stops.length < batch) yield* floor.raise(at)
        yield* Effect.forEach(stops, deliver, { concurrency: 16, discard: true })
        return stops.length
      }).pipe(Effect.repeat({ while: (found) => found === batch }))

      yield* Worker.make({
        name: "the delivery of stop requests",
        runOnce: deliverDue,
        interval: sweepInterval,
        demand: (yield* PendingWork).of("stops"),
        wake
      })
      return CoreStops.of({
        wake: Effect.flatMap(now, (at) => {
          floor.lower(plus(at, Duration.negate(longestCommit)))
          return Effect.asVoid(wake.open)
        })
      })
    })
  )
}
