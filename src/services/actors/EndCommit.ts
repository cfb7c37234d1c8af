/** Commits events that end tasks, hurries the stop of their runs, and measures how late expired deadlines were committed. */
import { Effect, Option } from "effect"
import { nextDue } from "../../domain/Deadline.ts"
import type { TaskEvent, TaskHead } from "../../domain/Task.ts"
import { now } from "../../domain/Timestamp.ts"
import { CoreStops } from "../core/CoreStops.ts"
import { TaskWrites } from "../store/TaskWrites.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import { Settings } from "../timing/Settings.ts"
import * as Lateness from "./Lateness.ts"

export const make = Effect.gen(function*() {
  const writes = yield* TaskWrites
  const stops = yield* CoreStops
  const { acceptanceTimeout } = yield* Settings
  const lateness = Lateness.make()

  const noteLateness = (head: TaskHead, event: TaskEvent) =>
    Effect.map(now, (at) => {
      const due = nextDue(head, acceptanceTimeout)
      if (due?.event()._tag !== event._tag) return
      lateness.note(due.at, at)
      Metrics.deadlineLateness.record(Math.max(0, at - due.at) / 1_000_000, event._tag)
    })

  return {
    lateness,
    /** Returns the head after the commit, or nothing if the task does not exist. */
    commit: Effect.fnUntraced(function*(head: TaskHead, event: TaskEvent) {
      const outcome = yield* writes.commit(head.uuid, event, yield* now, { runId: head.runId })
      if (outcome._tag === "Unknown") return Option.none()
      if (outcome._tag === "Applied") {
        yield* noteLateness(head, event)
        yield* stops.wake
      }
      return Option.some(outcome.head)
    })
  }
})
