/** The store of trials in Postgres. Every statement takes a whole batch. A node deletes only its own trials. */
import { Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import * as Limits from "../../domain/Limits.ts"
import { RunId } from "../../domain/Task.ts"
import { RecoveryTrials } from "./RecoveryTrials.ts"

const decode = Schema.decodeUnknownEffect(Schema.Array(
  Schema.Struct({ runId: RunId, together: Schema.Int, losses: Schema.Int, lossesAlone: Schema.Int }).pipe(
    Schema.encodeKeys({ runId: "run_id", lossesAlone: "losses_alone" })
  )
))

export const layer = Layer.effect(
  RecoveryTrials,
  Effect.map(SqlClient.SqlClient, (sql) => {
    const run = (text: string, values: ReadonlyArray<unknown>) => sql.unsafe<object>(text, values)
    return RecoveryTrials.of({
      lost: (node, runs) =>
        run(
          `SELECT run_id, together, losses + 1 AS losses, losses_alone + (together = 1)::int AS losses_alone
          FROM recovery_trials WHERE run_id = ANY($2::uuid[]) AND node <> $1::uuid`,
          [node, runs]
        ).pipe(Effect.flatMap(decode), Effect.orDie),
      begin: (node, runs, together) =>
        run(
          // Sorted, so that two nodes that begin trials of the same runs do not deadlock.
          `INSERT INTO recovery_trials AS t (run_id, node, together)
          SELECT run, $1::uuid, $3::int FROM unnest($2::uuid[]) AS run ORDER BY run
          ON CONFLICT (run_id) DO UPDATE SET node = excluded.node, together = excluded.together,
            losses = t.losses + (t.node <> excluded.node)::int,
            losses_alone = t.losses_alone + (t.node <> excluded.node AND t.together = 1)::int,
            began_at = statement_timestamp()`,
          [node, runs, together]
        ).pipe(Effect.asVoid, Effect.orDie),
      pass: (runs) =>
        run(`UPDATE recovery_trials SET together = 0, losses_alone = 0 WHERE run_id = ANY($1::uuid[])`, [runs])
          .pipe(Effect.asVoid, Effect.orDie),
      end: (node, runs) =>
        run(
          `DELETE FROM recovery_trials WHERE (run_id = ANY($2::uuid[]) AND node = $1::uuid)
            OR began_at < statement_timestamp() - make_interval(secs => ${Limits.maxExecutionTime})`,
          [node, runs]
        ).pipe(Effect.asVoid, Effect.orDie)
    })
  })
)
