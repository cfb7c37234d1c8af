/** Use cases that end a task in any status, and that delete an ended one. */
import { Effect } from "effect"
import * as Failure from "../../domain/Failure.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { isTerminal, TaskEvent, type TaskHead } from "../../domain/Task.ts"
import { TaskHasEnded, TaskNotEnded, TaskNotFound } from "../../domain/TaskErrors.ts"
import { now } from "../../domain/Timestamp.ts"
import { TaskActors } from "../actors/TaskActors.ts"
import { CoreStops } from "../core/CoreStops.ts"
import { Changes } from "../signals/Changes.ts"
import { TaskRetention } from "../store/tasks/TaskRetention.ts"
import { TaskWrites } from "../store/tasks/TaskWrites.ts"

export interface TaskEnds {
  /** Cancels a pending, processing or interrupted task and asks the core to stop its run. `actor` is who cancels it, if not the user. */
  readonly withdraw: (
    task: TaskHead,
    reason: string | null,
    actor?: string
  ) => Effect.Effect<void, TaskHasEnded | TaskNotFound | StoreUnavailable>
  /** Deletes a task that has ended. Its pending webhooks are not sent. */
  readonly delete: (task: TaskHead) => Effect.Effect<void, TaskNotEnded | TaskNotFound | StoreUnavailable>
}

const { Canceled, Withdrawn } = TaskEvent.cases

export const make = Effect.gen(function*() {
  const writes = yield* TaskWrites
  const retention = yield* TaskRetention
  const changes = yield* Changes
  const actors = yield* TaskActors
  const stops = yield* CoreStops

  const withdraw: TaskEnds["withdraw"] = Effect.fnUntraced(function*(task, reason, actor) {
    let head = task
    while (!isTerminal(head.status)) {
      const event = head.status === "interrupted"
        ? Canceled.make({ reason, actor })
        : Withdrawn.make({ reason: reason ?? Failure.withdrawn, actor })
      // Without a fence: a run that has begun in the meantime is withdrawn too.
      const outcome = yield* writes.commit(head.uuid, event, yield* now)
      if (outcome._tag === "Unknown") return yield* new TaskNotFound({})
      head = outcome.head
      if (outcome._tag === "Applied") return yield* Effect.andThen(actors.wake(head), stops.wake)
    }
    return yield* new TaskHasEnded({ status: head.status })
  }, Effect.uninterruptible)

  const deleteEnded: TaskEnds["delete"] = Effect.fnUntraced(function*({ status, uuid }) {
    if (!isTerminal(status)) return yield* new TaskNotEnded({ status })
    if (!(yield* retention.deleteTask(uuid))) return yield* new TaskNotFound({})
    yield* changes.publish(uuid)
  }, Effect.uninterruptible)

  return { withdraw, delete: deleteEnded }
})
