/**
 * Waits for changes of a task, as a long poll or as a stream of its events. A waiting request costs a fiber; it queries
 * the database only after a notification.
 */
import { Array, Context, type Duration, Effect, Exit, Layer, Stream } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { isTerminal, type TaskHead, type TaskId } from "../../domain/Task.ts"
import type { TooManyWaiting } from "../../domain/TaskErrors.ts"
import { Changes, type Wake } from "../signals/Changes.ts"
import { type RecordedEvent, TaskStore } from "../store/tasks/TaskStore.ts"
import { Intervals } from "../timing/Intervals.ts"
import * as Worker from "../timing/Worker.ts"
import { Turns } from "./Turns.ts"

const eventBatch = 500
const repairBatch = 1000

/** `text` is that of the turn when the event was read. */
export interface WatchedEvent extends RecordedEvent {
  readonly text?: string
}

export class TaskWatch extends Context.Service<TaskWatch, {
  /**
   * Completes when `isEnough` is true of the task, or was after a change of this node; when the task is deleted, after `timeout`, or
   * when the node drains.
   */
  readonly until: (
    task: TaskHead,
    isEnough: (task: TaskHead) => boolean,
    timeout: Duration.Duration
  ) => Effect.Effect<void, TooManyWaiting | StoreUnavailable>
  /**
   * The events of the task after `revision`, past and future. The stream ends after the terminal event. With `includesText`
   * the newest of the progress events that are read together has the text of the turn, unless the stream had it before. It is
   * empty when the user has too many waiting requests once it begins.
   */
  readonly events: (
    task: TaskHead,
    revision: number,
    includesText: boolean
  ) => Effect.Effect<Stream.Stream<WatchedEvent, StoreUnavailable>, TooManyWaiting>
}>()("async-task-service/services/tasks/TaskWatch") {
  static readonly layer = Layer.effect(TaskWatch, Effect.suspend(() => make))
}

const makeUntil = Effect.gen(function*() {
  const store = yield* TaskStore
  const changes = yield* Changes

  const wait = Effect.fnUntraced(
    function*(uuid: TaskId, isEnough: (head: TaskHead) => boolean, awaitWake: Effect.Effect<Wake>) {
      let wake: Wake = "changed"
      while (wake === "changed") {
        const [present] = yield* store.heads([uuid])
        if (present === undefined || isEnough(present)) return
        wake = yield* awaitWake
      }
    }
  )

  return Effect.fnUntraced(
    function*(...[task, isEnough, timeout]: Parameters<TaskWatch["Service"]["until"]>) {
      yield* changes.checkLimit(task.sub)
      // Subscribe before the first read, so that no change falls between the two.
      const awaitWake = yield* changes.subscribe(
        task.uuid,
        task.sub,
        // A change that the caller knows already may be published late.
        (changed) => changed.revision > task.revision && isEnough(changed)
      )
      yield* Effect.timeoutOption(wait(task.uuid, isEnough, awaitWake), timeout)
    },
    Effect.scoped
  )
})

const makeEvents = Effect.gen(function*() {
  const store = yield* TaskStore
  const changes = yield* Changes
  const turns = yield* Turns

  /** Adds texts to events, each text once. */
  const makeAddText = (task: TaskHead) => {
    let last: string | undefined
    return Effect.fnUntraced(function*(events: ReadonlyArray<WatchedEvent>) {
      const newest = events.findLast(({ type }) => type === "Progressed")
      const text = newest === undefined ? undefined : yield* turns.textOf(task, newest.revision)
      if (text === undefined || text === "" || text === last) return events
      last = text
      return events.map((event) => event === newest ? { ...event, text } : event)
    })
  }

  const eventsFrom = (task: TaskHead, revision: number, includesText: boolean) =>
    Stream.unwrap(Effect.gen(function*() {
      // All requests of a burst have passed the first check.
      if (Exit.isFailure(yield* Effect.exit(changes.checkLimit(task.sub)))) return Stream.empty
      const awaitWake = yield* changes.subscribe(task.uuid, task.sub)
      const addText = includesText ? makeAddText(task) : Effect.succeed<ReadonlyArray<WatchedEvent>>
      // Behind the newest event nothing would be sent, not even the terminal one.
      let last = Math.min(revision, task.revision)
      let isOpen = !(isTerminal(task.status) && task.revision <= revision)
      const next = Effect.gen(function*() {
        let isNotified = false
        while (isOpen) {
          const found = yield* store.eventsAfter(task.uuid, last, eventBatch)
          const newest = found.at(-1)
          if (newest !== undefined) {
            last = newest.revision
            isOpen = !isTerminal(newest.status)
            return yield* addText(found)
          }
          // The task may have been deleted, before the subscription too.
          if ((isNotified || isTerminal(task.status)) && (yield* store.heads([task.uuid])).length === 0) return []
          isOpen = (yield* awaitWake) !== "draining"
          isNotified = true
        }
        return []
      })
      return Stream.fromEffectRepeat(next).pipe(
        Stream.takeWhile((found) => found.length > 0),
        Stream.flattenIterable
      )
    }))

  return (task: TaskHead, revision: number, includesText: boolean) =>
    Effect.as(changes.checkLimit(task.sub), eventsFrom(task, revision, includesText))
})

/** Notifications of other nodes may be lost: compares the revisions of watched tasks with their rows periodically. */
const startRepair = Effect.gen(function*() {
  const store = yield* TaskStore
  const changes = yield* Changes
  let known = new Map<TaskId, number>()
  const repair = Effect.gen(function*() {
    const watched = yield* changes.watched
    const found = yield* Effect.forEach(Array.chunksOf(watched, repairBatch), store.heads)
    const present = new Map(found.flat().map(({ revision, uuid }) => [uuid, revision]))
    // A task without a row was deleted.
    for (const uuid of watched) {
      const revision = present.get(uuid)
      if (revision === undefined || known.get(uuid) !== revision) yield* changes.receive(uuid)
    }
    known = present
  })
  const { watchRepair } = yield* Intervals
  yield* Worker.make({ name: "the check of watched tasks", runOnce: repair, interval: watchRepair })
})

const make = Effect.gen(function*() {
  yield* startRepair
  return TaskWatch.of({ until: yield* makeUntil, events: yield* makeEvents })
})
