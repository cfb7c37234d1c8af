/** Follows a task to its interrupt or end. */
import { Duration, Effect, Stream } from "effect"
import type { Caller } from "../../domain/Principal.ts"
import type { TaskStatus } from "../../domain/Task.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import { TaskWatch } from "../../services/tasks/TaskWatch.ts"

/** The longest wait of a request that is held. */
export const maxWait = Duration.minutes(10)

export const isActive = ({ status }: { readonly status: TaskStatus | "answered" }) =>
  status === "pending" || status === "processing"

/** The head of a task, and the events that follow it. Fails when the user has too many waiting requests. */
export const makeFollow = Effect.gen(function*() {
  const tasks = yield* Tasks
  const watch = yield* TaskWatch
  return Effect.fnUntraced(function*(caller: Caller, uuid: string, includesText: boolean) {
    const head = yield* tasks.getHead(caller.principal, uuid)
    // The last change is repeated, because it may have brought the text so far.
    const seen = includesText && isActive(head) ? head.revision - 1 : head.revision
    const events = yield* watch.events(head, seen, includesText)
    return { head, changes: Stream.takeUntil(events, (event) => !isActive(event)) }
  })
})
