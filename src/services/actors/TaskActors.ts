/**
 * One supervised actor per live task. It is a fiber while it works (dispatches the run to the core, commits an expired
 * deadline) and a timer while it waits. The row is the source of truth: actors are a cache of the next step and are
 * rebuilt from rows.
 */
import { Cause, Context, Deferred, Duration, Effect, FiberSet, Layer, Option } from "effect"
import { nextDue } from "../../domain/Deadline.ts"
import { type CoreRefused, CoreUnavailable, schedule } from "../../domain/DispatchRetry.ts"
import * as Failure from "../../domain/Failure.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { type RunId, TaskEvent, type TaskHead, type TaskId } from "../../domain/Task.ts"
import { now, plus, type Timestamp, until } from "../../domain/Timestamp.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import { CoreClient, type Run } from "../core/CoreClient.ts"
import { CoreStops } from "../core/CoreStops.ts"
import { TaskNotifications } from "../store/TaskNotifications.ts"
import { TaskReads } from "../store/TaskReads.ts"
import { TaskWrites } from "../store/TaskWrites.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as TaskTraces from "../telemetry/TaskTraces.ts"
import { retryForever } from "../timing/Retry.ts"
import { Settings } from "../timing/Settings.ts"
import * as TimerQueue from "../timing/TimerQueue.ts"
import { Secrets } from "../tokens/Secrets.ts"
import { TokenRevocations } from "../tokens/TokenRevocations.ts"
import * as DispatchSlots from "./DispatchSlots.ts"
import * as Lateness from "./Lateness.ts"
import * as Recovery from "./Recovery.ts"

