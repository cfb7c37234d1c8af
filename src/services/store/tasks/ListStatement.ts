/**
 * The statements of a list, newest first. Each reads `created_at` and `uuid` of the matching tasks from an index alone, and rows only
 * for its page. The first statement examines a bounded number of tasks; the others begin at a key and run alone on a connection.
 */
import { Schema } from "effect"
import { activeStatuses, TaskSummary } from "../../../domain/Task.ts"
import { Timestamp } from "../../../domain/Timestamp.ts"
import { micros, moment, query } from "../sql/Queries.ts"
import { notEnded, summaryColumns } from "./TaskColumns.ts"
import type { Chosen, TaskFilter } from "./TaskStore.ts"

/** Tasks that the first statement examines, and matches between two marks. */
export const step = 10_000
/** Maximum matches that are counted. */
const maximum = 1000 * step

/** Identifies a pair of one user's metadata. Its 128 bits of SHA-256 make the rows of `task_labels` narrow. */
export const labelOf = (sub: string, key: string, value: string) =>
  `encode(substring(sha256(convert_to(jsonb_build_array(${sub}, ${key}, ${value})::text, 'UTF8')) FROM 1 FOR 16), 'hex')::uuid`

const order = "created_at DESC, uuid DESC"

interface Source {
  /** Common table expressions, each with its comma. */
  readonly prepared: string
  /** All rows that are read along the index. */
  readonly rows: string
  /** Those of them that match. */
  readonly isMatch: string
}

const statusMatches = "(@statuses::text[] IS NULL OR status = ANY (@statuses::text[]))"

const allTasks: Source = {
  prepared: "",
  rows: "SELECT created_at, uuid, status FROM tasks WHERE sub = @sub",
  isMatch: statusMatches
}

/** The conditions of `Chosen`. The row of a task is only read for its assistant. */
const isInRange = `created_at >= coalesce(${moment("@from")}, '-infinity') AND created_at < coalesce(${
  moment("@to")
}, 'infinity')`
const isOfAssistant = `(@assistantId::float8 IS NULL OR (SELECT assistant_id FROM tasks
      WHERE sub = @sub AND tasks.created_at = every.created_at AND tasks.uuid = every.uuid) = @assistantId::float8)`

const chosenTasks: Source = {
  prepared: "",
  rows: `${allTasks.rows} AND ${isInRange}`,
  isMatch: `${statusMatches} AND ${isOfAssistant}`
}

/** Has an index of its own. `OFFSET` hides the order, which would make the planner read the index of all tasks. */
const activeTasks: Source = {
  prepared: "",
  rows: `SELECT * FROM (SELECT created_at, uuid, status FROM tasks WHERE sub = @sub AND ${notEnded} OFFSET 0) AS live`,
  isMatch: statusMatches
}

/**
 * Reads along the pair that the fewest tasks have, and probes the other conditions for each of them. They are subqueries without a
 * join, because the planner cannot know how many tasks have a pair.
 */
const labels = `labels AS MATERIALIZED (
    SELECT ${labelOf("@sub::text", "key", "value")} AS label FROM jsonb_each_text(@metadata::jsonb)
  )`
const hasAllLabels = `(SELECT count(*) FROM task_labels other
      WHERE other.label = ANY (ARRAY(SELECT label FROM labels))
        AND other.created_at = every.created_at AND other.task_uuid = every.uuid) = (SELECT count(*) FROM labels)`
const labeledTasks: Source = {
  prepared: `${labels}, rarest AS MATERIALIZED (
    SELECT label FROM labels ORDER BY (
      SELECT count(*) FROM (SELECT FROM task_labels counted WHERE counted.label = labels.label LIMIT ${step}) AS few
    ) LIMIT 1
  ),`,
  rows: "SELECT created_at, task_uuid AS uuid FROM task_labels WHERE label = (SELECT label FROM rarest)"
    + ` AND ${isInRange}`,
  isMatch: `(
    NOT EXISTS (SELECT FROM labels OFFSET 1) OR ${hasAllLabels}
  ) AND (
    @statuses::text[] IS NULL OR (SELECT status FROM tasks
      WHERE sub = @sub AND tasks.created_at = every.created_at AND tasks.uuid = every.uuid) = ANY (@statuses::text[])
  ) AND ${isOfAssistant}`
}

/** A bounded number of tasks, by their ids. */
const givenTasks: Source = {
  prepared: `${labels},`,
  rows: `SELECT created_at, uuid, status FROM tasks WHERE sub = @sub AND uuid = ANY (@uuids::uuid[]) AND ${isInRange}`,
  isMatch: `${statusMatches} AND ${hasAllLabels} AND ${isOfAssistant}`
}

const pageOf = (keys: string) =>
  `SELECT ${summaryColumns} FROM tasks WHERE uuid = ANY (ARRAY(SELECT uuid FROM ${keys}))`

