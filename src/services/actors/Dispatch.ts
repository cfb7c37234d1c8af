/**
 * Dispatches runs to the core. A run waits for room in a lane of this node; then it is attempted. A core without room has not taken it: it
 * goes back into the queue. After an unknown outcome it is attempted again, after pauses, until the core accepts or refuses it or its task
 * needs it no longer. The row is read before each retry, because another node may have changed the task.
 */
import { Clock, Data, Duration, Effect, Option, Pull, Schedule } from "effect"
import { dueAt } from "../../domain/Deadline.ts"
import { type CoreHasNoRoom, CoreUnavailable, pauseWithin, schedule, unavailable } from "../../domain/DispatchRetry.ts"
import * as Failure from "../../domain/Failure.ts"
import { refersToOthers } from "../../domain/StoredRequest.ts"
import { type RunId, TaskEvent, type TaskHead } from "../../domain/Task.ts"
import { now, plus, type Timestamp, until } from "../../domain/Timestamp.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import { CoreClient, type Run } from "../core/CoreClient.ts"
import * as RunRequests from "../core/RunRequests.ts"
import * as Lane from "../limits/Lane.ts"
import { CoreBusy } from "../queue/CoreBusy.ts"
import { Settings } from "../settings/Settings.ts"
import { RunQueue } from "../store/queue/RunQueue.ts"
import { TaskStore } from "../store/tasks/TaskStore.ts"
import * as TaskTraces from "../telemetry/TaskTraces.ts"
import { retryForever } from "../timing/Retry.ts"
import { Secrets } from "../tokens/Secrets.ts"
import { TokenRevocations } from "../tokens/TokenRevocations.ts"
import type { ActorTable } from "./ActorTable.ts"
import { hasReported, isAccepted, isWanted, type MutableActor } from "./Decision.ts"

const concurrency = 256
/** For runs of processing tasks, which the core may have already. A node that starts has many: runs of pending tasks must not wait for them. */
const recoveryConcurrency = 8
/** For runs of pending tasks, whose acceptance deadline is near. New runs must not wait for them either. */
const pendingRecoveryConcurrency = 64
/** A large run takes several times its size in memory while it is dispatched. */
const largeConcurrency = 1

/** Characters. A run with a longer request is large. */
const largeRequest = 1024 * 1024

/** Characters. A run that has to wait keeps its request up to this length, and reads a longer one again: thousands may wait. */
const keptRequest = 64 * 1024

/** A request that refers to other tasks may be large when it has been put together. */
export const isLarge = (request: Run["request"]) => request.length > largeRequest || refersToOthers(request)

const isKept = (request: Run["request"]) => request.length <= keptRequest && !refersToOthers(request)

/** A retry comes at least this long after a deadline, so that retry and expiry do not race. */
const retryMargin = Duration.seconds(1)

/** A dispatch tells the actor of its task by these. */
interface Signals {
  /** Applies a row to its actor. */
  readonly wake: (head: TaskHead) => Effect.Effect<void>
  /** Commits an event that ends the task, with retries. */
  readonly end: (head: TaskHead, event: TaskEvent) => Effect.Effect<void>
}

type LaneName = "new" | "recovered" | "recoveredPending" | "large"

/** A run that waits for its lane, is attempted, or waits for a retry. */
interface Dispatching {
  readonly head: TaskHead
  /** Whether the core may have the run already. */
  readonly isRecovery: boolean
  /** Kept between attempts, unless its request is long. */
  run: Run | undefined
  lane: LaneName
  /** The pace with which it began, see `CoreBusy`. */
  readonly pace: number | undefined
  /** Whether its first attempt has not ended. */
  isFirst: boolean
  /** Whether the outcome of an attempt is unknown. */
  mayBeAtCore: boolean
  /** Whether it is back in the queue. */
  isPutBack: boolean
}

const cannotCheck = Effect.fail(
  new CoreUnavailable({ reason: "the token's revocation cannot be checked", retryAfter: null })
)

