/** The store of legs in Postgres. */
import { PgTypes } from "@effect/sql-pg"
import { Array as Arr, Effect, Layer, Option, Schema } from "effect"
import { TaskId } from "../../domain/Task.ts"
import type { UserData } from "../Extensions.ts"
import type { Tables } from "../store/schema/Migrations.ts"
import { array, countQuery, make as makeQueries, micros, moment, query } from "../store/sql/Queries.ts"
import { FacadeLegs, FoundLeg } from "./FacadeLegs.ts"

/** The name in the ledger is that of the first façade. */
export const tables: Tables = {
  name: "openai",
  migrations: [[
    `CREATE TABLE facade_legs (
      task_uuid uuid NOT NULL REFERENCES tasks ON DELETE CASCADE,
      leg integer NOT NULL,
      request text NOT NULL,
      output text,
      usage text,
      created_at timestamptz NOT NULL,
      is_stored boolean NOT NULL DEFAULT true,
      PRIMARY KEY (task_uuid, leg)
    )`,
    `CREATE INDEX facade_legs_unstored ON facade_legs (task_uuid) WHERE NOT is_stored`
  ]]
}

export const userData: UserData = {
  tables: [],
  others: { facade_legs: "request and turn of the task in the form of a protocol; the rows go with the task" }
}

/** Does nothing when the task is deleted meanwhile. */
const addLeg = `INSERT INTO facade_legs (task_uuid, leg, request, created_at, is_stored)
  SELECT uuid, $2::int, $3::text, ${moment("$4")}, $5::boolean FROM tasks WHERE uuid = $1::uuid FOR KEY SHARE
  ON CONFLICT DO NOTHING`

const freezeLeg =
  `UPDATE facade_legs SET output = $3::text, usage = $4::text WHERE task_uuid = $1::uuid AND leg = $2::int`

const findLeg = query(
  FoundLeg,
  `WITH answered AS (
    SELECT count(*)::int AS count, coalesce(max(revision), -1) AS revision
    FROM task_events WHERE task_uuid = $1::uuid AND type = 'ToolResultsSubmitted'
  )
  SELECT leg, request, output, usage, ${micros("created_at")} AS "createdAt", (
    SELECT b.usage FROM facade_legs b WHERE b.task_uuid = $1::uuid AND b.leg < $2::int AND b.usage IS NOT NULL
    ORDER BY b.leg DESC LIMIT 1
  ) AS "usageBefore", answered.count AS current, (
    SELECT min(e.revision)::int FROM task_events e JOIN tasks t ON t.uuid = e.task_uuid
    WHERE e.task_uuid = $1::uuid AND e.revision > answered.revision AND (
      e.type IN ('Progressed', 'Completed')
      OR e.type IN ('Interrupted', 'Failed') AND e.revision = t.turn_revision
      OR e.type = 'Interrupted' AND t.turn_revision IS NULL
    )
  ) AS "turnSince"
  FROM facade_legs CROSS JOIN answered
  WHERE task_uuid = $1::uuid AND leg <= $2::int ORDER BY leg DESC LIMIT 1`
)

const findUnstored = query(
  Schema.Struct({ uuid: TaskId }),
  `SELECT uuid FROM facade_legs JOIN tasks ON uuid = task_uuid
  WHERE NOT is_stored AND completed_at <= ${moment("$1")}
    AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.task_uuid = uuid AND due_at IS NOT NULL)
  LIMIT $2::int`
)

const countAnswers = countQuery(
  `SELECT counted.count FROM unnest($1::uuid[], $2::int4[]) WITH ORDINALITY AS change (uuid, revision, position)
  CROSS JOIN LATERAL (
    SELECT count(*)::int AS count FROM task_events e
    WHERE e.task_uuid = change.uuid AND e.type = 'ToolResultsSubmitted' AND e.revision < change.revision
  ) counted ORDER BY position`
)

export const layer = Layer.effect(
  FacadeLegs,
  Effect.map(makeQueries, ({ execute, first, rows }) =>
    FacadeLegs.of({
      add: ({ createdAt, isStored, leg, request, taskId }) =>
        execute(addLeg, [taskId, leg, request, createdAt, isStored]),
      unstored: (before, limit) => Effect.map(rows(findUnstored, [before, limit]), Arr.map(({ uuid }) => uuid)),
      freeze: (taskId, leg, output, usage) =>
        execute(freezeLeg, [taskId, leg, output, usage === null ? null : JSON.stringify(usage)]),
      endedBy: (changes) =>
        Effect.map(
          rows(countAnswers, [
            array(changes.map(({ uuid }) => uuid), PgTypes.OID.uuid),
            array(changes.map(({ revision }) => revision), PgTypes.OID.int4)
          ]),
          Arr.map(({ count }) => count)
        ),
      find: (taskId, leg) => Effect.map(first(findLeg, [taskId, leg]), Option.getOrUndefined)
    }))
)
