/** What a bulk action selects: tasks by the filters of the search, or deliveries. Pages of keys are read newest first, behind a position. */
import { PgTypes } from "@effect/sql-pg"
import { Schema } from "effect"
import { Timestamp } from "../../domain/Timestamp.ts"
import { parseDeliveryId } from "../../domain/Webhook.ts"
import { array, countQuery, micros, moment, query } from "../store/sql/Queries.ts"
import { isLive, notEnded } from "../store/tasks/TaskColumns.ts"
import { idPattern } from "../store/tasks/TaskSearch.ts"
import { attemptError } from "../store/webhooks/WebhookStatements.ts"
import type { DeliverySelection, Selection, TaskSelection } from "./BulkSelection.ts"
import * as ErrorFingerprint from "./ErrorFingerprint.ts"
import { hasText } from "./OperatorStatements.ts"
import { errorLength, type Position, scannedRows } from "./OperatorStore.ts"

const { text, uuid, int4 } = PgTypes.OID

interface Part {
  /** Rows along one index, with `at` and `id`. */
  readonly rows: string
  /** What the index cannot tell. */
  readonly filter: ReadonlyArray<string>
  readonly order: string
  readonly id: string
  readonly values: ReadonlyArray<unknown>
}

/** Collects the values of parameters. */
const binder = () => {
  const values: Array<unknown> = []
  return { values, bind: (value: unknown) => `$${values.push(value)}` }
}

const shortError = `left(error, ${errorLength})`

const tasksOf = (selection: TaskSelection, after: Position | null): Part => {
  const { assistant, error, fingerprint, from, ids, labels, status, sub, text, to, which } = selection
  const { bind, values } = binder()
  const isOfFailures = status === "failed" || error !== null || fingerprint !== null
  // Failures of all users have an index by their end, and live tasks none by their creation.
  const at = ids === null && isOfFailures && sub === null && which !== "live" ? "completed_at" : "created_at"
  const rows = [
    ...(which === "live" ? [sub === null ? isLive : notEnded] : []),
    ...(isOfFailures ? ["status = 'failed'"] : status === null ? [] : [`status = ${bind(status)}::text`]),
    ...(sub === null ? [] : [`sub = ${bind(sub)}::text`]),
    ...(ids === null ? [] : [`uuid = ANY (${bind(array(ids, uuid))})`]),
    ...(from === null ? [] : [`${at} >= ${moment(bind(from))}`]),
    `${at} < ${moment(bind(to))}`,
    ...(after === null ? [] : [`(${at}, uuid) < (${moment(bind(after.at))}, ${bind(after.id)}::uuid)`])
  ]
  const filter = [
    ...(which === "ended" || which === "kept" ? [`completed_at < ${moment(bind(to))}`] : []),
    ...(which === "kept" ? ["EXISTS (SELECT FROM task_requests WHERE task_uuid = uuid)"] : []),
    ...(assistant === null ? [] : [`assistant_id = ${bind(assistant)}::float8::bigint`]),
    ...(error === null ? [] : [`strpos(lower(${shortError}), lower(${bind(error.slice(0, errorLength))}::text)) > 0`]),
    ...(fingerprint === null ? [] : [`${shortError} LIKE ${bind(ErrorFingerprint.patternOf(fingerprint))}::text`]),
    ...(text === null ? [] : [hasText(`${bind(text)}::text`, `${bind(idPattern(text))}::text`)]),
    ...(labels === null
      ? []
      : [
        `EXISTS (SELECT FROM task_metadata WHERE task_uuid = uuid AND metadata @> ${
          bind(JSON.stringify(labels))
        }::text::jsonb)`
      ])
  ]
  return {
    rows: `SELECT uuid, ${at} AS at, completed_at, assistant_id, error, sub FROM tasks WHERE ${rows.join(" AND ")}`,
    filter,
    order: "at DESC, uuid DESC",
    id: "uuid::text",
    values
  }
}

const isFailed = "d.due_at IS NULL AND d.delivered_at IS NULL"

