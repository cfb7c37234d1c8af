/**
 * Dispatches runs again after their node crashed, so that a run that crashes nodes cannot do so repeatedly. Every batch
 * is on trial. Runs that were on trial when a node crashed are suspects: they are dispatched last, in ever smaller parts,
 * and a run that crashed nodes while it was alone on trial fails.
 */
import { Duration, Effect, Fiber, Latch, type Scope, Semaphore } from "effect"
import type { SecureRandom } from "effect/crypto"
import type { RunId, TaskHead, TaskId } from "../../domain/Task.ts"
import { now, plus, Timestamp, until } from "../../domain/Timestamp.ts"
import type { LostTrial, RecoveryTrials } from "../store/RecoveryTrials.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as Worker from "../timing/Worker.ts"
import * as Trials from "./Trials.ts"

/** Runs in the first batch. The size doubles with every batch, up to the maximum. */
const firstBatch = 64
const largestBatch = 800
/** A lost batch is retried in this many parts, so that after two losses every suspect is alone. */
const parts = 32

/** Maximum time between two batches; trials may overlap. */
const pace = Duration.millis(600)

/** Batches whose dispatch has not ended. */
const maxDispatching = 2

/** Suspects are tried this long after the last one was found, so that a crash loop with another cause is not attributed to a run. */
const quietTime = Duration.seconds(5)
/** A run fails after this many losses alone on trial. A single loss may be a coincidence. */
const fatalLosses = 2

/** Task ids in one log line. */
const loggedTasks = 10

type Lost = ReadonlyMap<RunId, LostTrial>

const mostLosses = (trials: ReadonlyArray<LostTrial | undefined>) =>
  trials.reduce((most, trial) => Math.max(most, trial?.losses ?? 0), 0)

/** First the runs that were alone on trial when a node crashed, then those with the fewest others. */
const byLosses = (one: LostTrial, other: LostTrial) =>
  other.lossesAlone - one.lossesAlone || one.concurrentTrials - other.concurrentTrials

/** The suspects to try next, or the one that is to fail. */
const chooseSuspects = (found: ReadonlyArray<LostTrial>) => {
  const sorted = found.toSorted(byLosses)
  const faulty = sorted.find(({ concurrentTrials, lossesAlone }) =>
    concurrentTrials === 1 && lossesAlone >= fatalLosses
  )
  const size = Math.max(1, Math.floor((sorted[0]?.concurrentTrials ?? 0) / parts))
  return { isFaulty: faulty !== undefined, chosen: faulty === undefined ? sorted.slice(0, size) : [faulty] }
}

/** Pending runs first, because their acceptance deadline is near; the newest run last and alone, as the likeliest cause. */
const chooseBatch = (waiting: ReadonlyArray<TaskHead>, size: number): ReadonlyArray<TaskHead> => {
  const pending = waiting.filter(({ status }) => status === "pending")
  if (pending.length > 0 || waiting.length < 2) return (pending.length > 0 ? pending : waiting).slice(0, size)
  const newest = waiting.reduce((latest, head) => head.runId > latest.runId ? head : latest)
  return waiting.filter((head) => head !== newest).slice(0, size)
}

interface Options {
  /** Whether this node still has to dispatch the run. */
  readonly isWanted: (head: TaskHead) => boolean
  /** Dispatches the run. Completes after the first attempt. */
  readonly dispatch: (head: TaskHead) => Effect.Effect<void>
  readonly fail: (head: TaskHead) => Effect.Effect<void>
  /** Forgets a run that is not dispatched, so that it is queued again if it becomes this node's. */
  readonly drop: (head: TaskHead) => void
}

export interface Recovery {
  /** Queues the run for dispatch. */
  readonly add: (head: TaskHead) => void
  /** Ends the trials of tasks that another node owns now. */
  readonly release: (isMine: (id: TaskId) => boolean) => Effect.Effect<void>
}

type NodeTrials = Effect.Success<ReturnType<typeof Trials.make>>

interface SuspectOptions extends Options {
  readonly trials: NodeTrials
  /** Queues a run that is no longer suspected. */
  readonly add: (head: TaskHead) => void
  /** Whether other runs wait for their dispatch. */
  readonly hasOthers: () => boolean
}

const about = (head: TaskHead, log: Effect.Effect<void>) => Effect.annotateLogs(log, { taskId: head.uuid })

const logFailed = (head: TaskHead) =>
  about(head, Effect.logError(`the task fails: ${fatalLosses} nodes crashed while it was tried alone`))

const logSuspects = (heads: ReadonlyArray<TaskHead>) => {
  const names = heads.slice(0, loggedTasks).map(({ uuid }) => uuid).join(", ")
  const more = heads.length > loggedTasks ? ` and ${heads.length - loggedTasks} more` : ""
  return Effect.logWarning(
    `a node crashed soon after the dispatch of these tasks; they are tried last: ${names}${more}`
  )
}