const counts = { total: Schema.Finite, examined: Schema.Finite }
/** On an empty page the only row has the counts and no task. */
const FirstRow = Schema.Union([
  Schema.Struct({ ...TaskSummary.fields, ...counts }),
  Schema.Struct({ uuid: Schema.Null, ...counts })
])

/** Binds page size and offset. All tasks of the user were examined if `examined` is at most `step`. */
const first = ({ isMatch, prepared, rows }: Source) =>
  query(
    FirstRow,
    `WITH ${prepared} every AS MATERIALIZED (${rows} ORDER BY ${order} LIMIT ${step + 1}),
    found AS (SELECT created_at, uuid FROM every WHERE ${isMatch})
    SELECT counted.*, page.* FROM (
      SELECT (SELECT count(*) FROM found)::float8 AS total, (SELECT count(*) FROM every)::float8 AS examined
    ) AS counted LEFT JOIN (
      ${pageOf(`found ORDER BY ${order} LIMIT @limit::int OFFSET @offset::bigint`)}
    ) AS page ON true
    ORDER BY page."createdAt" DESC, page.uuid DESC`
  )

const foundOf = ({ isMatch, rows }: Source) =>
  `(SELECT created_at, uuid FROM (${rows}) AS every WHERE ${isMatch}) AS found`

/** The key of a match and the number of matches before it. */
const Mark = Schema.Struct({ position: Schema.Int, at: Timestamp, uuid: Schema.String, rest: Schema.Int })
export type Mark = typeof Mark.Type

/** Every match whose position is a multiple of `step`. `rest` of the last one counts the matches from there. */
const marks = (source: Source) => {
  const found = foundOf(source)
  return query(
    Mark,
    `WITH RECURSIVE ${source.prepared} marks AS (
      (SELECT 0 AS position, created_at, uuid FROM ${found} ORDER BY ${order} LIMIT 1)
      UNION ALL
      SELECT position + ${step}, next.created_at, next.uuid FROM marks CROSS JOIN LATERAL (
        SELECT created_at, uuid FROM ${found} WHERE (found.created_at, found.uuid) < (marks.created_at, marks.uuid)
        ORDER BY ${order} LIMIT 1 OFFSET ${step - 1}
      ) AS next WHERE position < ${maximum - step}
    )
    SELECT position, ${micros("created_at")} AS at, uuid, CASE WHEN position = (SELECT max(position) FROM marks) THEN (
      SELECT count(*) FROM (
        SELECT FROM ${found} WHERE (found.created_at, found.uuid) <= (marks.created_at, marks.uuid) LIMIT ${step}
      ) AS last
    ) ELSE 0 END::int AS rest FROM marks ORDER BY position`
  )
}

/** Binds a key; counts the matches before it. */
const newer = (source: Source) =>
  query(
    Schema.Struct({ count: Schema.Int }),
    `WITH ${source.prepared} newer AS (
      SELECT FROM ${foundOf(source)} WHERE (found.created_at, found.uuid) > (${moment("@at")}, @uuid::uuid)
      LIMIT ${step + 1}
    ) SELECT count(*)::int AS count FROM newer`
  )

/** Binds page size, offset, and the key from which the offset counts. */
const page = (source: Source) =>
  query(
    TaskSummary,
    `WITH ${source.prepared} page AS (${
      pageOf(`${foundOf(source)} WHERE (found.created_at, found.uuid) <= (${moment("@at")}, @uuid::uuid)
      ORDER BY ${order} LIMIT @limit::int OFFSET @offset::bigint`)
    }) SELECT * FROM page ORDER BY "createdAt" DESC, uuid DESC`
  )

const statementsOf = (source: Source) => ({
  first: first(source),
  marks: marks(source),
  newer: newer(source),
  page: page(source)
})

const all = statementsOf(allTasks)
const active = statementsOf(activeTasks)
const chosen = statementsOf(chosenTasks)
const labeled = statementsOf(labeledTasks)
const given = statementsOf(givenTasks)

export const statements = { all, active, chosen, labeled }

/** The tasks of a list, whatever its page. */
export type Matches = Chosen & Pick<TaskFilter, "sub" | "statuses" | "uuids"> & {
  readonly metadata: TaskFilter["metadata"] | null
}

const isActive = (statuses: TaskFilter["statuses"]) =>
  statuses.length > 0 && statuses.every((status) => activeStatuses.some((active) => active === status))

const isChosen = ({ assistantId, from, to }: Chosen) => assistantId !== null || from !== null || to !== null

export const of = (list: Matches) =>
  list.uuids ? given : list.metadata ? labeled : isChosen(list) ? chosen : isActive(list.statuses) ? active : all

/** The values of the parameters that every statement may have. */
export const bind = ({ assistantId, from, metadata, statuses, sub, to, uuids }: Matches) => ({
  sub,
  statuses: statuses.length === 0 ? null : `{${statuses.join(",")}}`,
  metadata: JSON.stringify(metadata ?? {}),
  assistantId,
  from,
  to,
  uuids: uuids ? `{${uuids.join(",")}}` : null
})
