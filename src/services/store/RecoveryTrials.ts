/**
 * The store of trials. A run that is dispatched again after its node crashed is on trial until the new node has stayed
 * responsive for a while. The trial is stored before the dispatch, so that the next node knows which runs were on trial
 * when this one crashed. Only recovery writes here; a run that is never recovered has no row.
 */
import { Context, type Effect, Schema } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { RunId } from "../../domain/Task.ts"

/** A trial that another node began and did not end. */
export const LostTrial = Schema.Struct({
  runId: RunId,
  /** The number of runs on trial at the same time, this one included: 1 when it was alone, 0 when it had passed. */
  concurrentTrials: Schema.Int,
  /** The number of nodes that crashed during a trial of this run, or within two minutes after one. */
  losses: Schema.Int,
  /** The number of nodes that crashed with nothing else on trial, since the run last passed. */
  lossesAlone: Schema.Int
})
export type LostTrial = typeof LostTrial.Type

export class RecoveryTrials extends Context.Service<RecoveryTrials, {
  /** Trials of these runs that nodes other than `node` began and did not end. */
  readonly lost: (node: string, runs: ReadonlyArray<RunId>) => Effect.Effect<ReadonlyArray<LostTrial>, StoreUnavailable>
  /** Stores that `node` has these runs on trial, of `concurrentTrials` in total. */
  readonly begin: (
    node: string,
    runs: ReadonlyArray<RunId>,
    concurrentTrials: number
  ) => Effect.Effect<void, StoreUnavailable>
  /** Records that `node` stayed responsive with its trials of these runs. A later crash does not make them suspects. */
  readonly pass: (node: string, runs: ReadonlyArray<RunId>) => Effect.Effect<void, StoreUnavailable>
  /** Deletes trials of `node`, and those of any node that are too old to matter. */
  readonly end: (node: string, runs: ReadonlyArray<RunId>) => Effect.Effect<void, StoreUnavailable>
}>()("async-task-service/services/store/RecoveryTrials") {}
