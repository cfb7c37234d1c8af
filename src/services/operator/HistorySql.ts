/** The history in Postgres: one row for each name and minute. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { array, deletionQuery, make as makeQueries, moment, query } from "../store/sql/Queries.ts"
import { History, historyNames, Point } from "./History.ts"

const add = `INSERT INTO history AS old (name, minute, value)
  SELECT name, date_trunc('minute', ${
  moment("$1")
}, 'UTC'), value FROM unnest($2::text[], $3::float8[]) AS new (name, value)
  ON CONFLICT (name, minute) DO UPDATE SET value = CASE WHEN old.name = 'late_ms_max'
    THEN greatest(old.value, excluded.value) ELSE old.value + excluded.value END`

const series = query(
  Point,
  `SELECT name, floor(extract(epoch FROM minute - ${moment("$1")}) / $2::int)::int AS period,
    CASE WHEN name = 'late_ms_max' THEN max(value) ELSE sum(value) END::float8 AS value
  FROM history WHERE name = ANY($4::text[]) AND minute >= ${moment("$1")}
    AND minute < ${moment("$1")} + make_interval(secs => $2::int * $3::int)
  GROUP BY 1, 2`
)

const deleteExpired = deletionQuery("history", `name = ANY(@names::text[]) AND minute < ${moment("@before")}`)

const { float8, text } = PgTypes.OID
/** Names bound as a list let a condition on the minute use the primary key. */
const names = array(historyNames, text)

export const layer = Layer.effect(
  History,
  Effect.map(makeQueries, ({ count, execute, rows }) =>
    History.of({
      // Sorted, so that two nodes lock the rows in one order.
      add: (at, counts) => {
        const sorted = Object.entries(counts).toSorted(([one], [other]) => one < other ? -1 : 1)
        return execute(add, [
          at,
          array(sorted.map(([name]) => name), text),
          array(sorted.map(([, value]) => value), float8)
        ])
      },
      series: (from, step, periods) => rows(series, [from, step, periods, names]),
      deleteExpired: (at, limit) => count(deleteExpired, { before: at, limit, names })
    }))
)
