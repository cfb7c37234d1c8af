/** Every store of tasks and of webhooks in Postgres. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import type { RunId } from "../../../domain/Task.ts"
import { plus } from "../../../domain/Timestamp.ts"
import * as ScanFloor from "../../timing/ScanFloor.ts"
import { PendingWork } from "../PendingWork.ts"
import * as RunQueueSql from "../queue/RunQueueSql.ts"
import * as Batcher from "../sql/Batcher.ts"
import { array, hidden, make as makeQueries, micros, moment, query } from "../sql/Queries.ts"
import * as WebhookStoreSql from "../webhooks/WebhookStoreSql.ts"
import { PendingStop, StopOutbox } from "./StopOutbox.ts"
import * as TaskReadsSql from "./TaskReadsSql.ts"
import * as TaskRetentionSql from "./TaskRetentionSql.ts"
import * as TaskScansSql from "./TaskScansSql.ts"
import * as TaskWritesSql from "./TaskWritesSql.ts"

const { uuid } = PgTypes.OID

const claimStops = query(
  PendingStop,
  `UPDATE core_stops SET attempts = attempts + 1, due_at = ${moment("$2")}
  WHERE run_id IN (
    SELECT run_id FROM core_stops WHERE due_at <= ${moment("$1")} AND due_at >= ${moment("$4")}
    ORDER BY due_at LIMIT $3::int FOR UPDATE SKIP LOCKED
  ) RETURNING run_id AS "runId", task_uuid AS "taskId", reason, attempts AS attempt,
    (SELECT ${micros("completed_at")} FROM tasks WHERE uuid = task_uuid) AS "endedAt"`
)

const deleteStops = `DELETE FROM core_stops USING unnest(${hidden("$1::uuid[]")}) AS done (id) WHERE run_id = done.id`

const layerStops = Layer.effect(
  StopOutbox,
  Effect.gen(function*() {
    const { execute, rows } = yield* makeQueries
    const pendingWork = yield* PendingWork
    pendingWork.add("stops", (soon) => [`FROM core_stops WHERE due_at <= ${soon}`])
    // Thousands of runs may have to be stopped in one moment: their answers come together.
    const record = yield* Batcher.make({
      run: (runIds: ReadonlyArray<RunId>) =>
        Effect.as(
          execute(deleteStops, [array(runIds, uuid)]),
          runIds.map(() => undefined)
        ),
      lockOf: (runId) => runId
    })
    return StopOutbox.of({
      claim: (at, lease, limit, from = ScanFloor.lowest) => rows(claimStops, [at, plus(at, lease), limit, from]),
      record,
      postpone: (runId, until) =>
        execute(`UPDATE core_stops SET due_at = ${moment("$2")} WHERE run_id = $1`, [runId, until])
    })
  })
)

export const layer = Layer.mergeAll(
  TaskWritesSql.layer,
  TaskReadsSql.layer,
  TaskScansSql.layer,
  TaskRetentionSql.layer,
  layerStops,
  RunQueueSql.layer,
  WebhookStoreSql.layer
)
