/** All that is kept of one user: a summary without content, the limit of active tasks, and the export. */
import { PgTypes } from "@effect/sql-pg"
import { Context, Effect, Layer, Option, Schema, Stream } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { TaskId } from "../../domain/Task.ts"
import { format, now, Timestamp } from "../../domain/Timestamp.ts"
import { UserDataOfExtensions, type UserTable } from "../Extensions.ts"
import { Settings } from "../settings/Settings.ts"
import { array, make as makeQueries, micros, moment, query } from "../store/sql/Queries.ts"
import { notEnded } from "../store/tasks/TaskColumns.ts"
import * as UserTables from "../store/UserTables.ts"
import { userData as ofOperators } from "./OperatorTables.ts"
import { type Count, StoredBytesStore } from "./StoredBytes.ts"

const Summary = Schema.Struct({
  pending: Schema.Int,
  processing: Schema.Int,
  interrupted: Schema.Int,
  failures: Schema.Int,
  maxActiveTasks: Schema.NullOr(Schema.Int),
  revokedAt: Schema.NullOr(Timestamp),
  issuedBefore: Schema.NullOr(Timestamp)
})

export interface UserSummary extends Schema.Schema.Type<typeof Summary> {
  readonly sub: string
  /** The limit that holds. */
  readonly maximum: number
  readonly storedBytes: { readonly bytes: number; readonly tasks: number; readonly isComplete: boolean }
  /** Fields of extensions, as JSON. */
  readonly more: Readonly<Record<string, string>>
}

const countOf = (status: string) => `count(*) FILTER (WHERE status = '${status}')::int AS ${status}`

/** Tasks live for a day at most, so those that failed in a week were created in eight days. */
const summary = query(
  Summary,
  `SELECT live.*, (
      SELECT count(*)::int FROM tasks WHERE sub = $1::text AND status = 'failed'
        AND created_at > ${moment("$2")} - interval '8 days' AND completed_at > ${moment("$2")} - interval '7 days'
    ) AS failures,
    (SELECT max_active_tasks FROM user_limits WHERE sub = $1::text) AS "maxActiveTasks",
    (SELECT ${micros("revoked_at")} FROM token_revocations WHERE sub = $1::text) AS "revokedAt",
    (SELECT ${micros("issued_before")} FROM token_revocations WHERE sub = $1::text) AS "issuedBefore"
  FROM (
    SELECT ${countOf("pending")}, ${countOf("processing")}, ${countOf("interrupted")}
    FROM (SELECT status FROM tasks WHERE sub = $1::text AND ${notEnded} OFFSET 0) AS tasks
  ) AS live`
)

const setLimit = `INSERT INTO user_limits (sub, max_active_tasks) VALUES ($1::text, $2::int)
  ON CONFLICT (sub) DO UPDATE SET max_active_tasks = EXCLUDED.max_active_tasks`
const removeLimit = "DELETE FROM user_limits WHERE sub = $1::text"

/** Statements that count stored bytes in one request: of a user with more tasks, the newest are counted. */
const countings = 20

/** Tasks of one page, and bytes of those that are read together. */
const pageTasks = 200
const chunkBytes = 1024 * 1024
const pageRows = 500

/** Binds user, moment and id of the task before, and rows. */
const taskPage = query(
  Schema.Struct({ uuid: TaskId, at: Timestamp, bytes: Schema.Finite }),
  `SELECT uuid, ${micros("created_at")} AS at, (
      coalesce((SELECT octet_length(request) FROM task_requests WHERE task_uuid = uuid), 0)
      + coalesce((SELECT octet_length(turn) FROM task_turns WHERE task_uuid = uuid), 0)
      + coalesce(octet_length(pending_tool_calls), 0)
    )::float8 AS bytes
  FROM tasks WHERE sub = $1::text AND ($2::float8 IS NULL OR (created_at, uuid) < (${moment("$2")}, $3::uuid))
  ORDER BY created_at DESC, uuid DESC LIMIT $4::int`
)

