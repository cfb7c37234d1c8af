/**
 * Adds what this node has counted to the history every 10 s. Counts are the increase of metrics since the last addition that is
 * known to be committed: one whose answer is lost may be added twice.
 */
import { Duration, Effect, Layer, Struct } from "effect"
import { targetOf, TaskEvent } from "../../domain/Task.ts"
import { now, plus } from "../../domain/Timestamp.ts"
import { AttemptError } from "../../domain/Webhook.ts"
import { TaskActors } from "../actors/TaskActors.ts"
import { type Counts, History, historyNames, keptFor } from "../store/History.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as Worker from "../timing/Worker.ts"

const interval = Duration.seconds(10)
const deletionInterval = Duration.minutes(10)
const batch = 1000

const events = Struct.keys(TaskEvent.cases)
const countOf = (event: typeof events[number]) => Metrics.transitions.count(event, targetOf(event))
const endsIn = (status: "failed" | "canceled") =>
  events.filter((event) => targetOf(event) === status).reduce((sum, event) => sum + countOf(event), 0)

/** The counts since this process started. */
const totals = () => ({
  created: Metrics.transitions.count("Created", "pending"),
  accepted: countOf("Accepted"),
  interrupted: countOf("Interrupted"),
  completed: countOf("Completed"),
  failed: endsIn("failed"),
  canceled: endsIn("canceled"),
  acceptance_expired: countOf("AcceptanceExpired"),
  time_limit: countOf("TimeLimitExceeded"),
  webhook_delivered: Metrics.webhookAttempts.count("delivered"),
  webhook_failed: AttemptError.literals.reduce((sum, error) => sum + Metrics.webhookAttempts.count(error), 0)
})

export const layer = Layer.effectDiscard(Effect.gen(function*() {
  const history = yield* History
  const actors = yield* TaskActors
  let recorded = totals()

  const record = Effect.gen(function*() {
    const counted = totals()
    const counts: Counts = { late_ms_max: (yield* actors.load).lateness }
    for (const name of Struct.keys(counted)) counts[name] = counted[name] - recorded[name]
    for (const name of historyNames) if (counts[name] === 0) delete counts[name]
    if (Struct.keys(counts).length > 0) yield* history.add(yield* now, counts)
    recorded = counted
  })

  const deleteExpired = Effect.repeat(
    Effect.flatMap(now, (at) => history.deleteExpired(plus(at, Duration.negate(keptFor)), batch)),
    { while: (deleted) => deleted === batch }
  )

  yield* Effect.addFinalizer(() => Effect.ignoreCause(Effect.timeout(record, "1 second")))
  yield* Worker.make({ name: "the history", runOnce: record, interval, isDelayed: true })
  yield* Worker.make({ name: "the deletion of old history", runOnce: deleteExpired, interval: deletionInterval })
}))
