/**
 * The keys of the rows that a search or a bulk action selects, newest first, behind a position. They are read along one index; filters that the index lacks
 * apply to the rows that were examined. The last of them is returned as well, when there may be more.
 */
import { PgTypes } from "@effect/sql-pg"
import { Schema } from "effect"
import { Timestamp } from "../../domain/Timestamp.ts"
import { parseDeliveryId } from "../../domain/Webhook.ts"
import { array, countQuery, micros, moment, query } from "../store/sql/Queries.ts"
import { isLive, notEnded } from "../store/tasks/TaskColumns.ts"
import { idPattern } from "../store/tasks/TaskSearch.ts"
import { attemptError, state as stateOf } from "../store/webhooks/WebhookStatements.ts"
import * as ErrorFingerprint from "./ErrorFingerprint.ts"
import { errorLength, type Position, scannedRows } from "./OperatorStore.ts"
import { type DeliverySelection, orderOf, type Selection, type TaskSelection } from "./Selection.ts"

const { int4, uuid } = PgTypes.OID

interface Part {
  /** Rows along one index, with `at` and the columns of the filter. */
  readonly rows: string
  /** Conditions that the index cannot answer. */
  readonly filter: ReadonlyArray<string>
  readonly order: string
  readonly id: string
  readonly values: Array<unknown>
}

/** Collects the values of parameters. */
const binder = () => {
  const values: Array<unknown> = []
  return { values, bind: (value: unknown) => `$${values.push(value)}` }
}

const shortError = `left(error, ${errorLength})`

/** The rows in which a text is found, or a pattern of ids. */
const hasText = (text: string, pattern: string) =>
  `(uuid::text LIKE ${pattern} OR strpos(lower(sub), lower(${text})) > 0
  OR strpos(lower(error), lower(${text})) > 0 OR EXISTS (
    SELECT FROM task_metadata, jsonb_each_text(metadata) AS pair (key, value)
    WHERE task_uuid = uuid AND strpos(lower(concat(key, ': ', value)), lower(${text})) > 0
  ))`

const tasksOf = (selection: TaskSelection, after: Position | null): Part => {
  const { assistant, error, fingerprint, from, ids, labels, status, sub, text, to, which } = selection
  const { bind, values } = binder()
  const order = orderOf(selection)
  const at = order === "failed" ? "completed_at" : "created_at"
  const isRanged = (at: string) => [
    ...(from === null ? [] : [`${at} >= ${moment(bind(from))}`]),
    `${at} < ${moment(bind(to))}`
  ]
  const rows = [
    ...(order === "live" ? [isLive] : isRanged(at)),
    ...(order === "failed" ? ["status = 'failed'"] : []),
    ...(order === "created" && which === "live" ? [notEnded] : []),
    ...(sub === null ? [] : [`sub = ${bind(sub)}::text`]),
    ...(ids === null ? [] : [`uuid = ANY (${bind(array(ids, uuid))})`]),
    ...(after === null
      ? []
      : order === "live"
      ? [`uuid < ${bind(after.id)}::uuid`]
      : [`(${at}, uuid) < (${moment(bind(after.at))}, ${bind(after.id)}::uuid)`])
  ]
  const readsError = error !== null || fingerprint !== null || text !== null
  const isEnded = which === "ended" || which === "kept"
  const filter = [
    ...(order === "live" ? isRanged("at") : []),
    ...(status === null || order === "failed" ? [] : [`status = ${bind(status)}::text`]),
    ...(isEnded ? [`completed_at < ${moment(bind(to))}`] : []),
    ...(which === "kept" ? ["EXISTS (SELECT FROM task_requests WHERE task_uuid = uuid)"] : []),
    ...(assistant === null ? [] : [`assistant_id = ${bind(assistant)}::float8::bigint`]),
    ...(error === null ? [] : [`strpos(lower(error), lower(${bind(error.slice(0, errorLength))}::text)) > 0`]),
    ...(fingerprint === null ? [] : [`error LIKE ${bind(ErrorFingerprint.patternOf(fingerprint))}::text`]),
    ...(text === null ? [] : [hasText(`${bind(text)}::text`, `${bind(idPattern(text))}::text`)]),
    ...(labels === null
      ? []
      : [
        `EXISTS (SELECT FROM task_metadata WHERE task_uuid = uuid AND metadata @> ${
          bind(JSON.stringify(labels))
        }::text::jsonb)`
      ])
  ]
  // An index has all columns of a search that reads no others.
  const columns = [
    `uuid, ${at} AS at, status`,
    ...(isEnded ? ["completed_at"] : []),
    ...(assistant === null ? [] : ["assistant_id"]),
    ...(readsError ? [`${shortError} AS error, sub`] : [])
  ]
  return {
    rows: `SELECT ${columns.join(", ")} FROM tasks WHERE ${rows.join(" AND ")}`,
    filter,
    order: order === "live" ? "uuid DESC" : "at DESC, uuid DESC",
    id: "uuid::text",
    values
  }
}

