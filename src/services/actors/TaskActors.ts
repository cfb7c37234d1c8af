/**
 * One actor for each live task of this node, except interrupted ones whose deadline is far: they cost no memory.
 * An actor is an entry with a timer while it waits, and a fiber while it works:
 * while it dispatches a run to the core or commits an expired deadline.
 *
 * 1. The row is the truth. An actor is a cache of the next step: stop all actors and they are rebuilt from the rows.
 * 2. Every row that arrives and every timer that is due goes through `decide`, a pure function. `apply` carries it out.
 * 3. Each actor has a timer for its task's next deadline or a fiber that ends the task. A fiber that fails releases the actor,
 *    and the sweep starts another.
 * 4. A task has at most one dispatch of a run and one commit of an expired deadline in progress.
 * 5. An actor changes a row only by a guarded statement, so an actor on two nodes, or a stale one, does no harm.
 */
import { Clock, Context, Duration, Effect, Layer } from "effect"
import { nextDue } from "../../domain/Deadline.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { TaskEvent, TaskHead, TaskId } from "../../domain/Task.ts"
import { fromNanos, now, plus, type Timestamp } from "../../domain/Timestamp.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import type { Run } from "../core/CoreClient.ts"
import { CoreStops } from "../core/CoreStops.ts"
import * as Lane from "../limits/Lane.ts"
import { CoreBusy } from "../queue/CoreBusy.ts"
import { Settings } from "../settings/Settings.ts"
import { Changes } from "../signals/Changes.ts"
import { maxBatch } from "../store/sql/Batcher.ts"
import { type QueueEntry, TaskStore } from "../store/tasks/TaskStore.ts"
import * as Lateness from "../telemetry/Lateness.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as OutageLog from "../telemetry/OutageLog.ts"
import * as TaskTraces from "../telemetry/TaskTraces.ts"
import { retryForever } from "../timing/Retry.ts"
import * as ActorTable from "./ActorTable.ts"
import { decide, isQuiet, isSilent, watchTime } from "./Decision.ts"
import * as Dispatch from "./Dispatch.ts"

/** A task that is about to be created. */
export interface Expected {
  readonly uuid: TaskId
  /** Whether its run would be dispatched at once: a lane has room, and the request is not large. */
  readonly isImmediate: boolean
  /** Whether its run waits in the queue. */
  readonly entry: QueueEntry
  /** Call it when the task has begun, or was not created. */
  readonly begun: Effect.Effect<void>
}

export class TaskActors extends Context.Service<TaskActors, {
  /**
   * Starts the deadline timer and the dispatch of a new run. A given `run` is dispatched by this node, even if another
   * node owns the task; without it, the owner reads the run from the store.
   */
  readonly begin: (head: TaskHead, run?: Run) => Effect.Effect<void>
  /** Starts or updates the actor of a task that this node owns. A run that this node has not dispatched is dispatched. */
  readonly ensure: (head: TaskHead) => Effect.Effect<void>
  /** Releases the tasks that this node no longer owns. */
  readonly release: Effect.Effect<void>
  /** Call it when shards were gained, or changes may be unknown: the core may know all runs that are older than the call. */
  readonly distrustRuns: Effect.Effect<void>
  /** Applies a row to the actor of its task, if this node has one. */
  readonly wake: (head: TaskHead) => Effect.Effect<void>
  /** Call it when the database is back: no event could be recorded before, so that time is no silence. */
  readonly endOutage: Effect.Effect<void>
  /** Those of applied rows whose run has been silent for longer than its core declared. */
  readonly silent: (heads: ReadonlyArray<TaskHead>, at: Timestamp) => Effect.Effect<ReadonlyArray<TaskHead>>
  /** Dispatches a silent run again, which this node has claimed. */
  readonly redispatch: (head: TaskHead) => Effect.Effect<void>
  /** Commits an event that ends the task and notifies actor and core. Returns the head after the commit. */
  readonly end: (head: TaskHead, event: TaskEvent) => Effect.Effect<TaskHead, StoreUnavailable>
  /** Call it before a task is created: the sweep ignores the row until the task has begun. */
  readonly expect: (uuid: TaskId, request: Run["request"]) => Effect.Effect<Expected>
  /** The number of actors, their earliest deadline, and the recent maximum lateness in milliseconds. */
  readonly load: Effect.Effect<
    { readonly tasks: number; readonly nextDue: Timestamp | null; readonly lateness: number }
  >
}>()("async-task-service/services/actors/TaskActors") {
  static readonly layer = Layer.effect(TaskActors, Effect.suspend(() => make))
}

