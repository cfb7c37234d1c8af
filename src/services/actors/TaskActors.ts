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
import { Cause, Context, Deferred, Effect, FiberSet, Layer, Option } from "effect"
import * as Failure from "../../domain/Failure.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { TaskEvent, type TaskHead, type TaskId } from "../../domain/Task.ts"
import { now, type Timestamp } from "../../domain/Timestamp.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import type { Run } from "../core/CoreClient.ts"
import { TaskNotifications } from "../store/TaskNotifications.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as TaskTraces from "../telemetry/TaskTraces.ts"
import { retryForever } from "../timing/Retry.ts"
import { Settings } from "../timing/Settings.ts"
import * as TimerQueue from "../timing/TimerQueue.ts"
import { type Actor, decide, isWanted } from "./Decision.ts"
import * as Dispatch from "./Dispatch.ts"
import * as DispatchSlots from "./DispatchSlots.ts"
import * as EndCommit from "./EndCommit.ts"
import * as Recovery from "./Recovery.ts"

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
  /** Commits an event that ends the task and notifies actor and core. Returns the head after the commit. */
  readonly end: (head: TaskHead, event: TaskEvent) => Effect.Effect<TaskHead, StoreUnavailable>
  /**
   * Reserves a dispatch slot while `create` creates the task; `isImmediate` is false when all slots are taken or the
   * request is large. Meanwhile the sweep ignores the task's row.
   */
  readonly withDispatchSlot: <A, E>(
    uuid: TaskId,
    request: Run["request"],
    create: (isImmediate: boolean) => Effect.Effect<A, E>
  ) => Effect.Effect<A, E>
  /** The number of actors, their earliest deadline, and the recent maximum lateness in milliseconds. */
  readonly load: Effect.Effect<
    { readonly tasks: number; readonly nextDue: Timestamp | null; readonly lateness: number }
  >
}>()("async-task-service/services/actors/TaskActors") {
  static readonly layer = Layer.effect(TaskActors, Effect.suspend(() => make))
}

/** Carries out the decisions that take a fiber. */
interface Work {
  readonly expire: (head: TaskHead, event: TaskEvent) => void
  readonly dispatch: (head: TaskHead) => void
  readonly recover: (head: TaskHead) => void
}

/** The actors of this node with their timers. */
const makeTable = Effect.fnUntraced(function*(work: Work) {
  const { acceptanceTimeout, sweepInterval } = yield* Settings
  let ownedSince = yield* now
  const actors = new Map<TaskId, { -readonly [Key in keyof Actor]: Actor[Key] }>()
  yield* Metrics.actors.observe(() => actors.size)
  const timers = yield* TimerQueue.make((id: TaskId) =>
    Effect.map(now, (at) => {
      const actor = actors.get(id)
      if (actor !== undefined) apply(actor.head, at)
    })
  )

  const release = (id: TaskId): void => {
    actors.delete(id)
    timers.clear(id)
  }

  const apply = (head: TaskHead, at: Timestamp): void => {
    const known = actors.get(head.uuid)
    const decision = decide(known, head, at, { acceptanceTimeout, sweepInterval, ownedSince })
    if (decision._tag === "Ignore") return
    if (decision._tag === "Release") return release(head.uuid)
    const actor = known ?? { head, dispatchedRun: undefined, ending: undefined }
    actor.head = head
    if (known === undefined) actors.set(head.uuid, actor)
    if (decision._tag === "Expire") {
      actor.ending = head.runId
      return work.expire(head, decision.event)
    }
    timers.set(head.uuid, decision.until)
    if (decision._tag === "Park") return
    actor.dispatchedRun = head.runId
    return decision._tag === "Dispatch" ? work.dispatch(head) : work.recover(head)
  }

  return {
    actors,
    apply,
    release,
    nextDue: () => timers.next() ?? null,
    /** Other nodes may have dispatched runs until then. */
    setOwnedSince: (at: Timestamp): void => void (ownedSince = at),
    /** Applies a row whose run the caller dispatches. */
    applyDispatched: (head: TaskHead, at: Timestamp): void => {
      const known = actors.get(head.uuid)
      if (known === undefined) {
        actors.set(head.uuid, { head, dispatchedRun: head.runId, ending: undefined })
      } else if (known.head.revision <= head.revision) known.dispatchedRun = head.runId
      apply(head, at)
    },
    /** An end of this run was committed: its deadlines may expire again. */
    expiryCommitted: ({ runId, uuid }: TaskHead): void => {
      const actor = actors.get(uuid)
      if (actor?.ending === runId) actor.ending = undefined
    }
  }
})

