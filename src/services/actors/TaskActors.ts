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
import { Cause, Context, Deferred, Duration, Effect, FiberSet, Layer, Option } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { TaskEvent, TaskHead, TaskId } from "../../domain/Task.ts"
import { fromMicros, now, type Timestamp } from "../../domain/Timestamp.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import type { Run } from "../core/CoreClient.ts"
import { Settings } from "../settings/Settings.ts"
import { Changes } from "../signals/Changes.ts"
import { maxBatch } from "../store/sql/Batcher.ts"
import * as OutageLog from "../telemetry/OutageLog.ts"
import * as TaskTraces from "../telemetry/TaskTraces.ts"
import { retryForever } from "../timing/Retry.ts"
import * as ActorTable from "./ActorTable.ts"
import { type Actor, isWanted } from "./Decision.ts"
import * as Dispatch from "./Dispatch.ts"
import * as DispatchSlots from "./DispatchSlots.ts"
import * as EndCommit from "./EndCommit.ts"
import * as Recovery from "./Recovery.ts"
import * as SilentRuns from "./SilentRuns.ts"

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
  /** The same for the row after an event of its current run, which is a sign of life even if it changed nothing. */
  readonly hear: (head: TaskHead) => Effect.Effect<void>
  /** Hands runs over again that are silent. */
  readonly handOverSilent: Effect.Effect<void, StoreUnavailable>
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

/** Expired deadlines that are committed at a time: two full statements. Thousands may expire in one moment. */
const maxExpiring = 2 * maxBatch

/** Ends tasks whose deadline has expired in the order in which they expired, and leaves room for the commits of others. */
const makeExpiry = (
  isWanted: (head: TaskHead) => boolean,
  start: (head: TaskHead, event: TaskEvent, onEnd: () => void) => void
) => {
  const waiting = new Map<TaskId, readonly [TaskHead, TaskEvent]>()
  let expiring = 0
  let isStarting = false
  const startNext = (): void => {
    // A commit in memory ends before `start` returns: the loop goes on with the next one.
    if (isStarting) return
    isStarting = true
    for (const [id, [head, event]] of waiting) {
      if (expiring === maxExpiring) break
      waiting.delete(id)
      if (!isWanted(head)) continue
      expiring++
      start(head, event, () => {
        expiring--
        startNext()
      })
    }
    isStarting = false
  }
  return (head: TaskHead, event: TaskEvent): void => {
    waiting.set(head.uuid, [head, event])
    startNext()
  }
}

/** After every deadline. */
const never = fromMicros(Infinity)

interface Repeats {
  readonly table: ActorTable.ActorTable
  readonly wake: (head: TaskHead) => Effect.Effect<void>
  readonly isMine: (id: TaskId) => boolean
  readonly dispatch: (head: TaskHead) => Effect.Effect<void>
}

/** Dispatches runs again that the core may have lost: with their node, or silently. */
const makeRepeats = Effect.fnUntraced(function*({ dispatch, isMine, table, wake }: Repeats) {
  const recover = yield* Recovery.make({
    isWanted: ({ runId, uuid }) => isWanted(table.actors.get(uuid), runId) && isMine(uuid),
    dispatch,
    drop: ({ runId, uuid }) => {
      if (table.actors.get(uuid)?.dispatchedRun === runId && !isMine(uuid)) table.release(uuid)
    }
  })

  const hear = (head: TaskHead) =>
    Effect.map(now, (at) => {
      if (!table.actors.has(head.uuid)) return
      table.apply(head, at)
      table.countFrom(head.uuid, at, 0)
    })

  const handOverSilent = yield* SilentRuns.make({
    actors: table.actors,
    isMine,
    countFrom: table.countFrom,
    handOver: (head, handOvers) => {
      // Its silence counts again from the core's answer.
      table.countFrom(head.uuid, never, handOvers)
      recover(head)
    },
    wake
  })

  return { handOverSilent, hear, recover }
})

/** Says in the log what a core misses that answers the start of a run but reports nothing of it. */
const makeExplanation = Effect.map(Settings, ({ acceptanceTimeout }) => {
  const { log } = OutageLog.make()
  const message = `The core answered the start of a run with 2xx but sent no event of it within ${
    Duration.format(acceptanceTimeout)
  }, so its task failed. Only an event accepts a run: the core has to send "processing" to events_url in time (ACCEPTANCE_TIMEOUT)`
  return (event: TaskEvent, actor: Actor | undefined) =>
    event._tag === "AcceptanceExpired" && actor !== undefined && actor.silence !== undefined
      ? Effect.annotateLogs(log(message), { taskId: actor.head.uuid })
      : Effect.void
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

  const explain = yield* makeExplanation
  const expire = makeExpiry(
    ({ runId, uuid }) => actorOf(uuid)?.ending === runId,
    (head, event, onEnd) => {
      const inTrace = TaskTraces.traced(TaskTraces.names.clock, head.uuid)
      const end = Effect.andThen(explain(event, actorOf(head.uuid)), endWithRetries(head, event))
      supervise(head.uuid, Effect.ensuring(inTrace(end), Effect.sync(onEnd)))
    }
  )

  const table = yield* ActorTable.make({
    expire,
    dispatch: (head) => void dispatch(head, undefined, false),
    recover: (head) => recover(head)
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
  const dispatch = yield* Dispatch.make({
    slots,
    supervise,
    actorOf,
    wake,
    release,
    accepted: (run, declared) => Effect.map(now, (at) => table.accepted(run, declared, at)),
    refusedAgain: (id) => Effect.map(now, (at) => table.refusedAgain(id, at)),
    end: endWithRetries
  })

  const { handOverSilent, hear, recover } = yield* makeRepeats({
    table,
    wake,
    isMine: ownership.isMine,
    dispatch: (head) =>
      // A pending run uses the slots of new runs, because its acceptance deadline is as near.
      Effect.suspend(() => Deferred.await(dispatch(head, undefined, actorOf(head.uuid)?.head.status !== "pending")))
  })

  return { dispatch, end, handOverSilent, hear, lateness, slots, table, wake }
})

const make = Effect.gen(function*() {
  const ownership = yield* TaskOwnership
  const changes = yield* Changes
  const { dispatch, end, handOverSilent, hear, lateness, slots, table, wake } = yield* makeActors

  return TaskActors.of({
    begin: (head, run) =>
      Effect.flatMap(now, (at) => {
        const isMine = ownership.isMine(head.uuid)
        // The commit has notified the owner.
        if (run === undefined && !isMine) return Effect.void
        table.applyDispatched(head, at)
        dispatch(head, run !== undefined && slots.mayKeep(run) ? run : undefined, false)
        return isMine ? Effect.void : changes.publish(head.uuid)
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
      return Effect.forEach(pending, ({ uuid }) => changes.publish(uuid), { discard: true })
    }),
    distrustRuns: Effect.map(now, table.setOwnedSince),
    wake,
    hear,
    handOverSilent,
    end,
    withDispatchSlot: slots.reserve,
    load: Effect.map(now, (at) => ({
      tasks: table.actors.size,
      nextDue: table.nextDue(),
      lateness: lateness.worst(at)
    }))
  })
})
