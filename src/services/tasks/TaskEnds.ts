/** Use cases that end a task in any status, and that delete an ended one. */
import { Effect } from "effect"
import * as Failure from "../../domain/Failure.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { isTerminal, TaskEvent, type TaskHead } from "../../domain/Task.ts"
import { type IdempotencyKeyReused, TaskHasEnded, TaskNotEnded, TaskNotFound } from "../../domain/TaskErrors.ts"
import { now } from "../../domain/Timestamp.ts"
import { TaskActors } from "../actors/TaskActors.ts"
import { CoreStops } from "../core/CoreStops.ts"
import { Changes } from "../signals/Changes.ts"
import { type RequestKey, TaskStore } from "../store/tasks/TaskStore.ts"
import type { TaskRuns } from "./TaskRuns.ts"

export interface TaskEnds {
  /**
   * Cancels a pending, processing or interrupted task and asks the core to stop its run. Its error is the reason, or "canceled". `author` is
   * who cancels it, if not the user.
   */
  readonly withdraw: (
    task: TaskHead,
    reason: string | null,
    author?: string
  ) => Effect.Effect<void, TaskHasEnded | TaskNotFound | StoreUnavailable>
  /** The same, once per idempotency key: `isReplay` is true when an earlier request with the same key did it. */
  readonly stop: (
    task: TaskHead,
    reason: string | null,
    key: RequestKey | undefined,
    author?: string
  ) => Effect.Effect<
    { readonly isReplay: boolean },
    TaskHasEnded | TaskNotFound | IdempotencyKeyReused | StoreUnavailable
  >
  /** Deletes a task that has ended. Its pending webhooks are not sent. */
  readonly delete: (task: TaskHead) => Effect.Effect<void, TaskNotEnded | TaskNotFound | StoreUnavailable>
}

const { Canceled, Withdrawn } = TaskEvent.cases

export const make = Effect.fnUntraced(function*({ isReplayed }: TaskRuns) {
  const store = yield* TaskStore
  const changes = yield* Changes
  const actors = yield* TaskActors
  const stops = yield* CoreStops

  const stop: TaskEnds["stop"] = Effect.fnUntraced(function*(task, given, key, author) {
    if (yield* isReplayed(task.sub, key)) return { isReplay: true }
    const made = key === undefined ? undefined : { ...key, sub: task.sub }
    const reason = given ?? Failure.withdrawn
    let head = task
    while (!isTerminal(head.status)) {
      const event = head.status === "interrupted"
        ? Canceled.make({ reason, author })
        : Withdrawn.make({ reason, author })
      // Without a fence: a run that has begun in the meantime is withdrawn too.
      const outcome = yield* store.commit(head.uuid, event, yield* now, undefined, made)
      if (outcome._tag === "Unknown") return yield* new TaskNotFound({})
      head = outcome.head
      if (outcome._tag === "Applied") {
        yield* Effect.andThen(actors.wake(head), stops.wake)
        return { isReplay: false }
      }
      // The same request may have been committed on another connection.
      if (yield* isReplayed(task.sub, key)) return { isReplay: true }
    }
    return yield* new TaskHasEnded({ status: head.status })
  }, Effect.uninterruptible)

  const deleteEnded: TaskEnds["delete"] = Effect.fnUntraced(function*({ status, uuid }) {
    if (!isTerminal(status)) return yield* new TaskNotEnded({ status })
    if (!(yield* store.deleteTask(uuid))) return yield* new TaskNotFound({})
    yield* changes.publish(uuid)
  }, Effect.uninterruptible)

  const withdraw: TaskEnds["withdraw"] = (task, reason, author) =>
    stop(task, reason, undefined, author).pipe(Effect.catchTag("IdempotencyKeyReused", Effect.die), Effect.asVoid)

  return { withdraw, stop, delete: deleteEnded }
})
