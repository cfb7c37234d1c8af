/** The store of trials in Postgres. Every statement takes a whole batch. A node deletes only its own trials. */
import { Effect, Layer } from "effect"
import * as Limits from "../../domain/Limits.ts"
import { make as makeQueries, query } from "./Queries.ts"
import { LostTrial, RecoveryTrials } from "./RecoveryTrials.ts"

const lost = query(
  LostTrial,
  `SELECT run_id AS "runId", together AS "concurrentTrials", losses + 1 AS losses, losses_alone + (together = 1)::int AS "lossesAlone"
  FROM recovery_trials WHERE run_id = ANY($2::uuid[]) AND node <> $1::uuid`
)

/** Sorted, so that two nodes that begin trials of the same runs do not deadlock. */
const begin = `INSERT INTO recovery_trials AS t (run_id, node, together)
  SELECT run, $1::uuid, $3::int FROM unnest($2::uuid[]) AS run ORDER BY run
  ON CONFLICT (run_id) DO UPDATE SET node = excluded.node, together = excluded.together,
    losses = t.losses + (t.node <> excluded.node)::int,
    losses_alone = t.losses_alone + (t.node <> excluded.node AND t.together = 1)::int,
    began_at = statement_timestamp()`

const pass =
  `UPDATE recovery_trials SET together = 0, losses_alone = 0 WHERE run_id = ANY($2::uuid[]) AND node = $1::uuid`

const end = `DELETE FROM recovery_trials WHERE (run_id = ANY($2::uuid[]) AND node = $1::uuid)
  OR began_at < statement_timestamp() - make_interval(secs => ${Limits.maxExecutionTime})`

export const layer = Layer.effect(
  RecoveryTrials,
  Effect.map(makeQueries, ({ execute, rows }) =>
    RecoveryTrials.of({
      lost: (node, runs) => rows(lost, [node, runs]),
      begin: (node, runs, concurrentTrials) => execute(begin, [node, runs, concurrentTrials]),
      pass: (node, runs) => execute(pass, [node, runs]),
      end: (node, runs) => execute(end, [node, runs])
    }))
)
