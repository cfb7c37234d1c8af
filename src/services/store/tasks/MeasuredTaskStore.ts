/** Decorates the store of tasks: counts every committed change, links it to the task's trace, and logs failures. */
import { Duration, Effect, Latch, Layer } from "effect"
import type { TaskEventTag, TaskId, TaskStatus } from "../../../domain/Task.ts"
import * as Metrics from "../../telemetry/Metrics.ts"
import * as TaskTraces from "../../telemetry/TaskTraces.ts"
import * as Worker from "../../timing/Worker.ts"
import { TaskStore } from "./TaskStore.ts"

const count = (event: TaskEventTag | "Created", status: TaskStatus) => Metrics.transitions.add(1, event, status)

/** Thousands of tasks may fail in one moment: each reason has one line in this time, and then one with a count. */
const logInterval = "10 seconds"

/** Returns how to log a failed task. The reason is the event alone: the error of a core may contain content of the task. */
const makeFailureLog = Effect.gen(function*() {
  /** The failures of each reason after the logged one. */
  const more = new Map<TaskEventTag, number>()
  const hasFailed = Latch.makeUnsafe()

  const logCounts = Effect.suspend(() => {
    const counts = [...more].filter(([, tasks]) => tasks > 0)
    more.clear()
    return Effect.forEach(
      counts,
      ([reason, tasks]) => Effect.annotateLogs(Effect.logInfo("more tasks failed"), { tasks, reason }),
      { discard: true }
    )
  })
  yield* Effect.addFinalizer(() => logCounts)
  yield* Worker.make({
    name: "the log of failed tasks",
    runOnce: Effect.suspend(() => more.size === 0 ? Effect.void : Effect.andThen(Effect.sleep(logInterval), logCounts)),
    interval: Duration.infinity,
    wake: hasFailed
  })

  return (taskId: TaskId, reason: TaskEventTag) =>
    Effect.suspend(() => {
      const before = more.get(reason)
      more.set(reason, before === undefined ? 0 : before + 1)
      if (before === undefined) hasFailed.openUnsafe()
      const log = before === undefined ? Effect.logInfo : Effect.logDebug
      return Effect.annotateLogs(log("a task failed"), { taskId, reason })
    })
})

type LogFailure = Effect.Success<typeof makeFailureLog>

const measured = (store: TaskStore["Service"], logFailure: LogFailure): TaskStore["Service"] => ({
  ...store,
  create: (...call) =>
    Effect.tap(store.create(...call), ({ isReplay, taskId }) => {
      if (isReplay) return Effect.void
      count("Created", "pending")
      return TaskTraces.begin(taskId)
    }),
  commit: (...call) =>
    Effect.tap(store.commit(...call), (outcome) => {
      const [uuid, event] = call
      if (outcome._tag !== "Applied") return TaskTraces.join(uuid)
      const { head, recordedAcceptance } = outcome
      if (recordedAcceptance) count("Accepted", "processing")
      count(event._tag, head.status)
      if (head.status === "failed") return Effect.andThen(TaskTraces.join(uuid), logFailure(uuid, event._tag))
      // A run that starts with a client's results belongs to the trace of that request.
      if (event._tag === "ToolResultsSubmitted") {
        return Effect.andThen(TaskTraces.join(uuid), TaskTraces.begin(uuid))
      }
      return TaskTraces.join(uuid)
    }),
  cancelInterrupted: (sub, at, author) =>
    Effect.tap(
      store.cancelInterrupted(sub, at, author),
      (heads) => Effect.sync(() => Metrics.transitions.add(heads.length, "Canceled", "canceled"))
    )
})

export const layer = Layer.effect(
  TaskStore,
  Effect.gen(function*() {
    return measured(yield* TaskStore, yield* makeFailureLog)
  })
)
