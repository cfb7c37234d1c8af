/** The store of trials in memory: for tests under TestClock. */
import { Effect, Layer } from "effect"
import type { RunId } from "../../domain/Task.ts"
import { type LostTrial, RecoveryTrials } from "./RecoveryTrials.ts"

type Row = Omit<LostTrial, "runId"> & { readonly node: string }

/** The losses of a trial, counting the node that began it as lost. */
const lossesOf = ({ losses, lossesAlone, concurrentTrials }: Row) => ({
  losses: losses + 1,
  lossesAlone: lossesAlone + (concurrentTrials === 1 ? 1 : 0)
})

export const layer = Layer.sync(RecoveryTrials, () => {
  const rows = new Map<RunId, Row>()
  return RecoveryTrials.of({
    lost: (node, runs) =>
      Effect.sync(() =>
        runs.flatMap((runId) => {
          const row = rows.get(runId)
          return row === undefined || row.node === node
            ? []
            : [{ runId, concurrentTrials: row.concurrentTrials, ...lossesOf(row) }]
        })
      ),
    begin: (node, runs, concurrentTrials) =>
      Effect.sync(() => {
        for (const runId of runs) {
          const row = rows.get(runId)
          const { losses, lossesAlone } = row === undefined
            ? { losses: 0, lossesAlone: 0 }
            : row.node === node
            ? row
            : lossesOf(row)
          rows.set(runId, { node, concurrentTrials, losses, lossesAlone })
        }
      }),
    pass: (node, runs) =>
      Effect.sync(() => {
        for (const runId of runs) {
          const row = rows.get(runId)
          if (row?.node === node) rows.set(runId, { ...row, concurrentTrials: 0, lossesAlone: 0 })
        }
      }),
    end: (node, runs) =>
      Effect.sync(() => {
        for (const runId of runs) if (rows.get(runId)?.node === node) rows.delete(runId)
      })
  })
})
