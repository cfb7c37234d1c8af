/**
 * Dispatches a run to the core, with retries until the core accepts or refuses it or the task needs it no longer. The row is
 * read before each retry, because another node may have changed the task.
 */
import { Clock, Data, Deferred, Duration, Effect, Option, Pull, Schedule } from "effect"
import { dueAt } from "../../domain/Deadline.ts"
import { CoreUnavailable, pauseWithin, schedule } from "../../domain/DispatchRetry.ts"
import * as Failure from "../../domain/Failure.ts"
import { refersToOthers } from "../../domain/StoredRequest.ts"
import { TaskEvent, type TaskHead, type TaskId } from "../../domain/Task.ts"
import { now, plus, type Timestamp, until } from "../../domain/Timestamp.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import { CoreClient, type Run } from "../core/CoreClient.ts"
import * as RunRequests from "../core/RunRequests.ts"
import { Settings } from "../settings/Settings.ts"
import { TaskReads } from "../store/tasks/TaskReads.ts"
import { TaskWrites } from "../store/tasks/TaskWrites.ts"
import * as TaskTraces from "../telemetry/TaskTraces.ts"
import { retryForever } from "../timing/Retry.ts"
import { Secrets } from "../tokens/Secrets.ts"
import { TokenRevocations } from "../tokens/TokenRevocations.ts"
import { type Actor, isAccepted, isWanted } from "./Decision.ts"
import * as DispatchSlots from "./DispatchSlots.ts"

/** A retry comes at least this long after a deadline, so that retry and expiry do not race. */
const retryMargin = Duration.seconds(1)

interface Options {
  /** Runs a fiber of the task's actor. */
  readonly supervise: (id: TaskId, effect: Effect.Effect<void>) => void
  readonly slots: DispatchSlots.DispatchSlots
  readonly actorOf: (id: TaskId) => Actor | undefined
  /** Applies a row to its actor. */
  readonly wake: (head: TaskHead) => Effect.Effect<void>
  readonly release: (id: TaskId) => void
  /** The core has accepted the run, and declares so many seconds of silence, if any. */
  readonly accepted: (run: Run, declared: number | undefined) => Effect.Effect<void>
  /** The core has refused a run that it has accepted before. */
  readonly refusedAgain: (id: TaskId) => Effect.Effect<void>
  /** Commits an event that ends the task, with retries. */
  readonly end: (head: TaskHead, event: TaskEvent) => Effect.Effect<void>
}

const cannotCheck = Effect.fail(
  new CoreUnavailable({ reason: "the token's revocation cannot be checked", retryAfter: null })
)

/** The run turned out to be large when it was read: it has to wait for the slot of large runs. */
class IsLarge extends Data.TaggedError("IsLarge") {}

/** A task that the request refers to was deleted. */
class PredecessorDeleted extends Data.TaggedError("PredecessorDeleted") {}

/**
 * Repeats an attempt that failed until it succeeds: the last time shortly before the deadline `dueOf`, and again after it while the
 * run is still wanted. The schedule never ends; it is created here, because few dispatches need it.
 */
const repeatAfter = Effect.fnUntraced(
  function*(first: CoreUnavailable, dueOf: () => Timestamp, attempt: Effect.Effect<void, CoreUnavailable>) {
    const next = yield* Schedule.toStep(schedule)
    let failure: CoreUnavailable | undefined = first
    /** The deadline before which the last attempt was made. */
    let triedBefore: Timestamp | undefined
    while (failure !== undefined) {
      const [, wanted] = yield* next(yield* Clock.currentTimeMillis, failure)
      const due = dueOf()
      const left = yield* until(due)
      if (Duration.isZero(left)) {
        yield* Effect.sleep(Duration.max(wanted, retryMargin))
      } else if (triedBefore === due) {
        yield* Effect.sleep(Duration.sum(left, retryMargin))
      } else {
        const { isLast, pause } = pauseWithin(wanted, left)
        if (isLast) triedBefore = due
        yield* Effect.sleep(pause)
      }
      failure = yield* Effect.match(attempt, { onFailure: (error) => error, onSuccess: () => undefined })
    }
  },
  Pull.catchDone(() => Effect.void)
)

/** Starts a run at the core, but never one whose token is revoked or cannot be checked. */
const makeStart = Effect.fnUntraced(function*({ accepted }: Pick<Options, "accepted">) {
  const core = yield* CoreClient
  const revocations = yield* TokenRevocations
  return (run: Run) =>
    Effect.andThen(
      Effect.catchTag(revocations.check(run.principal), "RevocationsUnknown", () => cannotCheck),
      Effect.flatMap(core.start(run), (declared) => accepted(run, declared))
    )
})

/** Starts the acceptance deadline at the first attempt, when the task was created without a free slot. */
const makeStartAcceptance = Effect.fnUntraced(function*({ actorOf, wake }: Pick<Options, "actorOf" | "wake">) {
  const writes = yield* TaskWrites
  const { acceptanceTimeout } = yield* Settings
  return Effect.fnUntraced(function*(head: TaskHead) {
    if (head.status !== "pending" || head.acceptanceDeadline !== null) return
    const acceptanceDeadline = plus(yield* now, acceptanceTimeout)
    yield* retryForever(writes.startAcceptance(head.uuid, head.runId, acceptanceDeadline))
    if (actorOf(head.uuid)?.head === head) yield* wake({ ...head, acceptanceDeadline })
  })
})

