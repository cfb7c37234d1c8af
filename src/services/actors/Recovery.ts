/**
 * Dispatches runs again after their node crashed, so that a run that crashes nodes cannot do so repeatedly. Every batch
 * is on trial: it is stored before the dispatch and passes when the event loop stays responsive for a while. Runs that
 * were on trial when a node crashed are suspects: they are dispatched last, in ever smaller parts, and a run that
 * crashed nodes while it was alone on trial fails.
 */
import { Duration, Effect, Fiber, Latch, type Scope } from "effect"
import { SecureRandom } from "effect/crypto"
import type { RunId, TaskHead, TaskId } from "../../domain/Task.ts"
import { now, plus, Timestamp, until } from "../../domain/Timestamp.ts"
import { type LostTrial, RecoveryTrials } from "../store/RecoveryTrials.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import { retryForever } from "../timing/Retry.ts"

/** Runs in the first batch. The size doubles with every batch, up to the maximum. */
const firstBatch = 64
const largestBatch = 1024
/** A lost batch is retried in this many parts, so that after two losses every suspect is alone. */
const parts = 32

/** The node must stay responsive for this long after a dispatch. It doubles with every loss of the run. */
const shortestTrial = Duration.millis(500)
const longestTrial = Duration.seconds(32)
/** Maximum time between two batches; trials may overlap. */
const pace = Duration.millis(750)
/** Timeout of a batch. Dispatches without a response by then continue while the next batch starts. */
const answerTimeout = Duration.seconds(10)

/** No suspect is tried earlier after it was found, so that a node that restarts repeatedly blames no run. */
const quietTime = Duration.seconds(5)
/** A crash later than this after a trial does not count as a loss of the run. */
const stableTime = Duration.minutes(2)
/** A run fails after this many losses alone on trial. A single loss may be a coincidence. */
const fatalLosses = 2

/** Stored instead of 1 when the node survived the first half of the trial of a single run. */
const unproven = 2

/** Task ids in one log line. */
const loggedTasks = 10

const trialTime = (losses: number) => Duration.min(Duration.times(shortestTrial, 2 ** losses), longestTrial)

/** Completes after several turns of the event loop. A single timer would also fire after a block of its own length. */
const stayResponsive = (duration: Duration.Duration) =>
  Effect.repeat(Effect.sleep(Duration.divideUnsafe(duration, 2)), { times: 1 })

const runIds = (heads: ReadonlyArray<TaskHead>) => heads.map(({ runId }) => runId)
const byRunId = (trials: ReadonlyArray<LostTrial>) => new Map(trials.map((trial) => [trial.runId, trial]))
const mostLosses = (trials: ReadonlyArray<LostTrial | undefined>) =>
  trials.reduce((most, trial) => Math.max(most, trial?.losses ?? 0), 0)

/** Runs with losses alone first, so that no other suspect is on the node; then the smallest parts. */
const bySuspicion = (one: LostTrial, other: LostTrial) =>
  other.lossesAlone - one.lossesAlone || one.together - other.together

interface Options {
  /** Whether this node still has to dispatch the run. */
  readonly isWanted: (head: TaskHead) => boolean
  /** Dispatches the run. Completes after the first attempt. */
  readonly offer: (head: TaskHead) => Effect.Effect<void>
  readonly fail: (head: TaskHead) => Effect.Effect<void>
}

export interface Recovery {
  /** Queues the run for dispatch. */
  readonly add: (head: TaskHead) => void
  /** Ends the trials of tasks that another node owns now. */
  readonly release: (isMine: (id: TaskId) => boolean) => Effect.Effect<void>
}

