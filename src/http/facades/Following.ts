/** Follows a task to its interrupt or end. */
import { Duration, Effect, Stream } from "effect"
import type { Caller } from "../../domain/Principal.ts"
import { isRunning, type TaskHead, type TaskStatus } from "../../domain/Task.ts"
import { LiveReading } from "../../services/live/LiveReading.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import { TaskWatch, type WatchedEvent } from "../../services/tasks/TaskWatch.ts"

/** The longest wait of a request that is held. */
export const maxWait = Duration.minutes(10)

/** Whether a run is in progress, or is to be. */
export const hasRun = ({ status }: { readonly status: TaskStatus | "answered" }) =>
  status !== "answered" && isRunning(status)

/** The head of a task, and the events that follow it. Fails when the user has too many waiting requests. */
export const makeFollow = Effect.gen(function*() {
  const tasks = yield* Tasks
  const watch = yield* TaskWatch
  return Effect.fnUntraced(function*(caller: Caller, uuid: string, includesText: boolean) {
    const head = yield* tasks.getHead(caller.principal, uuid)
    // The last change is repeated, because it may have brought the text so far.
    const seen = includesText && hasRun(head) ? head.revision - 1 : head.revision
    const events = yield* watch.events(head, seen, includesText)
    return { head, changes: Stream.takeUntil(events, (event) => !hasRun(event)) }
  })
})

/** An event, or the text of the run so far, with the event before it. */
export interface Change extends WatchedEvent {
  /** True if the core appends to the text, and so hardly takes anything back. */
  readonly isAppended?: boolean
}

/**
 * The events that follow the head of a task, and its text as it is written. With `includesTurn` events also have the text of the turn, as
 * those of `TaskWatch`. Fails when the user has too many waiting requests.
 */
export const makeFollowText = Effect.map(
  LiveReading,
  (live) =>
    Effect.fnUntraced(function*(head: TaskHead, includesTurn: boolean) {
      const { deadline, lastEventAt, revision, runId, status } = head
      let last: WatchedEvent = {
        revision,
        type: "Progressed",
        status,
        occurredAt: lastEventAt ?? deadline,
        author: null
      }
      let text = ""
      const changes = yield* live.read<Change | undefined>(head, { revision, end: 0 }, {
        text: ({ offset, replaced, text: part }, _, { hasAppends, runId: from }) => {
          text = replaced === true ? part : text.slice(0, offset) + part
          // That of an earlier run is no news.
          return from === runId ? { ...last, type: "Progressed", text, isAppended: hasAppends } : undefined
        },
        event: (event) => last = event,
        idle: undefined
      }, { includesTurn })
      return changes.pipe(
        Stream.filter((change) => change !== undefined),
        Stream.takeUntil((change) => !hasRun(change))
      )
    })
)
