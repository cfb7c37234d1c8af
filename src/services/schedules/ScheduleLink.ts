/** `GET /api/tasks?schedule=` and `?include=schedule`. */
import { Effect, Schema } from "effect"
import { format } from "../../domain/Timestamp.ts"
import type { TaskLink } from "../Extensions.ts"
import { ScheduleId } from "./Schedule.ts"
import { SchedulesStore } from "./SchedulesStore.ts"

const isId = Schema.is(ScheduleId)

export const make = Effect.map(SchedulesStore, (store): TaskLink => ({
  name: "schedule",
  selection: {
    expected: "the id of a schedule",
    isValue: isId,
    select: (sub, id) => isId(id) ? store.tasksOf(sub, id) : Effect.succeed([])
  },
  describe: (uuid) =>
    Effect.map(
      store.ofTasks([uuid]),
      ([found]) => found === undefined ? null : { id: found.scheduleId, scheduled_for: format(found.scheduledFor) }
    )
}))