const lastError = `(
  SELECT ${attemptError} FROM webhook_attempts a
  WHERE a.task_uuid = scanned.task_uuid AND a.revision = scanned.revision ORDER BY a.number DESC LIMIT 1)`

const deliveriesOf = (selection: DeliverySelection, after: Position | null): Part => {
  const { error, from, ids, origin, status, sub, to } = selection
  const { bind, values } = binder()
  const keys = ids?.flatMap((id) => parseDeliveryId(id) ?? [])
  const last = after === null ? undefined : parseDeliveryId(after.id)
  const rows = [
    ...(keys === undefined
      ? [isFailed]
      : [
        `(d.task_uuid, d.revision) IN (SELECT * FROM unnest(${bind(array(keys.map(({ taskId }) => taskId), uuid))}, ${
          bind(array(keys.map(({ revision }) => revision), int4))
        }))`
      ]),
    ...(origin === null ? [] : [`d.origin = ${bind(origin)}::text`]),
    ...(from === null ? [] : [`d.created_at >= ${moment(bind(from))}`]),
    `d.created_at < ${moment(bind(to))}`,
    ...(after === null || last === undefined
      ? []
      : [
        `(d.created_at, d.task_uuid, d.revision) < (${moment(bind(after.at))}, ${bind(last.taskId)}::uuid, ${
          bind(last.revision)
        }::int)`
      ])
  ]
  return {
    rows: `SELECT d.created_at AS at, d.task_uuid, d.revision, d.sub, d.status FROM webhook_deliveries d WHERE ${
      rows.join(" AND ")
    }`,
    filter: [
      ...(sub === null ? [] : [`sub = ${bind(sub)}::text`]),
      ...(status === null ? [] : [`status = ${bind(status)}::text`]),
      ...(error === null ? [] : [`${lastError} = ${bind(error)}::text`])
    ],
    order: "at DESC, task_uuid DESC, revision DESC",
    id: "concat(task_uuid, '-', revision)",
    values
  }
}

const partOf = (selection: Selection, after: Position | null) =>
  selection.of === "tasks" ? tasksOf(selection, after) : deliveriesOf(selection, after)

const Key = Schema.Struct({ at: Timestamp, id: Schema.String, isEdge: Schema.Boolean })

const whereOf = (filter: ReadonlyArray<string>) => filter.length === 0 ? "" : `WHERE ${filter.join(" AND ")}`

/** The position behind a page, and whether no key follows it. */
export const endOf = (found: ReadonlyArray<typeof Key.Type>, limit: number) => {
  const matches = found.filter(({ isEdge }) => !isEdge)
  const edge = found.find(({ isEdge }) => isEdge)
  const isFull = matches.length === limit
  const last = isFull ? matches.at(-1) : edge
  return {
    ids: matches.map(({ id }) => id),
    position: last === undefined ? null : { at: last.at, id: last.id },
    isLast: !isFull && edge === undefined
  }
}

/** The keys behind a position, and the last one that was examined, if there may be more. */
export const keys = (selection: Selection, after: Position | null, limit: number) => {
  const { filter, id, order, rows, values } = partOf(selection, after)
  const examined = filter.length === 0 ? limit : scannedRows
  return {
    query: query(
      Key,
      `WITH scanned AS (${rows} ORDER BY ${order} LIMIT ${examined})
      (SELECT ${micros("at")} AS at, ${id} AS id, false AS "isEdge" FROM scanned ${whereOf(filter)}
        ORDER BY ${order} LIMIT ${limit})
      UNION ALL
      (SELECT ${micros("at")}, ${id}, true FROM scanned ORDER BY ${order} OFFSET ${examined - 1})`
    ),
    values
  }
}

export const count = (selection: Selection) => {
  const { filter, rows, values } = partOf(selection, null)
  return { query: countQuery(`SELECT count(*)::int AS count FROM (${rows}) AS scanned ${whereOf(filter)}`), values }
}

export const textArray = (values: ReadonlyArray<string>) => array(values, text)
