/**
 * Dispatches a run to the core, with retries until the core accepts or refuses it or the task needs it no longer. The row is
 * read before each retry, because another node may have changed the task.
 */
import { Deferred, Duration, Effect, Option } from "effect"
import { nextDue } from "../../domain/Deadline.ts"
import { CoreUnavailable, schedule } from "../../domain/DispatchRetry.ts"
import * as Failure from "../../domain/Failure.ts"
import { TaskEvent, type TaskHead, type TaskId } from "../../domain/Task.ts"
import { now, plus, until } from "../../domain/Timestamp.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import { CoreClient, type Run } from "../core/CoreClient.ts"
import { TaskReads } from "../store/TaskReads.ts"
import { TaskWrites } from "../store/TaskWrites.ts"
import * as TaskTraces from "../telemetry/TaskTraces.ts"
import { retryForever } from "../timing/Retry.ts"
import { Settings } from "../timing/Settings.ts"
import { Secrets } from "../tokens/Secrets.ts"
import { TokenRevocations } from "../tokens/TokenRevocations.ts"
import { type Actor, isWanted } from "./Decision.ts"
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
  /** Commits an event that ends the task, with retries. */
  readonly end: (head: TaskHead, event: TaskEvent) => Effect.Effect<void>
}

const cannotCheck = Effect.fail(
  new CoreUnavailable({ reason: "the token's revocation cannot be checked", retryAfter: null })
)

/** Caps `Retry-After` just after the task's next deadline, so that no dispatch outlives its task by much. */
const limitRetryAfter = (head: TaskHead, acceptanceTimeout: Duration.Duration, error: CoreUnavailable) =>
  Effect.flatMap(
    until(nextDue(head, acceptanceTimeout)?.at ?? head.deadline),
    (left) =>
      Effect.fail(
        error.retryAfter === null || Duration.isLessThan(error.retryAfter, left)
          ? error
          : new CoreUnavailable({ reason: error.reason, retryAfter: Duration.sum(left, retryMargin) })
      )
  )

/** Retries with the schedule, which is created only after a failure; its first step receives that failure. */
const retryAfter = <A>(first: CoreUnavailable, attempt: Effect.Effect<A, CoreUnavailable>) => {
  let known: CoreUnavailable | undefined = first
  const again = Effect.suspend(() => {
    const failure = known
    known = undefined
    return failure === undefined ? attempt : Effect.fail(failure)
  })
  return Effect.ignore(Effect.retry(again, schedule))
}

/** Starts a run at the core, but never one whose token is revoked or cannot be checked. */
const makeStart = Effect.gen(function*() {
  const core = yield* CoreClient
  const revocations = yield* TokenRevocations
  return (run: Run) =>
    Effect.andThen(
      Effect.catchTag(revocations.check(run.principal), "RevocationsUnknown", () => cannotCheck),
      core.start(run)
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

const makeAttempts = Effect.fnUntraced(function*({ actorOf, end, release, slots, wake }: Options) {
  const reads = yield* TaskReads
  const secrets = yield* Secrets
  const start = yield* makeStart
  const { acceptanceTimeout } = yield* Settings

  const startAcceptance = yield* makeStartAcceptance({ actorOf, wake })

  const readRun = Effect.fnUntraced(function*(head: TaskHead) {
    const found = Option.getOrUndefined(yield* retryForever(reads.pendingRun(head.uuid)))
    if (found !== undefined && found.runId === head.runId) {
      const run: Run = { ...found, taskId: head.uuid, userToken: yield* secrets.open(found.userToken) }
      slots.note(run)
      return run
    }
    // No pending run: the task has ended and our head is stale.
    if (actorOf(head.uuid)?.head === head) release(head.uuid)
    return undefined
  })

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

  const recordFailure = (head: TaskHead, error: Effect.Error<ReturnType<typeof start>>) => {
    switch (error._tag) {
      case "CoreUnavailable":
        return limitRetryAfter(actorOf(head.uuid)?.head ?? head, acceptanceTimeout, error)
      case "CoreRefused":
        return Effect.andThen(
          Effect.logWarning(`the core refused the run with status ${error.status}`),
          end(head, TaskEvent.cases.Refused.make({ error: Failure.processingFailed }))
        )
      case "TokenIsRevoked":
        return end(head, TaskEvent.cases.TokenRevoked.make({}))
    }
  }

  /** `attempted` completes after the first attempt, successful or not. */
  return (head: TaskHead, run: Run | undefined, attempted: Deferred.Deferred<void>): Effect.Effect<void> => {
    const known = { run }
    const once = Effect.suspend(() => {
      const actor = actorOf(head.uuid)
      if (actor === undefined || !isWanted(actor, head.runId)) return Effect.void
      return known.run !== undefined && actor.head.acceptanceDeadline !== null
        ? start(known.run)
        : readAndStart(actor.head, known)
    })
    const attempt = Effect.catch(slots.withSlot(head.runId, once), (error) => recordFailure(head, error))
    return Effect.catch(
      Effect.ensuring(attempt, Effect.sync(() => Deferred.doneUnsafe(attempted, Effect.void))),
      (first) => retryAfter(first, Effect.andThen(refresh(head), attempt))
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
        inTrace(attemptsOf(head, run, attempted)),
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
