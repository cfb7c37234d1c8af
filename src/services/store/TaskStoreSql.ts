/** Every store of tasks and of webhooks in Postgres. */
import { Effect, Layer, Option } from "effect"
import { plus } from "../../domain/Timestamp.ts"
import { FacadeLegs, FoundLeg, turnEvents } from "./FacadeLegs.ts"
import { make as makeQueries, micros, moment, query } from "./Queries.ts"
import { PendingStop, StopOutbox } from "./StopOutbox.ts"
import * as TaskReadsSql from "./TaskReadsSql.ts"
import * as TaskRetentionSql from "./TaskRetentionSql.ts"
import * as TaskScansSql from "./TaskScansSql.ts"
import * as TaskWritesSql from "./TaskWritesSql.ts"
import * as WebhookStoreSql from "./WebhookStoreSql.ts"

const claimStops = query(
  PendingStop,
  `UPDATE core_stops SET attempts = attempts + 1, due_at = ${moment("$2")}
  WHERE run_id IN (
    SELECT run_id FROM core_stops WHERE due_at <= ${moment("$1")}
    ORDER BY due_at LIMIT $3::int FOR UPDATE SKIP LOCKED
  ) RETURNING run_id AS "runId", task_uuid AS "taskId", reason, attempts AS attempt,
    (SELECT ${micros("completed_at")} FROM tasks WHERE uuid = task_uuid) AS "endedAt"`
)

const layerStops = Layer.effect(
  StopOutbox,
  Effect.map(makeQueries, ({ execute, rows }) =>
    StopOutbox.of({
      claim: (at, lease, limit) => rows(claimStops, [at, plus(at, lease), limit]),
      record: (runId) => execute(`DELETE FROM core_stops WHERE run_id = $1`, [runId]),
      postpone: (runId, until) =>
        execute(`UPDATE core_stops SET due_at = ${moment("$2")} WHERE run_id = $1`, [runId, until])
    }))
)

const addLeg = `INSERT INTO facade_legs (task_uuid, leg, request, created_at)
  VALUES ($1::uuid, $2::int, $3::text, ${moment("$4")}) ON CONFLICT DO NOTHING`

const freezeLeg = `UPDATE facade_legs SET output = $3::text WHERE task_uuid = $1::uuid AND leg = $2::int`

const findLeg = query(
  FoundLeg,
  `WITH progress AS (
    SELECT count(*) FILTER (WHERE type = 'ToolResultsSubmitted')::int AS current,
      coalesce(max(revision) FILTER (WHERE type IN (${turnEvents.map((type) => `'${type}'`).join(", ")})), -1)
        > coalesce(max(revision) FILTER (WHERE type = 'ToolResultsSubmitted'), -1) AS "hasTurn"
    FROM task_events WHERE task_uuid = $1::uuid
  )
  SELECT leg, request, output, ${micros("created_at")} AS "createdAt", current, "hasTurn"
  FROM facade_legs CROSS JOIN progress
  WHERE task_uuid = $1::uuid AND leg <= $2::int ORDER BY leg DESC LIMIT 1`
)

const layerLegs = Layer.effect(
  FacadeLegs,
  Effect.map(makeQueries, ({ execute, first }) =>
    FacadeLegs.of({
      add: ({ createdAt, leg, request, taskId }) => execute(addLeg, [taskId, leg, request, createdAt]),
      freeze: (taskId, leg, output) => execute(freezeLeg, [taskId, leg, output]),
      find: (taskId, leg) => Effect.map(first(findLeg, [taskId, leg]), Option.getOrUndefined)
    }))
)

export const layer = Layer.mergeAll(
  TaskWritesSql.layer,
  TaskReadsSql.layer,
  TaskScansSql.layer,
  TaskRetentionSql.layer,
  layerStops,
  layerLegs,
  WebhookStoreSql.layer
)