/** Tries the suspects, while nothing else is on trial. Returns the effect that adds suspects. */
const makeSuspects = Effect.fnUntraced(function*({ add, drop, fail, hasOthers, isWanted, trials }: SuspectOptions) {
  /** `losses` are those of the run when it was found. */
  const suspects = new Map<RunId, { readonly head: TaskHead; readonly losses: number }>()
  const hasSuspects = Latch.makeUnsafe()
  let quietAt = Timestamp.make(0)

  const suspect = Effect.fnUntraced(function*(heads: ReadonlyArray<TaskHead>, lost: Lost) {
    if (heads.length === 0) return
    for (const head of heads) suspects.set(head.runId, { head, losses: lost.get(head.runId)?.losses ?? 0 })
    hasSuspects.openUnsafe()
    quietAt = plus(yield* now, quietTime)
    yield* logSuspects(heads)
  })

  /** Waits until all other trials have passed and no suspect was found for a while. */
  const untilQuiet = Effect.gen(function*() {
    yield* Effect.sleep(yield* until(quietAt))
    return quietAt > (yield* now) || trials.isBusy() || hasOthers()
  }).pipe(
    Effect.tap((isBusy) => isBusy ? Effect.sleep(pace) : Effect.void),
    Effect.repeat({ while: (isBusy) => isBusy })
  )

  /** Removes suspects whose trial has changed since: its node is alive. Returns whether there were any. */
  const review = Effect.fnUntraced(function*(lost: Lost) {
    let hasChanged = false
    for (const [runId, { head, losses }] of suspects) {
      const trial = lost.get(runId)
      if (isWanted(head) && trial?.losses === losses && trial.concurrentTrials > 0) continue
      suspects.delete(runId)
      if (!isWanted(head)) {
        drop(head)
        continue
      }
      hasChanged = true
      if (trial === undefined || trial.concurrentTrials === 0) add(head)
      else yield* suspect([head], lost)
    }
    return hasChanged
  })

  const trySuspects = Effect.gen(function*() {
    if (suspects.size === 0) return
    yield* untilQuiet
    const lost = yield* trials.lost([...suspects.keys()])
    if (yield* review(lost)) return
    const { chosen, isFaulty } = chooseSuspects([...suspects.keys()].flatMap((runId) => lost.get(runId) ?? []))
    const heads = chosen.flatMap(({ runId }) => suspects.get(runId)?.head ?? [])
    if (isFaulty) {
      yield* Effect.forEach(heads, (head) => Effect.andThen(logFailed(head), fail(head)), { discard: true })
    } else {
      const [head] = heads
      if (heads.length === 1 && head !== undefined) {
        yield* about(head, Effect.logWarning("a suspected task is tried alone"))
      }
      yield* trials.finish(yield* trials.begin(heads), mostLosses(chosen))
    }
    for (const { runId } of heads) suspects.delete(runId)
  })

  yield* Metrics.suspectedTasks.observe(() => suspects.size)
  yield* Worker.make({
    name: "the trial of suspected tasks",
    runOnce: Effect.andThen(trySuspects, Effect.sync(() => suspects.size > 0 && hasSuspects.openUnsafe())),
    interval: Duration.infinity,
    wake: hasSuspects
  })
  return suspect
})

export const make = Effect.fnUntraced(function*(
  options: Options
): Effect.fn.Return<Recovery, never, RecoveryTrials | SecureRandom.SecureRandom | Scope.Scope> {
  const scope = yield* Effect.scope
  const trials = yield* Trials.make(options)
  const dispatching = Semaphore.makeUnsafe(maxDispatching)
  const waiting = new Map<RunId, TaskHead>()
  const hasWaiting = Latch.makeUnsafe()
  let batch = firstBatch
  let isRecovering = false

  const add = (head: TaskHead) => {
    waiting.set(head.runId, head)
    hasWaiting.openUnsafe()
  }
  const suspect = yield* makeSuspects({
    ...options,
    trials,
    add,
    hasOthers: () => waiting.size > 0 || isRecovering
  })

  const wanted = (heads: ReadonlyArray<TaskHead>) =>
    heads.filter((head) => {
      const isWanted = options.isWanted(head)
      if (!isWanted) options.drop(head)
      return isWanted
    })

  const takeBatch = (): ReadonlyArray<TaskHead> => {
    const heads = chooseBatch([...waiting.values()], batch)
    for (const { runId } of heads) waiting.delete(runId)
    return wanted(heads)
  }

  const recover = Effect.gen(function*() {
    const heads = takeBatch()
    if (heads.length === 0) return
    isRecovering = true
    const lost = yield* trials.lost(heads.map(({ runId }) => runId))
    const isSuspect = ({ runId }: TaskHead) => (lost.get(runId)?.concurrentTrials ?? 0) > 0
    yield* suspect(heads.filter(isSuspect), lost)
    const others = wanted(heads.filter((head) => !isSuspect(head)))
    if (others.length === 0) return
    const losses = mostLosses(others.map(({ runId }) => lost.get(runId)))
    // A slow core must not put all runs on trial, which would make suspects of all.
    yield* dispatching.take(1)
    const trial = yield* trials.begin(others)
    const finished = yield* Effect.forkIn(trials.finish(trial, losses), scope, { startImmediately: true })
    yield* Effect.forkIn(
      Effect.andThen(Effect.raceFirst(Fiber.await(trial.dispatches), Fiber.await(finished)), dispatching.release(1)),
      scope
    )
    yield* Effect.timeoutOption(Fiber.await(finished), pace)
    batch = Math.min(2 * batch, largestBatch)
  }).pipe(Effect.ensuring(Effect.sync(() => {
    isRecovering = false
    if (waiting.size > 0) hasWaiting.openUnsafe()
    else batch = firstBatch
  })))
  yield* Worker.make({
    name: "the recovery of tasks",
    runOnce: recover,
    interval: Duration.infinity,
    wake: hasWaiting
  })

  return { add, release: trials.release }
})
