/** Begins the sweep of schedules, so that the first moment of one that was saved does not wait for the next sweep. */
import { Context, Latch, Layer } from "effect"

export class ScheduleWake extends Context.Service<ScheduleWake, {
  readonly latch: Latch.Latch
  /** A schedule was saved, perhaps with a moment in the past. */
  readonly noteSaved: () => void
  /** Whether one was saved since the last call. */
  readonly takeSaved: () => boolean
}>()("async-task-service/services/schedules/ScheduleWake") {
  static readonly layer = Layer.sync(ScheduleWake, () => {
    const latch = Latch.makeUnsafe()
    let isSaved = false
    return ScheduleWake.of({
      latch,
      noteSaved: () => {
        isSaved = true
        latch.openUnsafe()
      },
      takeSaved: () => {
        const wasSaved = isSaved
        isSaved = false
        return wasSaved
      }
    })
  })
}
