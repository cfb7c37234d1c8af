/** The store of legs in Postgres. */
import { Effect, Layer, Option } from "effect"
import { FacadeLegs, FoundLeg, turnEvents } from "./FacadeLegs.ts"
import { make as makeQueries, micros, moment, query } from "./Queries.ts"

const add = `INSERT INTO facade_legs (task_uuid, leg, request, created_at)
  VALUES ($1::uuid, $2::int, $3::text, ${moment("$4")}) ON CONFLICT DO NOTHING`

const freeze = `UPDATE facade_legs SET output = $3::text WHERE task_uuid = $1::uuid AND leg = $2::int`

const find = query(
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

export const layer = Layer.effect(
  FacadeLegs,
  Effect.map(makeQueries, ({ execute, first }) =>
    FacadeLegs.of({
      add: ({ createdAt, leg, request, taskId }) => execute(add, [taskId, leg, request, createdAt]),
      freeze: (taskId, leg, output) => execute(freeze, [taskId, leg, output]),
      find: (taskId, leg) => Effect.map(first(find, [taskId, leg]), Option.getOrUndefined)
    }))
)