/** The table, with the fibers that carry out its decisions. */
const makeActors = Effect.gen(function*() {
  const ownership = yield* TaskOwnership
  const { commit, lateness } = yield* EndCommit.make
  const runInFiber = yield* FiberSet.makeRuntime()
  const slots = DispatchSlots.make()

  const supervise = (id: TaskId, effect: Effect.Effect<void>): void => {
    runInFiber(Effect.catchCauseIf(effect, (cause) => !Cause.hasInterruptsOnly(cause), (cause) => {
      table.release(id)
      return Effect.annotateLogs(Effect.logError("actor stopped", cause), { taskId: id })
    }))
  }

  const table = yield* makeTable({
    expire: (head, event) => {
      const inTrace = TaskTraces.traced(TaskTraces.names.clock, head.uuid)
      supervise(head.uuid, inTrace(endWithRetries(head, event)))
    },
    dispatch: (head) => void dispatch(head, undefined, false),
    recover: (head) => recovery.add(head)
  })
  const actorOf = (id: TaskId): Actor | undefined => table.actors.get(id)

  const wake = (head: TaskHead) =>
    Effect.map(now, (at) => {
      if (table.actors.has(head.uuid)) table.apply(head, at)
    })

  const end = Effect.fnUntraced(function*(head: TaskHead, event: TaskEvent) {
    const after = Option.getOrUndefined(yield* commit(head, event))
    // The row may be another than the actor knew, and overdue for another reason.
    table.expiryCommitted(head)
    if (after === undefined) table.release(head.uuid)
    else yield* wake(after)
    return after ?? head
  })
  const endWithRetries = (head: TaskHead, event: TaskEvent) => Effect.asVoid(retryForever(end(head, event)))

  const { release } = table
  const dispatch = yield* Dispatch.make({ slots, supervise, actorOf, wake, release, end: endWithRetries })

  const recovery = yield* Recovery.make({
    isWanted: ({ runId, uuid }) => isWanted(actorOf(uuid), runId) && ownership.isMine(uuid),
    // A pending run uses the slots of new runs, because its acceptance deadline is as near.
    dispatch: (head) =>
      Effect.suspend(() => Deferred.await(dispatch(head, undefined, actorOf(head.uuid)?.head.status !== "pending"))),
    fail: (head) => endWithRetries(head, TaskEvent.cases.Refused.make({ error: Failure.processingFailed })),
    drop: ({ runId, uuid }) => {
      if (actorOf(uuid)?.dispatchedRun === runId && !ownership.isMine(uuid)) table.release(uuid)
    }
  })

  return { dispatch, end, lateness, releaseTrials: recovery.release, slots, table, wake }
})

const make = Effect.gen(function*() {
  const ownership = yield* TaskOwnership
  const notifications = yield* TaskNotifications
  const { dispatch, end, lateness, releaseTrials, slots, table, wake } = yield* makeActors

  return TaskActors.of({
    begin: (head, run) =>
      Effect.flatMap(now, (at) => {
        const isMine = ownership.isMine(head.uuid)
        // The commit has notified the owner.
        if (run === undefined && !isMine) return Effect.void
        table.applyDispatched(head, at)
        dispatch(head, run !== undefined && slots.mayKeep(run) ? run : undefined, false)
        return isMine ? Effect.void : notifications.publish(head.uuid)
      }),
    ensure: (head) =>
      Effect.map(now, (at) => {
        const isBeingCreated = slots.isCreating(head.uuid) && !table.actors.has(head.uuid)
        if (!isBeingCreated && ownership.isMine(head.uuid)) table.apply(head, at)
      }),
    // Other nodes may not know tasks created here: announce the pending ones.
    release: Effect.suspend(() => {
      const gone = [...table.actors.values()].flatMap(({ head }) => ownership.isMine(head.uuid) ? [] : [head])
      for (const { uuid } of gone) table.release(uuid)
      const pending = gone.filter(({ status }) => status === "pending")
      return Effect.andThen(
        Effect.forEach(pending, ({ uuid }) => notifications.publish(uuid), { discard: true }),
        releaseTrials(ownership.isMine)
      )
    }),
    distrustRuns: Effect.map(now, table.setOwnedSince),
    wake,
    end,
    withDispatchSlot: slots.reserve,
    load: Effect.map(now, (at) => ({
      tasks: table.actors.size,
      nextDue: table.nextDue(),
      lateness: lateness.worst(at)
    }))
  })
})
