/**
 * The recovery trials of this node. A run on trial is stored before its dispatch and passes when the event loop stays
 * responsive for a while. If the node crashes instead, the stored trial makes the run a suspect on the next node.
 */
import { Duration, Effect } from "effect"
import { SecureRandom } from "effect/crypto"
import * as Backoff from "../../domain/Backoff.ts"
import type { RunId, TaskHead, TaskId } from "../../domain/Task.ts"
import { type LostTrial, RecoveryTrials } from "../store/RecoveryTrials.ts"
import { retryForever } from "../timing/Retry.ts"

/** The node must stay responsive for this long after a dispatch. It doubles with every loss of the run. */
const shortestTrial = Duration.millis(500)
const longestTrial = Duration.seconds(32)
/** Timeout of a batch. Dispatches without a response by then continue while the next batch starts. */
const answerTimeout = Duration.seconds(10)
/** A crash more than this long after a trial does not count as a loss of the run. */
const stableTime = Duration.minutes(2)

/** Stored as `together`, instead of 1, when the node survived the first half of the trial of a single run. */
const unproven = 2

/** Completes after several turns of the event loop. A single timer would also fire after a block of its own length. */
const stayResponsive = (duration: Duration.Duration) =>
  Effect.repeat(Effect.sleep(Duration.divideUnsafe(duration, 2)), { times: 1 })

const runIds = (heads: ReadonlyArray<TaskHead>) => heads.map(({ runId }) => runId)

/** `offer` dispatches a run, and completes after the first attempt. */
export const make = Effect.fnUntraced(function*(offer: (head: TaskHead) => Effect.Effect<void>) {
  const store = yield* RecoveryTrials
  const scope = yield* Effect.scope
  const node = yield* (yield* SecureRandom.SecureRandom).uuidV4()
  const onTrial = new Set<RunId>()
  /** The trials that this node has stored. */
  const stored = new Map<RunId, TaskId>()

  const end = (runs: ReadonlyArray<RunId>) =>
    Effect.suspend(() => {
      for (const runId of runs) stored.delete(runId)
      return runs.length === 0 ? Effect.void : store.end(node, runs)
    })

  // A clean shutdown leaves no suspects. The fibers that begin trials have ended before this finalizer runs.
  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => end([...stored.keys()])).pipe(Effect.timeout("2 seconds"), Effect.ignoreCause)
  )

  return {
    isBusy: () => onTrial.size > 0,
    /** The lost trials of runs, by run. */
    lost: (runs: ReadonlyArray<RunId>): Effect.Effect<ReadonlyMap<RunId, LostTrial>> =>
      Effect.map(retryForever(store.lost(node, runs)), (found) => new Map(found.map((trial) => [trial.runId, trial]))),
    /** Puts runs on trial and dispatches them. */
    begin: Effect.fnUntraced(function*(heads: ReadonlyArray<TaskHead>) {
      // A run that was alone on trial no longer is.
      const alreadyOnTrial = onTrial.size === 1 ? [...onTrial] : []
      for (const { runId, uuid } of heads) {
        onTrial.add(runId)
        stored.set(runId, uuid)
      }
      yield* retryForever(store.begin(node, [...new Set([...alreadyOnTrial, ...runIds(heads)])], onTrial.size))
      yield* Effect.timeoutOption(
        Effect.forEach(heads, offer, { concurrency: "unbounded", discard: true }),
        answerTimeout
      )
    }),
    /** Waits for the period of a trial, which grows with `losses`, and marks the runs as passed. */
    pass: Effect.fnUntraced(function*(heads: ReadonlyArray<TaskHead>, losses: number) {
      const half = Duration.divideUnsafe(Backoff.delayAfter(losses, shortestTrial, longestTrial), 2)
      yield* stayResponsive(half)
      // A crash from now on still makes the run a suspect, but does not count as a loss alone.
      const alone = heads.filter(({ runId }) => onTrial.has(runId) && onTrial.size === 1)
      if (alone.length > 0) yield* retryForever(store.begin(node, runIds(alone), unproven))
      yield* stayResponsive(half)
      for (const { runId } of heads) onTrial.delete(runId)
      yield* retryForever(store.pass(node, runIds(heads)))
      const endLater = Effect.suspend(() => retryForever(end(runIds(heads).filter((run) => !onTrial.has(run)))))
      yield* Effect.forkIn(Effect.delay(endLater, stableTime), scope)
    }),
    /** Ends the trials of tasks that another node owns now. */
    release: (isMine: (id: TaskId) => boolean) =>
      Effect.suspend(() => {
        const gone = [...stored].flatMap(([runId, uuid]) => isMine(uuid) ? [] : [runId])
        for (const runId of gone) onTrial.delete(runId)
        return retryForever(end(gone))
      })
  }
})
