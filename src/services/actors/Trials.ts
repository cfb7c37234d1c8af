/**
 * The recovery trials of this node. A run on trial is stored before its dispatch and passes when the event loop stays
 * responsive for a while after it. If the node crashes instead, the stored trial makes the run a suspect on the next node.
 */
import { Duration, Effect, Fiber, Option, Semaphore } from "effect"
import { SecureRandom } from "effect/crypto"
import * as Backoff from "../../domain/Backoff.ts"
import type { RunId, TaskHead, TaskId } from "../../domain/Task.ts"
import { type LostTrial, RecoveryTrials } from "../store/RecoveryTrials.ts"
import { retryForever } from "../timing/Retry.ts"

/** The node must stay responsive for this long after a dispatch. It doubles with every loss of the run. */
const shortestTrial = Duration.millis(400)
const longestTrial = Duration.seconds(64)
/** The duration of a trial of runs of which one had that many losses. */
export const periodAfter = (losses: number) => Backoff.delayAfter(losses, shortestTrial, longestTrial)
/** After this time the attempted runs of a batch pass. The others stay on trial until their first attempt. */
const answerTimeout = Duration.seconds(10)
/** A crash more than this long after a trial does not count as a loss of the run. */
const stableTime = Duration.minutes(2)

/** Stored as the number of concurrent trials, instead of 1, when the node survived the first half of the trial of a single run. */
const unproven = 2

/** Sleeps twice for half the time, because after a block of the event loop a single timer would be due at once. */
const stayResponsive = (duration: Duration.Duration) =>
  Effect.repeat(Effect.sleep(Duration.divideUnsafe(duration, 2)), { times: 1 })

const runIds = (heads: ReadonlyArray<TaskHead>) => heads.map(({ runId }) => runId)

/** A batch on trial, whose runs are being dispatched. */
export interface Trial {
  readonly heads: ReadonlyArray<TaskHead>
  /** The runs whose first attempt is over. */
  readonly attempted: ReadonlySet<RunId>
  /** Ends when all first attempts are over. */
  readonly dispatches: Fiber.Fiber<void>
}

interface Options {
  /** Dispatches a run, and completes after the first attempt. */
  readonly dispatch: (head: TaskHead) => Effect.Effect<void>
  /** Whether this node still has to dispatch the run. */
  readonly isWanted: (head: TaskHead) => boolean
}

/** The trials that this node has stored. A clean shutdown ends them, and so leaves no suspects. */
const makeStored = Effect.gen(function*() {
  const store = yield* RecoveryTrials
  const node = yield* (yield* SecureRandom.SecureRandom).uuidV4()
  const tasks = new Map<RunId, TaskId>()
  /** One statement at a time, because a delayed one would restore an older state. */
  const mutex = Semaphore.makeUnsafe(1)

  const end = (runs: ReadonlyArray<RunId>) =>
    Effect.suspend(() => {
      for (const runId of runs) tasks.delete(runId)
      return runs.length === 0 ? Effect.void : store.end(node, runs)
    })
  // The fibers that begin trials have ended before this finalizer runs.
  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => end([...tasks.keys()])).pipe(Effect.timeout("2 seconds"), Effect.ignoreCause)
  )

  return {
    tasks,
    begin: (runs: () => ReadonlyArray<RunId>, concurrentTrials: () => number) =>
      mutex.withPermit(retryForever(Effect.suspend(() => store.begin(node, runs(), concurrentTrials())))),
    pass: (runs: ReadonlyArray<RunId>) => retryForever(store.pass(node, runs)),
    end: (runs: ReadonlyArray<RunId>) => retryForever(end(runs)),
    lost: (runs: ReadonlyArray<RunId>) => retryForever(store.lost(node, runs))
  }
})

export const make = Effect.fnUntraced(function*({ dispatch, isWanted }: Options) {
  const scope = yield* Effect.scope
  const stored = yield* makeStored
  const onTrial = new Set<RunId>()

  /** Waits for the period of a trial, which grows with `losses`, and marks the runs as passed. */
  const pass = Effect.fnUntraced(function*(heads: ReadonlyArray<TaskHead>, losses: number) {
    const half = Duration.divideUnsafe(periodAfter(losses), 2)
    yield* stayResponsive(half)
    // A crash from now on still makes the run a suspect, but does not count as a loss alone.
    const alone = heads.filter(({ runId }) => onTrial.has(runId) && onTrial.size === 1)
    if (alone.length > 0) yield* stored.begin(() => runIds(alone), () => unproven)
    yield* stayResponsive(half)
    for (const { runId } of heads) onTrial.delete(runId)
    yield* stored.pass(runIds(heads))
    const endLater = Effect.suspend(() => stored.end(runIds(heads).filter((run) => !onTrial.has(run))))
    yield* Effect.forkIn(Effect.delay(endLater, stableTime), scope)
  })

  return {
    isBusy: () => onTrial.size > 0,
    /** The lost trials of runs, by run. */
    lost: (runs: ReadonlyArray<RunId>): Effect.Effect<ReadonlyMap<RunId, LostTrial>> =>
      Effect.map(stored.lost(runs), (found) => new Map(found.map((trial) => [trial.runId, trial]))),
    /** Puts runs on trial and starts their dispatch. */
    begin: Effect.fnUntraced(function*(heads: ReadonlyArray<TaskHead>): Effect.fn.Return<Trial> {
      // A run that was alone on trial no longer is.
      const alreadyOnTrial = onTrial.size === 1 ? [...onTrial] : []
      for (const { runId, uuid } of heads) {
        onTrial.add(runId)
        stored.tasks.set(runId, uuid)
      }
      const runs = [...new Set([...alreadyOnTrial, ...runIds(heads)])]
      yield* stored.begin(() => runs.filter((run) => onTrial.has(run)), () => onTrial.size)
      const attempted = new Set<RunId>()
      const dispatchOne = (head: TaskHead) =>
        Effect.andThen(dispatch(head), Effect.sync(() => attempted.add(head.runId)))
      const dispatches = yield* Effect.forkIn(
        Effect.forEach(heads, dispatchOne, { concurrency: "unbounded", discard: true }),
        scope,
        { startImmediately: true }
      )
      return { heads, attempted, dispatches }
    }),
    /** Marks each run as passed after its first attempt and the period of the trial, which grows with `losses`. */
    finish: Effect.fnUntraced(function*({ attempted, dispatches, heads }: Trial, losses: number) {
      const isPending = ({ runId }: TaskHead) => !attempted.has(runId) && onTrial.has(runId)
      let left = heads
      while (left.length > 0) {
        const ended = yield* Effect.timeoutOption(Fiber.await(dispatches), answerTimeout)
        const { over = [], pending = [] } = Object.groupBy(
          left,
          (head) => Option.isNone(ended) && isPending(head) && isWanted(head) ? "pending" : "over"
        )
        if (over.length > 0) yield* pass(over, losses)
        left = pending
      }
    }),
    /** Ends the trials of tasks that another node owns now. */
    release: (isMine: (id: TaskId) => boolean) =>
      Effect.suspend(() => {
        const gone = [...stored.tasks].flatMap(([runId, uuid]) => isMine(uuid) ? [] : [runId])
        for (const runId of gone) onTrial.delete(runId)
        return stored.end(gone)
      })
  }
})