/** The run turned out to be large when it was read: it has to wait in the lane of large runs. */
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

export const make = Effect.fnUntraced(function*(actors: ActorTable, { end, wake }: Signals) {
  const ownership = yield* TaskOwnership
  const core = yield* CoreClient
  const revocations = yield* TokenRevocations
  const store = yield* TaskStore
  const secrets = yield* Secrets
  const { acceptanceTimeout } = yield* Settings
  const { resolve } = yield* RunRequests.make
  const queue = yield* RunQueue
  const busy = yield* CoreBusy

  /** A run waits in its lane until there is room for its attempt. */
  const lanes: Record<LaneName, Lane.Lane> = {
    new: Lane.make(concurrency),
    recovered: Lane.make(recoveryConcurrency),
    recoveredPending: Lane.make(pendingRecoveryConcurrency),
    large: Lane.make(largeConcurrency)
  }
  /** The dispatches in progress, and how many belong to each lane. A run has at most one. */
  const dispatches = new Map<RunId, Dispatching>()
  const members: Record<LaneName, number> = { new: 0, recovered: 0, recoveredPending: 0, large: 0 }
  /** The seconds of silence that the core declared last. */
  let lastDeclared: number | undefined

  const moveToLarge = (dispatching: Dispatching): void => {
    members[dispatching.lane]--
    members.large++
    dispatching.lane = "large"
  }

  /** Reads the run of a task, and puts its request together. */
  const read = Effect.fnUntraced(function*(head: TaskHead, dispatching: Dispatching) {
    const found = Option.getOrUndefined(yield* retryForever(store.pendingRun(head.uuid)))
    if (found === undefined || found.runId !== head.runId) {
      // No pending run: the task has ended and our head is stale.
      if (actors.get(head.uuid)?.head === head) actors.release(head.uuid)
      return undefined
    }
    if (isLarge(found.request) && dispatching.lane !== "large") return yield* new IsLarge()
    const whole = yield* retryForever(resolve(found.request, true))
    if (whole._tag !== "Whole") return yield* new PredecessorDeleted()
    const userToken = yield* secrets.open("user-token", found.userToken)
    return { ...found, request: whole.request, taskId: head.uuid, userToken } satisfies Run
  })

  /**
   * Starts the acceptance deadline at the first attempt, when the task was created while its lane had no room, or has waited in the
   * queue. Returns whether the row still wants the attempt.
   */
  const startAcceptance = Effect.fnUntraced(function*(head: TaskHead) {
    if (head.status !== "pending" || head.acceptanceDeadline !== null) return true
    const deadline = plus(yield* now, acceptanceTimeout)
    const present = yield* retryForever(store.startAcceptance(head.uuid, head.runId, deadline))
    if (present === undefined) {
      actors.release(head.uuid)
      return false
    }
    yield* wake(present)
    return isWanted(actors.get(head.uuid), head.runId) && present.room !== "waiting"
  })

  /**
   * The core may have the run, and so its place is not free: of a core that went away, which answers at once that it is not there, every
   * run that waits would be tried and have its acceptance clock started.
   */
  const noteUnknown = (dispatching: Dispatching, at: Timestamp): void => {
    dispatching.mayBeAtCore = true
    busy.reserve(dispatching.head.runId, at)
  }

  /** Starts a run at the core, but never one whose token is revoked or cannot be checked. */
  const start = (run: Run, dispatching: Dispatching) =>
    Effect.andThen(
      Effect.catchTag(revocations.check(run.principal), "RevocationsUnknown", () => cannotCheck),
      Effect.flatMap(
        Effect.tapError(core.start(run), (error) =>
          error._tag === "CoreUnavailable"
            ? Effect.map(now, (at) => noteUnknown(dispatching, at))
            : Effect.void),
        (declared) =>
          Effect.map(now, (at) => {
            lastDeclared = declared ?? lastDeclared
            const actor = actors.get(run.taskId)
            if (actor?.dispatchedRun === run.runId) answered(actor, declared ?? null, at)
            busy.accepted(run.runId, at)
          })
      )
    )

  const answered = (actor: MutableActor, silence: number | "last" | null, at: Timestamp): void => {
    actor.silence = silence
    actor.answeredAt = at
    actors.recount(actor)
  }

  /** Puts a run that the core has not taken back into the queue, unless an event shows that it has. */
  const putBack = Effect.fnUntraced(function*(dispatching: Dispatching) {
    const { runId, sub, uuid } = dispatching.head
    const at = yield* now
    const present = yield* retryForever(queue.putBack(uuid, runId, sub, at))
    dispatching.isPutBack = true
    if (present === undefined) return actors.release(uuid)
    yield* wake(present)
    if (present.room === "waiting") busy.noteWaiting()
    const actor = actors.get(uuid)
    if (isWanted(actor, runId) && isAccepted(actor.head)) answered(actor, actor.silence ?? "last", at)
  })

  /** The first attempt of a run has ended. */
  const endFirst = (dispatching: Dispatching, at: Timestamp): void => {
    if (!dispatching.isFirst) return
    dispatching.isFirst = false
    busy.end(dispatching.head.runId, at)
  }

  const readAndStart = Effect.fnUntraced(function*(head: TaskHead, dispatching: Dispatching) {
    const run = dispatching.run ?? (yield* read(head, dispatching))
    if (run === undefined) return
    // A long request is read again for each attempt, to save memory.
    dispatching.run = isKept(run.request) ? run : undefined
    if (yield* startAcceptance(head)) yield* start(run, dispatching)
  })

  /** An attempt that has room in its lane. */
  const attemptNow = (dispatching: Dispatching) =>
    Effect.suspend(() => {
      const { head: { runId, uuid }, isRecovery, run } = dispatching
      const actor = actors.get(uuid)
      if (!isWanted(actor, runId) || hasReported(actor) || (isRecovery && !ownership.isMine(uuid))) return Effect.void
      // It began before the core was known to be busy.
      if (!dispatching.mayBeAtCore && !busy.allows(dispatching.pace)) return putBack(dispatching)
      if (run === undefined || actor.head.acceptanceDeadline === null) return readAndStart(actor.head, dispatching)
      if (!isKept(run.request)) dispatching.run = undefined
      return start(run, dispatching)
    })

  /** The core has no room: the run waits in the queue. One that the core may have is retried as after an unknown outcome. */
  const withoutRoom = (dispatching: Dispatching, error: CoreHasNoRoom) =>
    Effect.flatMap(now, (at) => {
      const noted = busy.refused(dispatching.head.runId, dispatching.pace, error.retryAfter, at)
      if (dispatching.mayBeAtCore) busy.reserve(dispatching.head.runId, at)
      return dispatching.mayBeAtCore
        ? Effect.andThen(noted, Effect.fail(unavailable(error)))
        : Effect.andThen(noted, putBack(dispatching))
    })

  /** Carries out what a failed attempt means for the task, unless another one follows. */
  const concluded = (
    dispatching: Dispatching,
    error: Exclude<Effect.Error<ReturnType<typeof attemptNow>>, IsLarge>
  ): Effect.Effect<void, CoreUnavailable> => {
    const { head, isRecovery } = dispatching
    const refused = (reason: string) => end(head, TaskEvent.cases.Refused.make({ error: reason }))
    switch (error._tag) {
      case "CoreUnavailable":
        return Effect.fail(error)
      case "CoreHasNoRoom":
        return withoutRoom(dispatching, error)
      case "PredecessorDeleted":
        return refused(Failure.predecessorDeleted)
      case "TokenIsRevoked":
        return end(head, TaskEvent.cases.TokenRevoked.make({}))
      case "CoreRefused": {
        const actor = actors.get(head.uuid)
        if (!isRecovery || actor === undefined || !isAccepted(actor.head)) {
          return Effect.andThen(
            Effect.logWarning(`the core refused the run with status ${error.status}`),
            refused(Failure.processingFailed)
          )
        }
        return Effect.andThen(
          Effect.logDebug(`the core answered ${error.status} to a run that it has accepted before`),
          // It declares nothing when it refuses.
          Effect.map(now, (at) => answered(actor, actor.silence ?? "last", at))
        )
      }
    }
  }

  /** The attempts of a run that has room for the first one. */
  const attempts = (dispatching: Dispatching): Effect.Effect<void> => {
    const { head } = dispatching
    const attempt: Effect.Effect<void, CoreUnavailable> = Effect.suspend(() => {
      const { leave } = lanes[dispatching.lane]
      return Effect.catch(Effect.ensuring(attemptNow(dispatching), Effect.sync(leave)), (error) => {
        if (error._tag !== "IsLarge") return concluded(dispatching, error)
        moveToLarge(dispatching)
        return attemptWithRoom
      })
    })
    const attemptWithRoom = Effect.suspend(() => Effect.andThen(lanes[dispatching.lane].entered, attempt))
    const refresh = Effect.flatMap(
      Effect.suspend(() => retryForever(store.heads([head.uuid]))),
      ([present]) => present === undefined ? Effect.sync(() => actors.release(head.uuid)) : wake(present)
    )
    return Effect.catch(
      attempt,
      (first) =>
        Effect.andThen(
          Effect.map(now, (at) => endFirst(dispatching, at)),
          repeatAfter(first, () => dueAt(actors.get(head.uuid)?.head ?? head), Effect.andThen(refresh, attemptWithRoom))
        )
    )
  }

  const startNow = (head: TaskHead, run: Run | undefined, isRecovery: boolean, at: Timestamp): void => {
    const { runId, status, uuid } = head
    if (dispatches.has(runId)) return
    // A pending run does not wait behind others, because its acceptance deadline is near.
    const own = !isRecovery ? "new" : status === "pending" ? "recoveredPending" : "recovered"
    const lane = run !== undefined && isLarge(run.request) ? "large" : own
    const isAtOnce = lane === "large" ? members.large < largeConcurrency : members[lane] < concurrency
    const isReadAgain = run === undefined || refersToOthers(run.request) || (!isAtOnce && !isKept(run.request))
    const dispatching: Dispatching = {
      head,
      isRecovery,
      run: isReadAgain ? undefined : run,
      lane,
      pace: busy.begin(runId, at),
      isFirst: true,
      mayBeAtCore: isRecovery,
      isPutBack: false
    }
    dispatches.set(runId, dispatching)
    members[lane]++
    const inTrace = TaskTraces.traced(TaskTraces.names.dispatch, uuid, {
      attributes: { "run.id": runId, "run.recovered": isRecovery }
    })
    const ended = Effect.map(now, (at) => {
      members[dispatching.lane]--
      dispatches.delete(runId)
      endFirst(dispatching, at)
      busy.unreserve(runId)
      // It was dispatched on behalf of its owner, or has another one since.
      if (!ownership.isMine(uuid)) return actors.release(uuid)
      const actor = actors.get(uuid)
      // It was admitted again before it was known here to be back in the queue.
      if (dispatching.isPutBack && actor?.dispatchedRun === runId && actor.head.room !== "waiting") {
        startNow(actor.head, undefined, false, at)
      }
    })
    lanes[lane].enter(() => actors.fork(uuid, Effect.ensuring(inTrace(attempts(dispatching)), ended)))
  }

  return {
    /** Whether a new run would be attempted now, while `others` are about to be dispatched. */
    hasRoom: (request: Run["request"], others: number): boolean =>
      !isLarge(request) && members.new + others < concurrency,
    isDispatching: (runId: RunId): boolean => dispatches.has(runId),
    lastDeclared: () => lastDeclared,
    /** Dispatches a run, unless it is being dispatched. A `run` that is not given is read when there is room for it. */
    start: startNow
  }
})