export const make = Effect.fnUntraced(function*(
  { fail, isWanted, offer }: Options
): Effect.fn.Return<Recovery, never, RecoveryTrials | SecureRandom.SecureRandom | Scope.Scope> {
  const trials = yield* RecoveryTrials
  const scope = yield* Effect.scope
  const node = yield* (yield* SecureRandom.SecureRandom).uuidV4()
  const waiting = new Map<RunId, TaskHead>()
  /** `losses` are those of the run when it was found. */
  const suspects = new Map<RunId, { readonly head: TaskHead; readonly losses: number }>()
  const onTrial = new Set<RunId>()
  /** The trials that this node has stored. */
  const stored = new Map<RunId, TaskId>()
  const hasWaiting = Latch.makeUnsafe()
  const hasSuspects = Latch.makeUnsafe()
  let batch = firstBatch
  let isRecovering = false
  let quietAt = Timestamp.make(0)

  const add = (head: TaskHead) => {
    waiting.set(head.runId, head)
    hasWaiting.openUnsafe()
  }

  const endTrials = (runs: ReadonlyArray<RunId>) =>
    Effect.suspend(() => {
      for (const runId of runs) stored.delete(runId)
      return runs.length === 0 ? Effect.void : trials.end(node, runs)
    })

  /** Puts runs on trial and dispatches them. */
  const begin = Effect.fnUntraced(function*(heads: ReadonlyArray<TaskHead>) {
    // A run that was alone on trial no longer is.
    const company = onTrial.size === 1 ? [...onTrial] : []
    for (const { runId, uuid } of heads) {
      onTrial.add(runId)
      stored.set(runId, uuid)
    }
    yield* retryForever(trials.begin(node, [...new Set([...company, ...runIds(heads)])], onTrial.size))
    yield* Effect.timeoutOption(
      Effect.forEach(heads, offer, { concurrency: "unbounded", discard: true }),
      answerTimeout
    )
  })

  const pass = Effect.fnUntraced(function*(heads: ReadonlyArray<TaskHead>, losses: number) {
    const half = Duration.divideUnsafe(trialTime(losses), 2)
    yield* stayResponsive(half)
    // A crash from now on still makes the run a suspect, but does not count as a loss alone.
    if (onTrial.size === 1) yield* retryForever(trials.begin(node, runIds(heads), unproven))
    yield* stayResponsive(half)
    for (const { runId } of heads) onTrial.delete(runId)
    yield* retryForever(trials.pass(runIds(heads)))
    const endLater = Effect.suspend(() => retryForever(endTrials(runIds(heads).filter((run) => !onTrial.has(run)))))
    yield* Effect.forkIn(Effect.delay(endLater, stableTime), scope)
  })

  const suspect = Effect.fnUntraced(function*(heads: ReadonlyArray<TaskHead>, lost: ReadonlyMap<RunId, LostTrial>) {
    if (heads.length === 0) return
    for (const head of heads) suspects.set(head.runId, { head, losses: lost.get(head.runId)?.losses ?? 0 })
    hasSuspects.openUnsafe()
    quietAt = plus(yield* now, quietTime)
    const names = heads.slice(0, loggedTasks).map(({ uuid }) => uuid).join(", ")
    const more = heads.length > loggedTasks ? ` and ${heads.length - loggedTasks} more` : ""
    yield* Effect.logWarning(
      `a node crashed soon after the dispatch of these tasks; they are tried last: ${names}${more}`
    )
  })

  /** Pending runs first, because their acceptance deadline is near; the newest run last and alone, as the likeliest cause. */
  const takeBatch = (): ReadonlyArray<TaskHead> => {
    const all = [...waiting.values()]
    const pending = all.filter(({ status }) => status === "pending")
    const newest = all.reduce<RunId | undefined>(
      (latest, { runId }) => latest === undefined || runId > latest ? runId : latest,
      undefined
    )
    const eligible = pending.length > 0 ? pending : all.length > 1 ? all.filter(({ runId }) => runId !== newest) : all
    const heads = eligible.slice(0, batch)
    for (const { runId } of heads) waiting.delete(runId)
    return heads.filter(isWanted)
  }

  const recover = Effect.gen(function*() {
    if (waiting.size === 0) {
      batch = firstBatch
      hasWaiting.closeUnsafe()
    }
    yield* hasWaiting.await
    isRecovering = true
    const heads = takeBatch()
    if (heads.length === 0) return
    const lost = byRunId(yield* retryForever(trials.lost(node, runIds(heads))))
    const isSuspect = ({ runId }: TaskHead) => (lost.get(runId)?.together ?? 0) > 0
    yield* suspect(heads.filter(isSuspect), lost)
    const others = heads.filter((head) => !isSuspect(head))
    if (others.length === 0) return
    yield* begin(others)
    const passing = yield* Effect.forkIn(pass(others, mostLosses(others.map(({ runId }) => lost.get(runId)))), scope)
    yield* Effect.timeoutOption(Fiber.await(passing), pace)
    batch = Math.min(2 * batch, largestBatch)
  }).pipe(Effect.ensuring(Effect.sync(() => {
    isRecovering = false
  })))

  /** Waits until all other trials have passed and no suspect was found for a while. */
  const untilQuiet = Effect.gen(function*() {
    yield* Effect.sleep(yield* until(quietAt))
    return quietAt > (yield* now) || onTrial.size > 0 || waiting.size > 0 || isRecovering
  }).pipe(
    Effect.tap((isBusy) => isBusy ? Effect.sleep(pace) : Effect.void),
    Effect.repeat({ while: (isBusy) => isBusy })
  )

  /** Removes suspects whose trial has changed since: its node is alive. Returns whether there were any. */
  const review = Effect.fnUntraced(function*(lost: ReadonlyMap<RunId, LostTrial>) {
    let hasChanged = false
    for (const [runId, { head, losses }] of suspects) {
      const trial = lost.get(runId)
      if (isWanted(head) && trial?.losses === losses && trial.together > 0) continue
      suspects.delete(runId)
      if (!isWanted(head)) continue
      hasChanged = true
      if (trial === undefined || trial.together === 0) add(head)
      else yield* suspect([head], lost)
    }
    return hasChanged
  })

  const retrySuspects = Effect.gen(function*() {
    if (suspects.size === 0) hasSuspects.closeUnsafe()
    yield* hasSuspects.await
    yield* untilQuiet
    const lost = byRunId(yield* retryForever(trials.lost(node, [...suspects.keys()])))
    if (yield* review(lost)) return
    const found = [...suspects.keys()].flatMap((runId) => lost.get(runId) ?? []).toSorted(bySuspicion)
    const guilty = found.find(({ lossesAlone, together }) => together === 1 && lossesAlone >= fatalLosses)
    const first = guilty ?? found[0]
    if (first === undefined) return
    const part = found.slice(0, Math.max(1, Math.floor(first.together / parts)))
    const heads = (guilty === undefined ? part : [guilty]).flatMap(({ runId }) => suspects.get(runId)?.head ?? [])
    if (guilty !== undefined) {
      yield* Effect.forEach(heads, convict, { discard: true })
    } else {
      if (heads.length === 1) yield* about(heads[0], Effect.logWarning("a suspected task is tried alone"))
      yield* begin(heads)
      yield* pass(heads, mostLosses(part))
    }
    for (const { runId } of heads) suspects.delete(runId)
  })

  const about = (head: TaskHead | undefined, log: Effect.Effect<void>) =>
    Effect.annotateLogs(log, { taskId: head?.uuid ?? "" })

  const convict = (head: TaskHead) =>
    Effect.andThen(
      about(head, Effect.logError(`the task fails: ${fatalLosses} nodes crashed while it was tried alone`)),
      fail(head)
    )

  const forever = (step: Effect.Effect<void>) =>
    step.pipe(
      Effect.catchCause((cause) =>
        Effect.andThen(Effect.logWarning("a recovery step failed", cause), Effect.sleep(pace))
      ),
      Effect.forever,
      Effect.forkScoped
    )

  yield* Metrics.suspectedTasks.observe(() => suspects.size)
  // A clean shutdown leaves no suspects. The fibers have ended before this finalizer runs.
  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => endTrials([...stored.keys()])).pipe(Effect.timeout("2 seconds"), Effect.ignoreCause)
  )
  yield* forever(recover)
  yield* forever(retrySuspects)

  return {
    add,
    release: (isMine) =>
      Effect.suspend(() => {
        const gone = [...stored].flatMap(([runId, uuid]) => isMine(uuid) ? [] : [runId])
        for (const runId of gone) onTrial.delete(runId)
        return retryForever(endTrials(gone))
      })
  }
})