const isFailed = "d.due_at IS NULL AND d.delivered_at IS NULL"

const lastError = `(
  SELECT ${attemptError} FROM webhook_attempts a
  WHERE a.task_uuid = d.task_uuid AND a.revision = d.revision ORDER BY a.number DESC LIMIT 1)`

const deliveriesOf = (selection: DeliverySelection, after: Position | null): Part => {
  const { error, from, ids, origin, state, status, sub, to } = selection
  const { bind, values } = binder()
  const keys = ids?.flatMap((id) => parseDeliveryId(id) ?? [])
  const last = after === null ? undefined : parseDeliveryId(after.id)
  const rows = [
    ...(state === "failed" ? [isFailed] : []),
    ...(keys === undefined
      ? []
      : [
        `(d.task_uuid, d.revision) IN (SELECT * FROM unnest(${bind(array(keys.map(({ taskId }) => taskId), uuid))}, ${
          bind(array(keys.map(({ revision }) => revision), int4))
        }))`
      ]),
    ...(origin === null ? [] : [`d.origin = ${bind(origin)}::text`]),
    ...(from === null ? [] : [`d.created_at >= ${moment(bind(from))}`]),
    `d.created_at < ${moment(bind(to))}`,
    // Implied by the next condition, and the part that an index on the moment alone can use.
    ...(after === null ? [] : [`d.created_at <= ${moment(bind(after.at))}`]),
    ...(after === null || last === undefined
      ? []
      : [
        `(d.created_at, d.task_uuid, d.revision) < (${moment(bind(after.at))}, ${bind(last.taskId)}::uuid, ${
          bind(last.revision)
        }::int)`
      ])
  ]
  const columns = [
    "d.created_at AS at, d.task_uuid, d.revision, d.sub, d.status",
    ...(state === null ? [] : [`${stateOf} AS state`]),
    ...(error === null ? [] : [`${lastError} AS error`])
  ]
  return {
    rows: `SELECT ${columns.join(", ")} FROM webhook_deliveries d WHERE ${rows.join(" AND ")}`,
    filter: [
      ...(sub === null ? [] : [`sub = ${bind(sub)}::text`]),
      ...(status === null ? [] : [`status = ${bind(status)}::text`]),
      ...(state === null || state === "failed" ? [] : [`state = ${bind(state)}::text`]),
      ...(error === null ? [] : [`error = ${bind(error)}::text`])
    ],
    order: "at DESC, task_uuid DESC, revision DESC",
    id: "concat(task_uuid, '-', revision)",
    values
  }
}

const partOf = (selection: Selection, after: Position | null) =>
  selection.of === "tasks" ? tasksOf(selection, after) : deliveriesOf(selection, after)

const whereOf = (filter: ReadonlyArray<string>) => filter.length === 0 ? "" : `WHERE ${filter.join(" AND ")}`

const Key = Schema.Struct({ at: Timestamp, id: Schema.String, isEdge: Schema.Boolean })

/** At most `limit` keys behind a position, and the last one that was examined, if there may be more. */
export const keys = (selection: Selection, after: Position | null, limit: number) => {
  const { filter, id, order, rows, values } = partOf(selection, after)
  const bind = (value: number) => `$${values.push(value)}::int`
  const [returned, examined] = [bind(limit), bind(filter.length === 0 ? limit : scannedRows)]
  return {
    query: query(
      Key,
      `WITH scanned AS (${rows} ORDER BY ${order} LIMIT ${examined})
      (SELECT ${micros("at")} AS at, ${id} AS id, false AS "isEdge" FROM scanned ${whereOf(filter)}
        ORDER BY ${order} LIMIT ${returned})
      UNION ALL
      (SELECT ${micros("at")}, ${id}, true FROM scanned ORDER BY ${order} OFFSET ${examined} - 1)`
    ),
    values
  }
}

export const count = (selection: Selection) => {
  const { filter, rows, values } = partOf(selection, null)
  return { query: countQuery(`SELECT count(*)::int AS count FROM (${rows}) AS scanned ${whereOf(filter)}`), values }
}
