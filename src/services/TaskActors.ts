/**
 * One supervised fiber a live task: it sleeps until the task's next clock runs out and commits what follows. A second
 * one offers the run to the core while that is due. The row is the truth; fibers are a cache of what happens next, so
 * all of them may be lost and are rebuilt from rows.
 */
import { Cause, Context, Duration, Effect, FiberMap, Layer, Option, Schedule, Schema, Semaphore } from "effect"
import { nextDue } from "../domain/Deadline.ts"
import * as Failure from "../domain/Failure.ts"
import { type CoreRefused, schedule } from "../domain/HandOver.ts"
import { isTerminal, type RunId, TaskEvent, type TaskHead, type TaskId } from "../domain/Task.ts"
import { now, plus, until } from "../domain/Timestamp.ts"
import { CoreClient, type Run } from "./CoreClient.ts"
import { CoreStops } from "./CoreStops.ts"
import { Secrets } from "./Secrets.ts"
import { Settings } from "./Settings.ts"
import { type Commit, TaskRepository } from "./TaskRepository.ts"

/** Calls to the core in flight at a time. */
const handOverConcurrency = 256

class StoreFault extends Schema.TaggedError<StoreFault>()("StoreFault", { defect: Schema.Defect() }) {}

/** How soon an actor tries again when the store does not answer. */
const storeRetry = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("2 seconds")])

export class TaskActors extends Context.Service<TaskActors, {
  /** Starts what a task needs: its clock, and the hand-over of `run`, which is read from the store when not given. */
  readonly begin: (head: TaskHead, run?: Run) => Effect.Effect<void>
  /** Starts the actor of a task that has none. A run that the core may have lost is offered to it again. */
  readonly ensure: (head: TaskHead) => Effect.Effect<boolean>
  /** Tells the actor of a task, if it has one, where the task stands now. */
  readonly wake: (head: TaskHead) => Effect.Effect<void>
  /** Whether a hand-over that began now would have to wait for others. */
  readonly isSaturated: Effect.Effect<boolean>
  readonly size: Effect.Effect<number>
}>()("async-task-service/services/TaskActors") {
  static readonly layer = Layer.effect(
    TaskActors,
    Effect.gen(function*() {
      const repository = yield* TaskRepository
      const core = yield* CoreClient
      const stops = yield* CoreStops
      const secrets = yield* Secrets
      const { acceptanceTimeout } = yield* Settings
      const clocks = yield* FiberMap.make<TaskId>()
      const handOvers = yield* FiberMap.make<RunId>()
      const permits = yield* Semaphore.make(handOverConcurrency)

      /** At the edge of a fiber: what went wrong is logged with the task's id, and the row is left for recovery. */
      const supervised = (taskId: TaskId) => <A, E>(effect: Effect.Effect<A, E>) =>
        effect.pipe(
          Effect.catchCause((cause) =>
            Cause.hasInterruptsOnly(cause) ? Effect.interrupt : Effect.logError("actor stopped", cause)
          ),
          Effect.annotateLogs({ taskId }),
          Effect.asVoid
        )

      const commit = (head: TaskHead, event: TaskEvent): Effect.Effect<Commit> =>
        Effect.flatMap(now, (at) => repository.commit(head.uuid, event, at, { runId: head.runId })).pipe(
          Effect.catchDefect((defect) => Effect.fail(new StoreFault({ defect }))),
          Effect.tapError(({ defect }) => Effect.logWarning("the store did not take an event", defect)),
          Effect.retry(storeRetry),
          Effect.orDie
        )

      const clock = Effect.fnUntraced(function*(start: TaskHead) {
        let head: TaskHead | undefined = start
        while (head !== undefined) {
          const due = nextDue(head, acceptanceTimeout)
          if (due === undefined) return
          const left = yield* until(due.at)
          if (Duration.toMillis(left) > 0) {
            yield* Effect.sleep(left)
            // Looked at again: the wall clock may have been set back meanwhile.
            continue
          }
          const outcome: Commit = yield* commit(head, due.event)
          if (outcome._tag === "Applied") yield* stops.wake
          head = outcome._tag === "Unknown" ? undefined : outcome.head
        }
      })

      const startClock = (head: TaskHead) =>
        Effect.asVoid(FiberMap.run(clocks, head.uuid, supervised(head.uuid)(clock(head))))

      const wake = (head: TaskHead) => {
        if (!FiberMap.hasUnsafe(clocks, head.uuid)) return Effect.void
        return isTerminal(head.status) ? FiberMap.remove(clocks, head.uuid) : startClock(head)
      }

      const readRun = Effect.fnUntraced(function*(head: TaskHead) {
        const found = Option.getOrUndefined(yield* repository.pendingRun(head.uuid))
        if (found === undefined || found.runId !== head.runId) return undefined
        const userToken = yield* secrets.open(found.userToken)
        const run: Run = { ...found, taskId: head.uuid, userToken }
        return run
      })

      /** The hand-over's first attempt starts the acceptance clock, if it had to wait for that attempt. */
      const startAcceptance = Effect.fnUntraced(function*(head: TaskHead) {
        if (head.status !== "pending" || head.acceptanceDeadline !== null) return
        const acceptanceDeadline = plus(yield* now, acceptanceTimeout)
        yield* repository.startAcceptanceClock(head.uuid, head.runId, acceptanceDeadline)
        yield* wake({ ...head, acceptanceDeadline })
      })

      const refused = (head: TaskHead) => ({ status }: CoreRefused) =>
        Effect.logWarning(`the core refused the run with status ${status}`).pipe(
          Effect.andThen(commit(head, TaskEvent.cases.Failed.make({ error: Failure.processingFailed, turn: null }))),
          Effect.flatMap((outcome) => outcome._tag === "Applied" ? wake(outcome.head) : Effect.void)
        )

      const offer = Effect.fnUntraced(function*(head: TaskHead, given: Run | undefined) {
        const run = given ?? (yield* readRun(head))
        if (run === undefined) return
        let started = false
        yield* Effect.suspend(() => {
          if (started) return core.start(run)
          started = true
          return Effect.andThen(startAcceptance(head), core.start(run))
        }).pipe(
          permits.withPermits(1),
          Effect.catchTag("CoreRefused", refused(head)),
          // The clock ends with the task, and with it the wish to hand the run over.
          Effect.retry({ schedule, while: () => isWanted(head) }),
          Effect.ignore
        )
      })

      const isWanted = ({ uuid }: TaskHead) => FiberMap.hasUnsafe(clocks, uuid)

      const handOver = (head: TaskHead, run: Run | undefined) =>
        FiberMap.run(handOvers, head.runId, supervised(head.uuid)(offer(head, run)), { onlyIfMissing: true })

      const begin = (head: TaskHead, run?: Run) => Effect.asVoid(Effect.andThen(startClock(head), handOver(head, run)))

      return TaskActors.of({
        begin,
        ensure: (head) => {
          if (isTerminal(head.status) || FiberMap.hasUnsafe(clocks, head.uuid)) return Effect.succeed(false)
          return Effect.as(head.status === "interrupted" ? startClock(head) : begin(head), true)
        },
        wake,
        isSaturated: Effect.map(FiberMap.size(handOvers), (size) => size >= handOverConcurrency),
        size: FiberMap.size(clocks)
      })
    })
  )
}
