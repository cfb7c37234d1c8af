/**
 * The store of trials. A run that is offered to the core again after its node went away is on trial until the new node has
 * stayed responsive for a while. The trial is stored before the offer, so the next node knows what was on trial when this
 * one went away. Only recovery writes here; a run that is never recovered has no row.
 */
import { Context, type Effect } from "effect"
import type { RunId } from "../../domain/Task.ts"

/** A trial that another node began and did not end. */
export interface LostTrial {
  readonly runId: RunId
  /** How many runs were on trial with it, itself included: 1 when it was alone, 0 when it had passed. */
  readonly together: number
  /** How many nodes were lost after they had begun a trial of this run. */
  readonly losses: number
  /** How many nodes were lost with nothing else on trial, since the run last passed. */
  readonly lossesAlone: number
}

export class RecoveryTrials extends Context.Service<RecoveryTrials, {
  /** Trials of these runs that nodes other than `node` began and did not end. */
  readonly lost: (node: string, runs: ReadonlyArray<RunId>) => Effect.Effect<ReadonlyArray<LostTrial>>
  /** Stores that `node` has these runs on trial, `together` runs in all. */
  readonly begin: (node: string, runs: ReadonlyArray<RunId>, together: number) => Effect.Effect<void>
  /** A node, whichever, stayed responsive with the runs: if it goes away later, none of them is suspected for it. */
  readonly pass: (runs: ReadonlyArray<RunId>) => Effect.Effect<void>
  /** Deletes trials of `node`, and those of any node that are too old to matter. */
  readonly end: (node: string, runs: ReadonlyArray<RunId>) => Effect.Effect<void>
}>()("async-task-service/services/store/RecoveryTrials") {}
