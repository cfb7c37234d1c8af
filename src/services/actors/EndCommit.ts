/** Commits events that end tasks, hurries the stop of their runs, and measures how late expired deadlines were committed. */
import { Effect, Option } from "effect"
import { nextDue } from "../../domain/Deadline.ts"
import type { TaskEvent, TaskHead } from "../../domain/Task.ts"
import { minuteOf, now, type Timestamp } from "../../domain/Timestamp.ts"
import { CoreStops } from "../core/CoreStops.ts"
import { Settings } from "../settings/Settings.ts"
import { TaskWrites } from "../store/tasks/TaskWrites.ts"
import * as Metrics from "../telemetry/Metrics.ts"

/** The maximum lateness in the current and the previous minute. */
export const makeLateness = () => {
  let currentMinute = -1
  let worst = 0
  let previousWorst = 0

  const advance = (at: Timestamp) => {
    const number = minuteOf(at)
    // A record for the previous minute may arrive after that minute ended.
    if (number === currentMinute || number === currentMinute - 1) return
    previousWorst = number === currentMinute + 1 ? worst : 0
    worst = 0
    currentMinute = number
  }

  return {
    /** Records that something due at `due` happened at `at`. */
    note: (due: Timestamp, at: Timestamp) => {
      advance(at)
      worst = Math.max(worst, at - due)
    },
    /** Milliseconds. */
    worst: (at: Timestamp) => {
      advance(at)
      return Math.round(Math.max(worst, previousWorst) / 1000)
    }
  }
}

export const make = Effect.gen(function*() {
  const writes = yield* TaskWrites
  const stops = yield* CoreStops
  const { acceptanceTimeout } = yield* Settings
  const lateness = makeLateness()

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