/** Reads the run of a task, and puts its request together. */
const makeReadRun = Effect.fnUntraced(
  function*({ actorOf, release, slots }: Pick<Options, "actorOf" | "release" | "slots">) {
    const reads = yield* TaskReads
    const secrets = yield* Secrets
    const { resolve } = yield* RunRequests.make

    return Effect.fnUntraced(function*(head: TaskHead) {
      const found = Option.getOrUndefined(yield* retryForever(reads.pendingRun(head.uuid)))
      if (found !== undefined && found.runId === head.runId) {
        if (refersToOthers(found.request) && !slots.isNoted(found.runId)) {
          slots.note(found)
          return yield* new IsLarge()
        }
        const whole = yield* retryForever(resolve(found.request, true))
        if (whole._tag !== "Whole") return yield* new PredecessorDeleted()
        const { request } = whole
        const run: Run = {
          ...found,
          request,
          taskId: head.uuid,
          userToken: yield* secrets.open("user-token", found.userToken)
        }
        slots.note(run)
        return run
      }
      // No pending run: the task has ended and our head is stale.
      if (actorOf(head.uuid)?.head === head) release(head.uuid)
      return undefined
    })
  }
)

type Start = Effect.Success<ReturnType<typeof makeStart>>

/** Returns what follows a failed attempt: another one, or the end of the task. */
const makeRecordFailure =
  ({ actorOf, end, refusedAgain }: Options) =>
  (head: TaskHead, isRecovery: boolean, error: Effect.Error<ReturnType<Start>> | PredecessorDeleted) => {
    const actor = actorOf(head.uuid)
    switch (error._tag) {
      case "PredecessorDeleted":
        return end(head, TaskEvent.cases.Refused.make({ error: Failure.predecessorDeleted }))
      case "CoreUnavailable":
        return Effect.fail(error)
      case "CoreRefused":
        if (isRecovery && actor !== undefined && isAccepted(actor)) {
          return Effect.andThen(
            Effect.logDebug(`the core answered ${error.status} to a run that it has accepted before`),
            refusedAgain(head.uuid)
          )
        }
        return Effect.andThen(
          Effect.logWarning(`the core refused the run with status ${error.status}`),
          end(head, TaskEvent.cases.Refused.make({ error: Failure.processingFailed }))
        )
      case "TokenIsRevoked":
        return end(head, TaskEvent.cases.TokenRevoked.make({}))
    }
  }

const makeAttempts = Effect.fnUntraced(function*(options: Options) {
  const { actorOf, release, slots, wake } = options
  const reads = yield* TaskReads
  const start = yield* makeStart(options)

  const startAcceptance = yield* makeStartAcceptance({ actorOf, wake })
  const readRun = yield* makeReadRun({ actorOf, release, slots })

  const refresh = Effect.fnUntraced(function*({ uuid }: TaskHead) {
    const [present] = yield* retryForever(reads.heads([uuid]))
    if (present === undefined) release(uuid)
    else yield* wake(present)
  })

  const readAndStart = Effect.fnUntraced(function*(current: TaskHead, known: { run: Run | undefined }) {
    const found = known.run ?? (yield* readRun(current))
    if (found === undefined) return
    // A large run is read again for each attempt, to save memory.
    known.run = DispatchSlots.isLarge(found.request) ? undefined : found
    yield* startAcceptance(current)
    yield* start(found)
  })

  const recordFailure = makeRecordFailure(options)

  /** `attempted` completes after the first attempt, successful or not. */
  return (
    head: TaskHead,
    run: Run | undefined,
    isRecovery: boolean,
    attempted: Deferred.Deferred<void>
  ): Effect.Effect<void> => {
    const known = { run }
    const isSilent = (actorOf(head.uuid)?.handOvers ?? 0) > 0
    const once = Effect.suspend(() => {
      const actor = actorOf(head.uuid)
      if (actor === undefined || !isWanted(actor, head.runId)) return Effect.void
      // The run has given a sign of life since it was found silent.
      if (isSilent && actor.handOvers === 0) return Effect.void
      return known.run !== undefined && actor.head.acceptanceDeadline !== null
        ? start(known.run)
        : readAndStart(actor.head, known)
    })
    const attempt: Effect.Effect<void, CoreUnavailable> = Effect.catch(
      slots.withSlot(head.runId, once),
      (error) => error._tag === "IsLarge" ? attempt : recordFailure(head, isRecovery, error)
    )
    return Effect.catch(
      Effect.ensuring(attempt, Effect.sync(() => Deferred.doneUnsafe(attempted, Effect.void))),
      (first) =>
        repeatAfter(first, () => dueAt(actorOf(head.uuid)?.head ?? head), Effect.andThen(refresh(head), attempt))
    )
  }
})

export const make = Effect.fnUntraced(function*(options: Options) {
  const { release, slots, supervise } = options
  const ownership = yield* TaskOwnership
  const attemptsOf = yield* makeAttempts(options)

  /** Starts a dispatch, unless the run has one. Returns a deferred that completes after the first attempt. */
  return (head: TaskHead, run: Run | undefined, isRecovery: boolean): Deferred.Deferred<void> => {
    const attempted = Deferred.makeUnsafe<void>()
    if (!slots.enter(head.runId, isRecovery)) {
      Deferred.doneUnsafe(attempted, Effect.void)
      return attempted
    }
    const inTrace = TaskTraces.traced(TaskTraces.names.dispatch, head.uuid, {
      attributes: { "run.id": head.runId, "run.recovered": isRecovery }
    })
    supervise(
      head.uuid,
      Effect.ensuring(
        inTrace(attemptsOf(head, run, isRecovery, attempted)),
        Effect.sync(() => {
          slots.leave(head.runId)
          // This node dispatched the run on behalf of the owner.
          if (!ownership.isMine(head.uuid)) release(head.uuid)
        })
      )
    )
    return attempted
  }
})
