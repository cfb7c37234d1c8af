/** A latch that opens when a schedule was saved, so that its first moment does not wait for the next sweep. */
import { Context, Latch, Layer } from "effect"

export class ScheduleWake extends Context.Service<ScheduleWake, Latch.Latch>()(
  "async-task-service/services/schedules/ScheduleWake"
) {
  static readonly layer = Layer.sync(ScheduleWake, Latch.makeUnsafe)
}
