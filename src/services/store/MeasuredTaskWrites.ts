/** Decorates the changes of tasks: counts every committed change, links it to the task's trace, and logs failures. */
import { Effect, Layer } from "effect"
import type { TaskEventTag, TaskId, TaskStatus } from "../../domain/Task.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as TaskTraces from "../telemetry/TaskTraces.ts"
import { TaskWrites } from "./TaskWrites.ts"

const count = (event: TaskEventTag | "Created", status: TaskStatus) => Metrics.transitions.add(1, event, status)

/** The reason is the event alone: the error of a core may contain content of the task. */
const logFailure = (taskId: TaskId, reason: TaskEventTag) =>
  Effect.annotateLogs(Effect.logInfo("a task failed"), { taskId, reason })

const measured = (writes: TaskWrites["Service"]): TaskWrites["Service"] => ({
  ...writes,
  create: (task, maxActive, claim) =>
    Effect.tap(writes.create(task, maxActive, claim), ({ isReplay, taskId }) => {
      if (isReplay) return Effect.void
      count("Created", "pending")
      return TaskTraces.begin(taskId)
    }),
  commit: (uuid, event, at, fence, claim) =>
    Effect.tap(writes.commit(uuid, event, at, fence, claim), (outcome) => {
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
  cancelInterrupted: (sub, at) =>
    Effect.tap(
      writes.cancelInterrupted(sub, at),
      (heads) => Effect.sync(() => Metrics.transitions.add(heads.length, "Canceled", "canceled"))
    )
})

export const layer = Layer.effect(TaskWrites, Effect.map(TaskWrites, measured))