const at = (column: string) => `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

/** Stored texts of JSON are put in as they are. No secret is read: of a callback only the address is. */
const taskLines = query(
  Schema.Struct({ uuid: TaskId, line: Schema.String }),
  `SELECT uuid, json_build_object(
    'type', 'task', 'uuid', uuid, 'status', status, 'error', error, 'assistant_id', assistant_id,
    'created_at', ${at("created_at")}, 'completed_at', ${at("completed_at")}, 'max_execution_time', max_execution_time,
    'callback_url', callback_url,
    'metadata', (SELECT metadata FROM task_metadata WHERE task_uuid = uuid),
    'request', (SELECT request::json FROM task_requests WHERE task_uuid = uuid),
    'turn', (SELECT turn::json FROM task_turns WHERE task_uuid = uuid),
    'pending_tool_calls', pending_tool_calls::json,
    'events', coalesce((SELECT json_agg(json_build_object(
        'revision', revision, 'type', type, 'status', e.status, 'occurred_at', ${
    at("occurred_at")
  }, 'by', split_part(actor, ':', 1)
      ) ORDER BY revision) FROM task_events e WHERE e.task_uuid = uuid), '[]'),
    'deliveries', coalesce((SELECT json_agg(json_build_object(
        'id', concat(d.task_uuid, '-', d.revision), 'status', d.status, 'url', d.url, 'created_at', ${
    at("d.created_at")
  },
        'delivered_at', ${at("d.delivered_at")},
        'attempts', (SELECT coalesce(json_agg(json_build_object(
            'number', number, 'started_at', ${
    at("started_at")
  }, 'duration_ms', duration_ms, 'response_status', response_status,
            'error', a.error
          ) ORDER BY number), '[]') FROM webhook_attempts a WHERE a.task_uuid = d.task_uuid AND a.revision = d.revision)
      ) ORDER BY d.revision) FROM webhook_deliveries d WHERE d.task_uuid = uuid), '[]')
  )::text AS line FROM tasks WHERE uuid = ANY ($1::uuid[])`
)

type Exported = UserTable & { readonly exported: NonNullable<UserTable["exported"]> }

const isExported = (table: UserTable): table is Exported => table.exported !== null

const RowLine = Schema.Struct({ key: Schema.Array(Schema.String), line: Schema.String })

/** The lines of a table. Binds the user and rows, then the key of the row before, if there is one. */
const rowLines = ({ exported: { fields, key, type }, isOfUser, table }: Exported, isFirst: boolean) => {
  const names = Object.keys(key)
  const pairs = Object.entries(fields).map(([name, sql]) => `'${name}', ${sql}`)
  const values = Object.values(key).map((type, index) => `$${index + 3}::text::${type}`)
  const after = isFirst ? "" : ` AND (${names.join(", ")}) > (${values.join(", ")})`
  return query(
    RowLine,
    `SELECT ARRAY[${names.map((name) => `${name}::text`).join(", ")}] AS key,
      json_build_object('type', '${type}', ${pairs.join(", ")})::text AS line
    FROM ${table} WHERE ${isOfUser}${after} ORDER BY ${names.join(", ")} LIMIT $2::int`
  )
}

type Lines<A> = Effect.Effect<A, StoreUnavailable>

export class UserRecords extends Context.Service<UserRecords, {
  readonly summary: (sub: string) => Lines<UserSummary>
  /** Null is the default again. */
  readonly setLimit: (sub: string, maxActiveTasks: number | null) => Lines<void>
  /** Lines of NDJSON. Pages are read by keys as they are taken, so that no snapshot stays open and little is in memory. */
  readonly exported: (sub: string) => Stream.Stream<string, StoreUnavailable>
}>()("async-task-service/services/operator/UserRecords") {
  static readonly layer = Layer.effect(UserRecords, Effect.suspend(() => make))
}

/** The newest moment that a position may have. */
const newest = null

const make = Effect.gen(function*() {
  const { execute, first, rows } = yield* makeQueries
  const storedBytes = yield* StoredBytesStore
  const { maxActiveTasks } = yield* Settings
  const data = [...(yield* UserDataOfExtensions), UserTables.userData, ofOperators]
  const exportedTables = data.flatMap(({ tables }) => tables).filter(isExported)
  const fields = data.flatMap(({ summary = {} }) => Object.entries(summary))
  const more = query(
    Schema.Record(Schema.String, Schema.NullOr(Schema.String)),
    `SELECT ${["'null'::text AS nothing", ...fields.map(([name, sql]) => `(${sql})::text AS "${name}"`)].join(", ")}`
  )

  const countBytes = Effect.fnUntraced(function*(sub: string) {
    let counts: ReadonlyArray<Pick<Count, "sub"> | Count> = [{ sub }]
    for (let statements = 0; statements < countings; statements++) {
      const [count] = yield* storedBytes.count(counts)
      if (count === undefined) break
      if (count.last === null) return { bytes: count.bytes, tasks: count.tasks, isComplete: true }
      counts = [count]
    }
    const [count] = counts
    return count !== undefined && "bytes" in count
      ? { bytes: count.bytes, tasks: count.tasks, isComplete: false }
      : { bytes: 0, tasks: 0, isComplete: true }
  })

  /** Tasks in pages of keys; those of a page that are small are read together. */
  const tasks = (sub: string) =>
    Stream.paginate<
      { readonly at: Timestamp; readonly uuid: TaskId } | null,
      ReadonlyArray<TaskId>,
      StoreUnavailable,
      never
    >(
      newest,
      Effect.fnUntraced(function*(after) {
        const found = yield* rows(taskPage, [sub, after?.at ?? null, after?.uuid ?? null, pageTasks])
        const chunks: Array<Array<TaskId>> = []
        let bytes = Infinity
        for (const task of found) {
          if (bytes + task.bytes > chunkBytes) {
            chunks.push([])
            bytes = 0
          }
          chunks.at(-1)?.push(task.uuid)
          bytes += task.bytes
        }
        return [chunks, found.length < pageTasks ? Option.none() : Option.fromUndefinedOr(found.at(-1))] as const
      })
    ).pipe(
      Stream.mapEffect((uuids) => rows(taskLines, [array(uuids, PgTypes.OID.uuid)])),
      Stream.flattenIterable,
      Stream.map(({ line }) => line)
    )

  const rowsOf = (sub: string, table: Exported) =>
    Stream.paginate<ReadonlyArray<string> | null, string, StoreUnavailable, never>(
      null,
      Effect.fnUntraced(function*(after) {
        const found = yield* rows(rowLines(table, after === null), [sub, pageRows, ...(after ?? [])])
        return [
          found.map(({ line }) => line),
          found.length < pageRows ? Option.none() : Option.fromUndefinedOr(found.at(-1)?.key)
        ] as const
      })
    )

  const line = (value: object) => Stream.succeed(JSON.stringify(value))

  return UserRecords.of({
    summary: Effect.fnUntraced(function*(sub) {
      const present = yield* now
      const found = Option.getOrThrow(yield* first(summary, [sub, present]))
      const { nothing: _, ...said } = (fields.length === 0 ? undefined : (yield* rows(more, [sub]))[0]) ?? {}
      return {
        ...found,
        sub,
        maximum: found.maxActiveTasks ?? maxActiveTasks,
        storedBytes: yield* countBytes(sub),
        more: Object.fromEntries(Object.entries(said).map(([name, json]) => [name, json ?? "null"]))
      }
    }),
    setLimit: (sub, maximum) => maximum === null ? execute(removeLimit, [sub]) : execute(setLimit, [sub, maximum]),
    exported: (sub) =>
      Stream.unwrap(Effect.map(now, (at) => {
        let count = 0
        const records = [tasks(sub), ...exportedTables.map((table) => rowsOf(sub, table))].reduce((one, other) =>
          Stream.concat(one, other)
        )
        return line({ type: "export", sub, at: format(at) }).pipe(
          Stream.concat(Stream.tap(records, () => Effect.sync(() => count++))),
          // Without it the export is not whole.
          Stream.concat(Stream.suspend(() => line({ type: "end", lines: count })))
        )
      }))
  })
})
