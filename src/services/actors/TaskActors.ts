/**
 * One supervised actor a live task. While there is something to do (offer the run to the core, commit what a clock asks
 * for) it is a fiber; while it only waits it is parked as an alarm. The row is the truth: actors are a cache of what
 * happens next, so all of them may be lost and are rebuilt from rows.
 */
import { Cause, Context, Deferred, Duration, Effect, FiberSet, Layer, Option } from "effect"
import { nextDue } from "../../domain/Deadline.ts"
import { type CoreRefused, CoreUnavailable, schedule } from "../../domain/DispatchRetry.ts"
import * as Failure from "../../domain/Failure.ts"
import { type RunId, TaskEvent, type TaskHead, type TaskId } from "../../domain/Task.ts"
import { now, plus, type Timestamp, until } from "../../domain/Timestamp.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import { CoreClient, type Run } from "../core/CoreClient.ts"
import { CoreStops } from "../core/CoreStops.ts"
import { TaskNotifications } from "../store/TaskNotifications.ts"
import { TaskRepository } from "../store/TaskRepository.ts"
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

/** What a hand-over leaves a clock that runs out, so that it does not offer the run in the same moment. */
const afterClock = Duration.seconds(1)

export class TaskActors extends Context.Service<TaskActors, {
  /**
   * Starts what a new run needs: its clock, and its hand-over. A `run` that is at hand is handed over here, whoever's the
   * task is; otherwise its owner reads it from the store.
   */
  readonly begin: (head: TaskHead, run?: Run) => Effect.Effect<void>
  /** Brings an actor of this node to where the row is, or starts it: a run that no one here handed over is offered to the core. */
  readonly ensure: (head: TaskHead) => Effect.Effect<void>
  /** Lets go the tasks that are not this node's any more. */
  readonly release: Effect.Effect<void>
  /** Tells the actor of a task, if it has one, where the task stands now. */
  readonly wake: (head: TaskHead) => Effect.Effect<void>
  /** Commits an event that ends the task, and lets all know who have to; returns where the task then stands. */
  readonly end: (head: TaskHead, event: TaskEvent) => Effect.Effect<TaskHead>
  /** Keeps a turn for what `create` will begin with this request; it is told whether that turn comes at once. */
  readonly admit: <A, E>(
    request: Run["request"],
    create: (isAtOnce: boolean) => Effect.Effect<A, E>
  ) => Effect.Effect<A, E>
  /** How many tasks have an actor here, when the first of their clocks runs out, and how late (ms) one was lately. */
  readonly load: Effect.Effect<
    { readonly tasks: number; readonly nextDue: Timestamp | null; readonly lateness: number }
  >
}>()("async-task-service/services/actors/TaskActors") {
  static readonly layer = Layer.effect(
    TaskActors,
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const core = yield* CoreClient
      const stops = yield* CoreStops
      const secrets = yield* Secrets
      const revocations = yield* TokenRevocations
      const ownership = yield* TaskOwnership
      const notifications = yield* TaskNotifications
      const { acceptanceTimeout } = yield* Settings
      const heads = new Map<TaskId, TaskHead>()
      /** The run of each task that was last handed over here, or is being. */
      const offered = new Map<TaskId, RunId>()
      const runInFiber = yield* FiberSet.makeRuntime()
      const turns = DispatchSlots.make()
      const dispatches = new Set<RunId>()
      const lateness = Lateness.make()
      let recoveries = 0
      let admitted = 0

      /** At the edge of a fiber: what went wrong is logged, and the task is let go, for the sweep to take up again. */
      const supervise = <A, E>({ uuid }: TaskHead, effect: Effect.Effect<A, E>) => {
        runInFiber(Effect.catchCauseIf(effect, (cause) => !Cause.hasInterruptsOnly(cause), (cause) => {
          forget(uuid)
          return Effect.annotateLogs(Effect.logError("actor stopped", cause), { taskId: uuid })
        }))
      }

      const forget = (id: TaskId): void => {
        heads.delete(id)
        offered.delete(id)
        alarms.clear(id)
      }

      /** A clock ran out: what it asks for is committed, unless the task has moved on meanwhile. */
      const expire = Effect.fnUntraced(function*(head: TaskHead) {
        const due = nextDue(head, acceptanceTimeout)
        if (due === undefined) return
        // Time may have been set back since the alarm was set.
        if (due.at > (yield* now)) return follow(head)
        yield* retryForever(end(head, due.event))
      })

      yield* Metrics.actors.observe(() => heads.size)
      const alarms = yield* TimerQueue.make((id: TaskId) =>
        Effect.sync(() => {
          const head = heads.get(id)
          if (head !== undefined) supervise(head, TaskTraces.traced(TaskTraces.names.clock, id)(expire(head)))
        })
      )

      /** Parks the actor until the task's next clock runs out, or lets it go when the task has ended. */
      const follow = (head: TaskHead): void => {
        const due = nextDue(head, acceptanceTimeout)
        if (due === undefined) return forget(head.uuid)
        heads.set(head.uuid, head)
        alarms.set(head.uuid, due.at)
      }

      /**
       * Brings the actor to where the row is. A run that was never offered here is: the reply to the commit that made it may
       * have been lost, or the node that made it.
       */
      const advance = (head: TaskHead): void => {
        const known = heads.get(head.uuid)
        if (known !== undefined && known.revision > head.revision) return
        follow(head)
        const hasRun = head.status === "pending" || head.status === "processing"
        if (!hasRun || offered.get(head.uuid) === head.runId) return
        // A pending run without an attempt, and one that follows another that was known here, is new to the core, if anything.
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
        const outcome = yield* repository.commit(head.uuid, event, yield* now, { runId: head.runId })
        if (outcome._tag === "Unknown") {
          forget(head.uuid)
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
        const found = Option.getOrUndefined(yield* retryForever(repository.pendingRun(head.uuid)))
        if (found === undefined || found.runId !== head.runId) return undefined
        const userToken = yield* secrets.open(found.userToken)
        const run: Run = { ...found, taskId: head.uuid, userToken }
        return run
      })

      /** The hand-over's first attempt starts the acceptance clock, if it had to wait for that attempt. */
      const startAcceptance = Effect.fnUntraced(function*(head: TaskHead) {
        if (head.status !== "pending" || head.acceptanceDeadline !== null) return
        const acceptanceDeadline = plus(yield* now, acceptanceTimeout)
        yield* retryForever(repository.startAcceptanceClock(head.uuid, head.runId, acceptanceDeadline))
        if (heads.get(head.uuid) === head) follow({ ...head, acceptanceDeadline })
      })

      const refused = (head: TaskHead, { status }: CoreRefused) =>
        Effect.andThen(
          Effect.logWarning(`the core refused the run with status ${status}`),
          retryForever(end(head, TaskEvent.cases.Refused.make({ error: Failure.processingFailed })))
        )

      /** A token that was revoked is handed to no one; nor is one of which nobody can tell. */
      const start = (run: Run) =>
        Effect.andThen(
          Effect.catchTag(
            revocations.check(run.principal),
            "RevocationsUnknown",
            () =>
              Effect.fail(
                new CoreUnavailable({ reason: "nobody can tell whether the token is revoked", retryAfter: null })
              )
          ),
          core.start(run)
        )

      /** A `Retry-After` beyond the task's next clock is cut to just past it: nothing of a task outlives it by much. */
      const withinClock = (head: TaskHead, error: CoreUnavailable) =>
        Effect.map(
          until(nextDue(head, acceptanceTimeout)?.at ?? head.deadline),
          (left) =>
            error.retryAfter === null || Duration.isLessThan(error.retryAfter, left)
              ? error
              : new CoreUnavailable({ reason: error.reason, retryAfter: Duration.sum(left, afterClock) })
        )

      /** Another node may have moved the task on while this one waited to offer the run again. */
      const refresh = Effect.fnUntraced(function*({ uuid }: TaskHead) {
        const [present] = yield* retryForever(repository.heads([uuid]))
        if (present === undefined) forget(uuid)
        else yield* wake(present)
      })

      /** `attempted` is done after the first attempt, whatever came of it. */
      const offer = Effect.fnUntraced(function*(
        head: TaskHead,
        given: Run | undefined,
        isRecovery: boolean,
        attempted: Deferred.Deferred<void>
      ) {
        let run = given
        const once = Effect.suspend(() => {
          const current = heads.get(head.uuid)
          // A run that was interrupted has ended, though the task goes by its id until the next one.
          if (current?.runId !== head.runId || current.status === "interrupted") return Effect.void
          if (run !== undefined && current.acceptanceDeadline !== null) return start(run)
          return Effect.gen(function*() {
            const found = run ?? (yield* readRun(current))
            // Nothing to hand over: the task has ended, and what was known of it is stale.
            if (found === undefined) return heads.get(head.uuid) === current ? forget(head.uuid) : undefined
            turns.note(found)
            // A large one is not kept for the next attempt.
            run = DispatchSlots.isLarge(found.request) ? undefined : found
            yield* startAcceptance(current)
            return yield* start(found)
          })
        })
        const attempt = turns.inTurn(head.runId, isRecovery, once).pipe(
          Effect.catchTags({
            CoreRefused: (error) => refused(head, error),
            TokenIsRevoked: () => retryForever(end(head, TaskEvent.cases.TokenRevoked.make({})))
          }),
          Effect.catch((error) => Effect.flatMap(withinClock(heads.get(head.uuid) ?? head, error), Effect.fail))
        )
        yield* Effect.catch(
          Effect.ensuring(attempt, Effect.sync(() => Deferred.doneUnsafe(attempted, Effect.void))),
          (first) => {
            // The schedule is made for the few that need it, and begins with the failure that there was.
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

      /** Returns what is done after the first attempt. */
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
              turns.forget(head.runId)
              if (isRecovery) recoveries--
              // It was handed over here for its owner, who does the rest.
              if (!ownership.isMine(head.uuid)) forget(head.uuid)
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
        // A pending run has its turn among the new ones: its acceptance deadline is as near.
        offer: (head) =>
          Effect.suspend(() => Deferred.await(dispatch(head, undefined, heads.get(head.uuid)?.status !== "pending"))),
        fail: (head) =>
          Effect.asVoid(retryForever(end(head, TaskEvent.cases.Refused.make({ error: Failure.processingFailed }))))
      })

      const begin = (head: TaskHead, run?: Run) =>
        Effect.suspend(() => {
          const isMine = ownership.isMine(head.uuid)
          // Its owner has been told of the commit.
          if (run === undefined && !isMine) return Effect.void
          follow(head)
          dispatch(head, run !== undefined && turns.mayKeep(run) ? run : undefined, false)
          return isMine ? Effect.void : notifications.publish(head.uuid)
        })

      // Of a task that was created here no other node may know yet.
      const release = Effect.suspend(() => {
        const gone = [...heads.values()].filter(({ uuid }) => !ownership.isMine(uuid))
        for (const { uuid } of gone) forget(uuid)
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
        admit: (request, create) =>
          Effect.suspend(() => {
            const isAtOnce = !DispatchSlots.isLarge(request) &&
              dispatches.size - recoveries + admitted < DispatchSlots.concurrency
            admitted++
            return Effect.ensuring(create(isAtOnce), Effect.sync(() => admitted--))
          }),
        load: Effect.map(now, (at) => ({
          tasks: heads.size,
          nextDue: alarms.next() ?? null,
          lateness: lateness.worst(at)
        }))
      })
    })
  )
}
