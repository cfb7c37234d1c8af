/**
 * Signs of life of the built-in core's runs, which the core promises to the service: a run that has nothing to report sends a progress
 * event without a turn. One loop serves all runs, so that a run costs no fiber and a short one nothing.
 */
import { Duration, Effect } from "effect"
import { SecureRandom } from "effect/crypto"
import type { CoreEvent } from "../../../domain/CoreProtocol.ts"
import * as Worker from "../../../services/timing/Worker.ts"

/** The seconds for which a run is silent at most, as the core declares. */
export const silenceSeconds = 60

/** A run that reported nothing between two ticks gives a sign: after 10 to 20 s. */
const tick = Duration.seconds(10)
/** Signs that are reported at a time. */
const concurrency = 16

interface Options<R, E> {
  /** Returns whether the service still wants the run. */
  readonly report: (run: R, eventId: string) => Effect.Effect<boolean, E>
  readonly isRunning: (runId: string) => boolean
  /** The service no longer wants the run. */
  readonly stop: (runId: string) => Effect.Effect<void>
}

export interface SignsOfLife<R> {
  /** The service has accepted an event of the run. */
  readonly note: (run: R, type: CoreEvent["type"]) => void
}

export const make = Effect.fnUntraced(
  function*<R extends { readonly run_id: string }, E>({ isRunning, report, stop }: Options<R, E>) {
    const random = yield* SecureRandom.SecureRandom
    /** The runs that the service knows to be processing, with their ticks since the last event. */
    const quiet = new Map<string, { readonly run: R; ticks: number }>()

    const note: SignsOfLife<R>["note"] = (run, type) => {
      const known = quiet.get(run.run_id)
      if (type !== "processing" && type !== "progress") quiet.delete(run.run_id)
      else if (known === undefined) quiet.set(run.run_id, { run, ticks: 0 })
      else known.ticks = 0
    }

    const takeDue = () => {
      const due: Array<R> = []
      for (const [runId, entry] of quiet) {
        if (!isRunning(runId)) quiet.delete(runId)
        else if (++entry.ticks > 1) due.push(entry.run)
      }
      return due
    }

    /** A sign that does not reach the service is followed by another one at the next tick. */
    const give = (run: R) =>
      Effect.flatMap(random.uuidV4(), (eventId) => report(run, eventId)).pipe(
        Effect.flatMap((isWanted) => isWanted ? Effect.sync(() => note(run, "progress")) : stop(run.run_id)),
        Effect.ignore
      )

    yield* Worker.make({
      name: "the signs of life of runs",
      runOnce: Effect.suspend(() => Effect.forEach(takeDue(), give, { concurrency, discard: true })),
      interval: tick,
      isDelayed: true
    })
    const signs: SignsOfLife<R> = { note }
    return signs
  }
)
