/** The actors of this node with their timers, and the fibers that work for them. */
import { Cause, Effect, FiberSet } from "effect"
import type { TaskHead, TaskId } from "../../domain/Task.ts"
import { now, type Timestamp } from "../../domain/Timestamp.ts"
import { CoreBusy } from "../queue/CoreBusy.ts"
import * as Timers from "../timing/Timers.ts"
import { hasRun, type MutableActor, newActor } from "./Decision.ts"

/** `due` is called when the timer of an actor is. */
export const make = Effect.fnUntraced(function*(due: (head: TaskHead, at: Timestamp) => void) {
  const busy = yield* CoreBusy
  const runInFiber = yield* FiberSet.makeRuntime()
  const actors = new Map<TaskId, MutableActor>()
  const timers = yield* Timers.make((id: TaskId) =>
    Effect.map(now, (at) => {
      const actor = actors.get(id)
      if (actor !== undefined) due(actor.head, at)
    })
  )

  const release = (id: TaskId): void => {
    const actor = actors.get(id)
    if (actor === undefined) return
    busy.unreserve(actor.head.runId)
    if (actor.isCounted) {
      actor.isCounted = false
      busy.noteLeft(actor.head.room === "held")
    }
    actors.delete(id)
    timers.clear(id)
  }

  /** Counts the run of an actor that has changed; `before` is its room until then. */
  const recount = (actor: MutableActor, before = actor.head.room): void => {
    const counts = hasRun(actor)
    if (counts === actor.isCounted) return
    actor.isCounted = counts
    // It needs no second place.
    if (counts) busy.unreserve(actor.head.runId)
    if (counts) busy.noteTaken()
    else busy.noteLeft(before === "held")
  }

  return {
    get: (id: TaskId): MutableActor | undefined => actors.get(id),
    size: () => actors.size,
    heads: () => Array.from(actors.values(), ({ head }) => head),
    /** Puts a row into the actor of its task, which is made if there is none. */
    put: (head: TaskHead): MutableActor => {
      const actor = actors.get(head.uuid) ?? newActor(head)
      const before = actor.head.room
      actor.head = head
      actors.set(head.uuid, actor)
      recount(actor, before)
      return actor
    },
    release,
    recount,
    setTimer: timers.set,
    nextTimer: timers.next,
    count: (isCounted: (head: TaskHead) => boolean): number => {
      let counted = 0
      for (const { head } of actors.values()) if (isCounted(head)) counted++
      return counted
    },
    /** Runs a fiber of the task's actor. One that fails releases the actor, and the sweep starts another. */
    fork: (id: TaskId, effect: Effect.Effect<void>): void => {
      runInFiber(Effect.catchCauseIf(effect, (cause) => !Cause.hasInterruptsOnly(cause), (cause) => {
        release(id)
        return Effect.annotateLogs(Effect.logError("actor stopped", cause), { taskId: id })
      }))
    }
  }
})

export type ActorTable = Effect.Success<ReturnType<typeof make>>