/** Expired deadlines that are committed at a time: two full statements. Thousands may expire in one moment. */
const maxExpiring = 2 * maxBatch

const make = Effect.gen(function*() {
  const ownership = yield* TaskOwnership
  const changes = yield* Changes
  const store = yield* TaskStore
  const stops = yield* CoreStops
  const busy = yield* CoreBusy
  const { acceptanceTimeout, stuckAfter, sweepInterval } = yield* Settings
  const missingEvents = OutageLog.make()
  const lateness = Lateness.make()
  /** Ends of tasks whose deadline has expired: they leave room for the commits of others. */
  const expiries = Lane.make(maxExpiring)
  /** Tasks whose row may be stored already, and which are about to begin; with the row of one that was admitted meanwhile. */
  const creating = new Map<TaskId, TaskHead | undefined>()
  /** This node has known every run of its tasks since this moment. */
  let ownedSince = yield* now
  /** Events could be recorded from this moment on. */
  let recordedFrom = ownedSince

  const clock = yield* Clock.Clock
  const actors = yield* ActorTable.make((head, at) => apply(head, at))
  yield* Metrics.actors.observe(actors.size)
  yield* Metrics.silentRuns.observe(() => actors.count(({ redispatches }) => redispatches !== null))
  yield* Metrics.stuckRuns.observe(() => {
    const at = fromNanos(clock.currentTimeNanosUnsafe())
    return actors.count((head) => isQuiet(head, stuckAfter, at, recordedFrom))
  })

  /** Applies a row, and carries out what is decided. `begun` has the run that this node has just committed, if it is known. */
  const apply = (head: TaskHead, at: Timestamp, begun?: { readonly run: Run | undefined }): void => {
    const decision = decide(actors.get(head.uuid), head, at, {
      acceptanceTimeout,
      sweepInterval,
      ownedSince,
      isNew: begun !== undefined
    })
    if (decision._tag === "Ignore") return
    if (decision._tag === "Release") return actors.release(head.uuid)
    const actor = actors.put(head)
    if (decision._tag === "Expire") {
      actor.ending = head.runId
      return expire(head, decision.event)
    }
    if (decision._tag === "Queue") {
      actor.dispatchedRun = undefined
      actor.silence = undefined
      busy.noteWaiting()
      if (decision.until > plus(at, watchTime(sweepInterval))) return actors.release(head.uuid)
    }
    actors.setTimer(head.uuid, decision.until)
    if (decision._tag === "Park" || decision._tag === "Queue") return
    actor.dispatchedRun = head.runId
    actor.silence = undefined
    dispatch.start(head, begun?.run, decision._tag === "Recover", at)
  }

  const wake = (head: TaskHead) =>
    Effect.map(now, (at) => {
      if (actors.get(head.uuid) !== undefined) apply(head, at)
    })

  const noteLateness = (head: TaskHead, event: TaskEvent, at: Timestamp): void => {
    const due = nextDue(head, acceptanceTimeout)
    if (due?.event()._tag !== event._tag) return
    lateness.note(due.at, at)
    Metrics.deadlineLateness.record(Math.max(0, at - due.at) / 1_000_000, event._tag)
  }

  const end = Effect.fnUntraced(function*(head: TaskHead, event: TaskEvent) {
    const outcome = yield* store.commit(head.uuid, event, yield* now, { runId: head.runId })
    if (outcome._tag === "Applied") {
      noteLateness(head, event, yield* now)
      yield* stops.wake
    }
    // The row may be another than the actor knew, and overdue for another reason.
    const actor = actors.get(head.uuid)
    if (actor?.ending === head.runId) actor.ending = undefined
    if (outcome._tag !== "Unknown") return yield* Effect.as(wake(outcome.head), outcome.head)
    actors.release(head.uuid)
    return head
  })
  const endWithRetries = (head: TaskHead, event: TaskEvent) => Effect.asVoid(retryForever(end(head, event)))

  /** Says in the log what a core misses that answers the start of a run but reports nothing of it. */
  const explain = (event: TaskEvent, id: TaskId) =>
    event._tag !== "AcceptanceExpired" || actors.get(id)?.silence === undefined ? Effect.void : Effect.annotateLogs(
      missingEvents.log(
        `The core answered the start of a run with 2xx but sent no event of it within ${
          Duration.format(acceptanceTimeout)
        }, so its task failed. Only an event accepts a run: the core has to send "processing" to events_url in time (ACCEPTANCE_TIMEOUT)`
      ),
      { taskId: id }
    )

  const expire = (head: TaskHead, event: TaskEvent): void =>
    expiries.enter(() => {
      const { runId, uuid } = head
      // Another event may have ended the task while it waited.
      if (actors.get(uuid)?.ending !== runId) return expiries.leave()
      const inTrace = TaskTraces.traced(TaskTraces.names.clock, uuid)
      const ended = inTrace(Effect.andThen(explain(event, uuid), endWithRetries(head, event)))
      actors.fork(uuid, Effect.ensuring(ended, Effect.sync(expiries.leave)))
    })

  const dispatch = yield* Dispatch.make(actors, { wake, end: endWithRetries })

  return TaskActors.of({
    begin: (head, run) =>
      Effect.flatMap(now, (at) => {
        const isMine = ownership.isMine(head.uuid)
        const isWaiting = head.room === "waiting"
        if (isMine || (run !== undefined && !isWaiting)) apply(head, at, { run })
        else if (isWaiting) busy.noteWaiting()
        // The commit of a run that resumes a task has notified the owner.
        return isMine || run === undefined ? Effect.void : changes.publish(head.uuid)
      }),
    ensure: (head) =>
      Effect.map(now, (at) => {
        const isBeingCreated = creating.has(head.uuid) && actors.get(head.uuid) === undefined
        if (!isBeingCreated && ownership.isMine(head.uuid)) apply(head, at)
        else if (isBeingCreated && head.room === "held") creating.set(head.uuid, head)
      }),
    // Other nodes may not know tasks created here: announce the pending ones.
    release: Effect.suspend(() => {
      const gone = actors.heads().filter(({ uuid }) => !ownership.isMine(uuid))
      for (const { uuid } of gone) actors.release(uuid)
      const pending = gone.filter(({ status }) => status === "pending")
      return Effect.forEach(pending, ({ uuid }) => changes.publish(uuid), { discard: true })
    }),
    distrustRuns: Effect.map(now, (at) => void (ownedSince = at)),
    wake,
    endOutage: Effect.map(now, (at) => void (recordedFrom = at)),
    silent: (heads, at) =>
      Effect.sync(() =>
        heads.filter(({ runId, uuid }) => {
          const actor = actors.get(uuid)
          return actor?.dispatchedRun === runId && !dispatch.isDispatching(runId) &&
            isSilent(actor, at, recordedFrom, dispatch.lastDeclared())
        })
      ),
    redispatch: (head) =>
      Effect.map(now, (at) => {
        apply(head, at)
        dispatch.start(head, undefined, true, at)
      }),
    end,
    expect: (uuid, request) =>
      Effect.map(now, (at) => {
        const isImmediate = dispatch.hasRoom(request, creating.size)
        const entry = busy.entry(at, creating.size, Dispatch.isLarge(request))
        creating.set(uuid, undefined)
        const begun = Effect.map(now, (at) => {
          const admitted = creating.get(uuid)
          creating.delete(uuid)
          if (admitted !== undefined) apply(admitted, at)
        })
        return { uuid, isImmediate, entry, begun }
      }),
    load: Effect.map(now, (at) => ({
      tasks: actors.size(),
      nextDue: actors.nextTimer() ?? null,
      lateness: lateness.worst(at)
    }))
  })
})