/** A retry comes at least this long after a deadline, so that retry and expiry do not race. */
const retryMargin = Duration.seconds(1)

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
  /** Updates the actor of a task, if this node has one, to the given head. */
  readonly wake: (head: TaskHead) => Effect.Effect<void>
  /** Commits an event that ends the task and notifies actor and core. Returns the head after the commit. */
  readonly end: (head: TaskHead, event: TaskEvent) => Effect.Effect<TaskHead, StoreUnavailable>
  /** Reserves a dispatch slot while `create` runs; `isImmediate` is false when all slots are taken or the request is large. */
  readonly withDispatchSlot: <A, E>(
    request: Run["request"],
    create: (isImmediate: boolean) => Effect.Effect<A, E>
  ) => Effect.Effect<A, E>
  /** The number of actors, their earliest deadline, and the recent maximum lateness in milliseconds. */
  readonly load: Effect.Effect<
    { readonly tasks: number; readonly nextDue: Timestamp | null; readonly lateness: number }
  >
}>()("async-task-service/services/actors/TaskActors") {
  static readonly layer = Layer.effect(
    TaskActors,
    Effect.gen(function*() {
      const reads = yield* TaskReads
      const writes = yield* TaskWrites
      const core = yield* CoreClient
      const stops = yield* CoreStops
      const secrets = yield* Secrets
      const revocations = yield* TokenRevocations
      const ownership = yield* TaskOwnership
      const notifications = yield* TaskNotifications
      const { acceptanceTimeout } = yield* Settings
      const heads = new Map<TaskId, TaskHead>()
      /** The latest run of each task that this node has dispatched. */
      const offered = new Map<TaskId, RunId>()
      const runInFiber = yield* FiberSet.makeRuntime()
      const slots = DispatchSlots.make()
      const dispatches = new Set<RunId>()
      const lateness = Lateness.make()
      let recoveries = 0
      let reserved = 0

      /** Runs a fiber. A failure is logged and releases the task, so that the sweep starts a new actor. */
      const supervise = <A, E>({ uuid }: TaskHead, effect: Effect.Effect<A, E>) => {
        runInFiber(Effect.catchCauseIf(effect, (cause) => !Cause.hasInterruptsOnly(cause), (cause) => {
          releaseTask(uuid)
          return Effect.annotateLogs(Effect.logError("actor stopped", cause), { taskId: uuid })
        }))
      }

      const releaseTask = (id: TaskId): void => {
        heads.delete(id)
        offered.delete(id)
        timers.clear(id)
      }

      /** Commits the event of an expired deadline, unless the task has changed meanwhile. */
      const expire = Effect.fnUntraced(function*(head: TaskHead) {
        const due = nextDue(head, acceptanceTimeout)
        if (due === undefined) return
        // The clock may have been set back since the timer was set.
        if (due.at > (yield* now)) return follow(head)
        yield* retryForever(end(head, due.event))
      })

      yield* Metrics.actors.observe(() => heads.size)
      const timers = yield* TimerQueue.make((id: TaskId) =>
        Effect.sync(() => {
          const head = heads.get(id)
          if (head !== undefined) supervise(head, TaskTraces.traced(TaskTraces.names.clock, id)(expire(head)))
        })
      )

      /** Sets the timer to the task's next deadline, or releases a task that has ended. */
      const follow = (head: TaskHead): void => {
        const due = nextDue(head, acceptanceTimeout)
        if (due === undefined) return releaseTask(head.uuid)
        heads.set(head.uuid, head)
        timers.set(head.uuid, due.at)
      }

      /**
       * Updates the actor to the row. It dispatches a run that this node has not dispatched: the reply to the commit that
       * created the run, or the node that created it, may have been lost.
       */
      const advance = (head: TaskHead): void => {
        const known = heads.get(head.uuid)
        if (known !== undefined && known.revision > head.revision) return
        follow(head)
        const hasRun = head.status === "pending" || head.status === "processing"
        if (!hasRun || offered.get(head.uuid) === head.runId) return
        // The core cannot know a pending run without an attempt, nor a run that replaces one known here: no recovery.
        const isNew = known === undefined
          ? head.status === "pending" && head.acceptanceDeadline === null
          : head.status === "pending" || known.runId !== head.runId
        if (isNew) return void dispatch(head, undefined, false)
        offered.set(head.uuid, head.runId)
        recovery.add(head)
      }

      const wake = (head: TaskHead) =>
        Effect.sync(() => {
          if (heads.has(head.uuid)) advance(head)
        })

      const end = Effect.fnUntraced(function*(head: TaskHead, event: TaskEvent) {
        const outcome = yield* writes.commit(head.uuid, event, yield* now, { runId: head.runId })
        if (outcome._tag === "Unknown") {
          releaseTask(head.uuid)
          return head
        }
        yield* wake(outcome.head)
        if (outcome._tag === "Applied") {
          const due = nextDue(head, acceptanceTimeout)
          if (due?.event._tag === event._tag) {
            const at = yield* now
            lateness.note(due.at, at)
            Metrics.deadlineLateness.record(Math.max(0, at - due.at) / 1_000_000, event._tag)
          }
          yield* stops.wake
        }
        return outcome.head
      })

      const readRun = Effect.fnUntraced(function*(head: TaskHead) {
        const found = Option.getOrUndefined(yield* retryForever(reads.pendingRun(head.uuid)))
        if (found === undefined || found.runId !== head.runId) return undefined
        const userToken = yield* secrets.open(found.userToken)
        const run: Run = { ...found, taskId: head.uuid, userToken }
        return run
      })

      /** Starts the acceptance deadline at the first attempt, when the task was created without a free slot. */
      const startAcceptance = Effect.fnUntraced(function*(head: TaskHead) {
        if (head.status !== "pending" || head.acceptanceDeadline !== null) return
        const acceptanceDeadline = plus(yield* now, acceptanceTimeout)
        yield* retryForever(writes.startAcceptanceClock(head.uuid, head.runId, acceptanceDeadline))
        if (heads.get(head.uuid) === head) follow({ ...head, acceptanceDeadline })
      })

      const refused = (head: TaskHead, { status }: CoreRefused) =>
        Effect.andThen(
          Effect.logWarning(`the core refused the run with status ${status}`),
          retryForever(end(head, TaskEvent.cases.Refused.make({ error: Failure.processingFailed })))
        )

      /** Never starts a run whose token is revoked or cannot be checked. */
      const start = (run: Run) =>
        Effect.andThen(
          Effect.catchTag(
            revocations.check(run.principal),
            "RevocationsUnknown",
            () =>
              Effect.fail(
                new CoreUnavailable({ reason: "the token's revocation cannot be checked", retryAfter: null })
              )
          ),
          core.start(run)
        )

      /** Caps `Retry-After` just after the task's next deadline, so that no dispatch outlives its task by much. */
      const limitRetryAfter = (head: TaskHead, error: CoreUnavailable) =>
        Effect.map(
          until(nextDue(head, acceptanceTimeout)?.at ?? head.deadline),
          (left) =>
            error.retryAfter === null || Duration.isLessThan(error.retryAfter, left)
              ? error
              : new CoreUnavailable({ reason: error.reason, retryAfter: Duration.sum(left, retryMargin) })
        )

      /** Reads the row before a retry, because another node may have changed the task meanwhile. */
      const refresh = Effect.fnUntraced(function*({ uuid }: TaskHead) {
        const [present] = yield* retryForever(reads.heads([uuid]))
        if (present === undefined) releaseTask(uuid)
        else yield* wake(present)
      })

      /** Dispatches a run, with retries. `attempted` completes after the first attempt, successful or not. */
      const offer = Effect.fnUntraced(function*(
        head: TaskHead,
        given: Run | undefined,
        isRecovery: boolean,
        attempted: Deferred.Deferred<void>
      ) {
        let run = given
        const once = Effect.suspend(() => {
          const current = heads.get(head.uuid)
          // An interrupted run has ended, although the task keeps its id until the next run.
          if (current?.runId !== head.runId || current.status === "interrupted") return Effect.void
          if (run !== undefined && current.acceptanceDeadline !== null) return start(run)
          return Effect.gen(function*() {
            const found = run ?? (yield* readRun(current))
            // No pending run: the task has ended and our head is stale.
            if (found === undefined) return heads.get(head.uuid) === current ? releaseTask(head.uuid) : undefined
            slots.note(found)
            // A large run is read again for each attempt, to save memory.
            run = DispatchSlots.isLarge(found.request) ? undefined : found
            yield* startAcceptance(current)
            return yield* start(found)
          })
        })
        const attempt = slots.withSlot(head.runId, isRecovery, once).pipe(
          Effect.catchTags({
            CoreRefused: (error) => refused(head, error),
            TokenIsRevoked: () => retryForever(end(head, TaskEvent.cases.TokenRevoked.make({})))
          }),
          Effect.catch((error) => Effect.flatMap(limitRetryAfter(heads.get(head.uuid) ?? head, error), Effect.fail))
        )
        yield* Effect.catch(
          Effect.ensuring(attempt, Effect.sync(() => Deferred.doneUnsafe(attempted, Effect.void))),
          (first) => {
            // The schedule is created only after a failure, and its first step receives that failure.
            let known: CoreUnavailable | undefined = first
            const again = Effect.suspend(() => {
              if (known === undefined) return Effect.andThen(refresh(head), attempt)
              const failure = known
              known = undefined
              return Effect.fail(failure)
            })
            return Effect.ignore(Effect.retry(again, schedule))
          }
        )
      })

      /** Returns a deferred that completes after the first attempt. */
      const dispatch = (head: TaskHead, run: Run | undefined, isRecovery: boolean): Deferred.Deferred<void> => {
        const attempted = Deferred.makeUnsafe<void>()
        if (dispatches.has(head.runId)) {
          Deferred.doneUnsafe(attempted, Effect.void)
          return attempted
        }
        offered.set(head.uuid, head.runId)
        dispatches.add(head.runId)
        if (isRecovery) recoveries++
        const inTrace = TaskTraces.traced(TaskTraces.names.dispatch, head.uuid, {
          attributes: { "run.id": head.runId, "run.recovered": isRecovery }
        })
        supervise(
          head,
          Effect.ensuring(
            inTrace(offer(head, run, isRecovery, attempted)),
            Effect.sync(() => {
              dispatches.delete(head.runId)
              slots.release(head.runId)
              if (isRecovery) recoveries--
              // This node dispatched the run on behalf of the owner.
              if (!ownership.isMine(head.uuid)) releaseTask(head.uuid)
            })
          )
        )
        return attempted
      }

      const recovery = yield* Recovery.make({
        isWanted: ({ runId, uuid }) => {
          const current = heads.get(uuid)
          return current?.runId === runId && current.status !== "interrupted" && ownership.isMine(uuid)
        },
        // A pending run uses the slots of new runs, because its acceptance deadline is as near.
        offer: (head) =>
          Effect.suspend(() => Deferred.await(dispatch(head, undefined, heads.get(head.uuid)?.status !== "pending"))),
        fail: (head) =>
          Effect.asVoid(retryForever(end(head, TaskEvent.cases.Refused.make({ error: Failure.processingFailed }))))
      })

      const begin = (head: TaskHead, run?: Run) =>
        Effect.suspend(() => {
          const isMine = ownership.isMine(head.uuid)
          // The commit has notified the owner.
          if (run === undefined && !isMine) return Effect.void
          follow(head)
          dispatch(head, run !== undefined && slots.mayKeep(run) ? run : undefined, false)
          return isMine ? Effect.void : notifications.publish(head.uuid)
        })

      // Other nodes may not know tasks created here: announce the pending ones.
      const release = Effect.suspend(() => {
        const gone = [...heads.values()].filter(({ uuid }) => !ownership.isMine(uuid))
        for (const { uuid } of gone) releaseTask(uuid)
        const pending = gone.filter(({ status }) => status === "pending")
        return Effect.andThen(
          Effect.forEach(pending, ({ uuid }) => notifications.publish(uuid), { discard: true }),
          recovery.release(ownership.isMine)
        )
      })

      return TaskActors.of({
        begin,
        ensure: (head) =>
          Effect.sync(() => {
            if (ownership.isMine(head.uuid)) advance(head)
          }),
        release,
        wake,
        end,
        withDispatchSlot: (request, create) =>
          Effect.suspend(() => {
            const isImmediate = !DispatchSlots.isLarge(request) &&
              dispatches.size - recoveries + reserved < DispatchSlots.concurrency
            reserved++
            return Effect.ensuring(create(isImmediate), Effect.sync(() => reserved--))
          }),
        load: Effect.map(now, (at) => ({
          tasks: heads.size,
          nextDue: timers.next() ?? null,
          lateness: lateness.worst(at)
        }))
      })
    })
  )
}
