/** Webhook endpoints in Postgres; see `EndpointTables` and `EndpointClaim`. */
import { PgTypes } from "@effect/sql-pg"
import { Duration, Effect, Layer, Option, Schema, Struct } from "effect"
import { SqlClient } from "effect/sql"
import { OpaqueJson, toText } from "../../domain/json/OpaqueJson.ts"
import { TaskId, TaskStatus } from "../../domain/Task.ts"
import { Timestamp } from "../../domain/Timestamp.ts"
import { originOf } from "../../domain/Webhook.ts"
import { PendingWork } from "../store/PendingWork.ts"
import {
  array,
  countQuery,
  failWhenUnavailable,
  make as makeQueries,
  micros,
  moment,
  query
} from "../store/sql/Queries.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"
import { attempts, Definition, Endpoint, limits, LoggedDelivery, SealedSecrets } from "./Endpoint.ts"
import * as EndpointClaim from "./EndpointClaim.ts"
import { type EndpointDelivery, EndpointsStore, type Health } from "./EndpointsStore.ts"

const { int8, text } = PgTypes.OID

const EndpointRow = Schema.Struct({
  ...Endpoint.fields,
  events: Schema.fromJsonString(Endpoint.fields.events),
  assistantIds: Schema.NullOr(Schema.fromJsonString(Schema.Array(Schema.Int))),
  metadata: Schema.NullOr(Schema.fromJsonString(Schema.Array(Schema.Tuple([Schema.String, Schema.String]))))
})

/** Pairs as arrays, because an object would have texts of operators as its keys. */
const columns = `w.id, w.url, w.description, array_to_json(w.events)::text AS events,
  array_to_json(w.assistant_ids)::text AS "assistantIds", CASE WHEN w.metadata IS NOT NULL THEN (
    SELECT coalesce(json_agg(json_build_array(key, value)), '[]') FROM jsonb_each_text(w.metadata)
  )::text END AS metadata, w.format, w.secret, w.old_secret AS "oldSecret", ${
  micros("w.old_secret_until")
} AS "oldSecretUntil", ${micros("w.disabled_at")} AS "disabledAt", w.disabled_reason AS "disabledReason",
  ${micros("w.failing_since")} AS "failingSince", ${micros("w.succeeded_at")} AS "succeededAt",
  ${micros("w.created_at")} AS "createdAt", ${micros("w.updated_at")} AS "updatedAt"`

const endpointOf = ({ metadata, ...row }: typeof EndpointRow.Type): Endpoint => ({
  ...row,
  metadata: metadata === null ? null : Object.fromEntries(metadata)
})

/** The columns of the fields that an operator decides, with the type of their parameter. */
const definitionColumns = {
  url: ["url", "text"],
  origin: ["origin", "text"],
  description: ["description", "text"],
  events: ["events", "text[]"],
  assistantIds: ["assistant_ids", "bigint[]"],
  metadata: ["metadata", "text::jsonb"],
  format: ["format", "text"],
  secret: ["secret", "text"],
  oldSecret: ["old_secret", "text"],
  oldSecretUntil: ["old_secret_until", "float8"]
} as const

const valueOf = (column: string, placeholder: string, type: string) =>
  column === "old_secret_until" ? moment(placeholder) : `${placeholder}::${type}`

type Columns = { readonly [Name in keyof typeof definitionColumns]?: unknown }

const valuesOf = (given: Partial<Definition & SealedSecrets>): Columns => ({
  ...given,
  ...(given.url === undefined ? {} : { origin: given.url === null ? null : originOf(given.url) }),
  ...(given.events === undefined ? {} : { events: array(given.events, text) }),
  ...(given.assistantIds ? { assistantIds: array(given.assistantIds.map(BigInt), int8) } : {}),
  ...(given.metadata ? { metadata: JSON.stringify(given.metadata) } : {})
})

const fields = Struct.keys(definitionColumns)

const lock = `SELECT pg_advisory_xact_lock(hashtextextended('async-task-service:endpoints', 0))`
const insert = `INSERT INTO webhook_endpoints (
    id, ${
  fields.map((field) => definitionColumns[field][0]).join(", ")
}, disabled_at, disabled_reason, created_at, updated_at
  )
  SELECT $1, ${
  fields.map((field, index) => valueOf(definitionColumns[field][0], `$${index + 5}`, definitionColumns[field][1]))
    .join(", ")
}, ${moment("$2")}, $3, ${moment("$4")}, ${moment("$4")}
  WHERE (SELECT count(*) FROM webhook_endpoints) < ${limits.endpoints} RETURNING id`

const list = query(
  EndpointRow,
  `SELECT ${columns} FROM webhook_endpoints w
  WHERE $1::float8 IS NULL OR (w.created_at, w.id) < (${moment("$1")}, $2::text)
  ORDER BY w.created_at DESC, w.id DESC LIMIT $3::int`
)
const get = query(EndpointRow, `SELECT ${columns} FROM webhook_endpoints w WHERE w.id = $1`)

const pendingOf = (endpoint: string) => `d.endpoint_id = ${endpoint} AND d.due_at IS NOT NULL`

/** Binds id, moment and what becomes of it: `kept`, `enabled` or the reason why it is disabled. An enabled endpoint is not failing. */
const updateOf = (changed: ReadonlyArray<keyof typeof definitionColumns>) =>
  query(
    EndpointRow,
    `UPDATE webhook_endpoints w SET updated_at = ${moment("$2")},
      disabled_at = CASE $3::text WHEN 'kept' THEN w.disabled_at WHEN 'enabled' THEN NULL
        ELSE coalesce(w.disabled_at, ${moment("$2")}) END,
      disabled_reason = CASE $3 WHEN 'kept' THEN w.disabled_reason WHEN 'enabled' THEN NULL
        ELSE coalesce(w.disabled_reason, $3) END,
      failing_since = CASE WHEN $3 <> 'enabled' THEN w.failing_since END${
      changed.map((field, index) => {
        const [column, type] = definitionColumns[field]
        return `, ${column} = ${valueOf(column, `$${index + 4}`, type)}`
      }).join("")
    } WHERE w.id = $1 RETURNING ${columns}`
  )

const rowsBy = (condition: string, limit: string) =>
  `SELECT d.ctid FROM webhook_endpoint_deliveries d WHERE ${condition} LIMIT ${limit} FOR UPDATE SKIP LOCKED`

const dropPending = countQuery(
  `WITH dropped AS (
    UPDATE webhook_endpoint_deliveries SET due_at = NULL, dropped = 'too_old' WHERE ctid = ANY (ARRAY(
      ${rowsBy(`${pendingOf("$1")} AND NOT d.sending AND d.created_at < ${moment("$2")}`, "$3::int")}
    )) RETURNING 1
  ) SELECT count(*)::int AS count FROM dropped`
)

const resume = countQuery(
  `WITH resumed AS (
    UPDATE webhook_endpoint_deliveries SET due_at = ${moment("$2")}, attempts_before = attempts,
      attempts_allowed = attempts + ${attempts}
    WHERE ctid = ANY (ARRAY(
      ${
    rowsBy(
      `d.endpoint_id = $1 AND d.created_at >= ${moment("$3")} AND d.created_at <= ${moment("$2")} AND NOT d.sending
        AND (d.due_at > ${moment("$2")} OR (d.due_at IS NULL AND d.delivered_at IS NULL AND d.dropped IS NULL))`,
      "$4::int"
    )
  }
    )) RETURNING 1
  ) SELECT count(*)::int AS count FROM resumed`
)

const remove = countQuery(
  `WITH removed AS (
    DELETE FROM webhook_endpoints WHERE id = $1 RETURNING id
  ), left_over AS (
    INSERT INTO webhook_endpoint_removals (id) SELECT id FROM removed ON CONFLICT DO NOTHING
  ) SELECT count(*)::int AS count FROM removed`
)

const replaceSecret = `UPDATE webhook_endpoints SET secret = CASE WHEN secret = $1 THEN $2 ELSE secret END,
    old_secret = CASE WHEN old_secret = $1 THEN $2 ELSE old_secret END
  WHERE secret = $1 OR old_secret = $1`

const DeliveryRow = Schema.Struct({
  ...LoggedDelivery.fields,
  attempts: Schema.fromJsonString(LoggedDelivery.fields.attempts),
  attempt: Schema.Int,
  startedAt: Schema.NullOr(Timestamp),
  isSending: Schema.Boolean
})

/** An attempt without an outcome is in flight, or lost. */
const deliveryOf = ({ attempt, isSending, startedAt, ...row }: typeof DeliveryRow.Type): LoggedDelivery => ({
  ...row,
  attempts: startedAt === null || row.attempts.some(({ number }) => number === attempt) ? row.attempts : [
    ...row.attempts,
    { number: attempt, startedAt, duration: null, responseStatus: null, error: isSending ? null : "lost" }
  ]
})

const state = `CASE WHEN d.due_at IS NOT NULL THEN 'pending' WHEN d.delivered_at IS NOT NULL THEN 'delivered'
  ELSE 'failed' END`

const deliveries = (where: string) =>
  query(
    DeliveryRow,
    `SELECT d.endpoint_id AS "endpointId", d.task_uuid AS "taskId", d.revision, d.status, ${state} AS state, d.dropped,
      ${micros("d.created_at")} AS "createdAt", CASE WHEN NOT d.sending THEN ${
      micros("d.due_at")
    } END AS "nextAttemptAt",
      coalesce(d.log, '[]')::text AS attempts, d.attempts AS attempt, ${micros("d.started_at")} AS "startedAt",
      d.sending AS "isSending"
    FROM webhook_endpoint_deliveries d WHERE d.endpoint_id = $1 AND ${where}`
  )

const page = deliveries(
  `($2::text IS NULL OR ${state} = $2) AND ($3::float8 IS NULL
    OR (d.created_at, d.task_uuid, d.revision) < (${moment("$3")}, $4::uuid, $5::int))
  ORDER BY d.created_at DESC, d.task_uuid DESC, d.revision DESC LIMIT $6::int`
)
const ofKey = "d.task_uuid = $2::uuid AND d.revision = $3::int"
const delivery = deliveries(ofKey)

const hasBody = `EXISTS (SELECT FROM webhook_endpoint_bodies b
  WHERE b.task_uuid = d.task_uuid AND b.revision = d.revision AND b.format = d.format)`

const redeliver = countQuery(
  `WITH found AS (
    UPDATE webhook_endpoint_deliveries d SET
      attempts_allowed = CASE WHEN d.due_at IS NULL OR d.sending
        THEN greatest(d.attempts + 1, CASE WHEN d.sending THEN d.attempts_allowed END) ELSE d.attempts_allowed END,
      due_at = CASE WHEN d.sending THEN d.due_at ELSE least(d.due_at, ${moment("$4")}) END, dropped = NULL
    WHERE d.endpoint_id = $1 AND ${ofKey} AND ${hasBody} RETURNING 1
  ) SELECT count(*)::int AS count FROM found`
)

const replayed = `d.endpoint_id = $1 AND d.created_at >= ${moment("$2")} AND d.created_at <= ${moment("$3")}
  AND d.due_at IS NULL AND (NOT $4::boolean OR d.delivered_at IS NULL)`

/** What is left is counted before. */
const replay = query(
  Schema.Struct({ enqueued: Schema.Int, matched: Schema.Int }),
  `WITH found AS (
    SELECT d.ctid, row_number() OVER (ORDER BY d.created_at, d.task_uuid, d.revision) AS turn
    FROM webhook_endpoint_deliveries d WHERE ${replayed} AND ${hasBody}
    ORDER BY d.created_at, d.task_uuid, d.revision LIMIT $6::int
  ), enqueued AS (
    UPDATE webhook_endpoint_deliveries d SET dropped = NULL, attempts_before = d.attempts,
      attempts_allowed = d.attempts + ${attempts},
      due_at = ${moment("$5")} + (found.turn - 1) * interval '${Duration.toMillis(limits.replayPause)} milliseconds'
    FROM found WHERE d.ctid = found.ctid AND d.due_at IS NULL RETURNING 1
  ) SELECT (SELECT count(*)::int FROM enqueued) AS enqueued, (
    SELECT count(*)::int FROM (
      SELECT FROM webhook_endpoint_deliveries d WHERE ${replayed} AND ${hasBody} LIMIT 100000
    ) AS matched
  ) AS matched`
)

const addSample = `WITH body AS (
    INSERT INTO webhook_endpoint_bodies (task_uuid, revision, format, created_at, bytes, body)
    VALUES ($2::uuid, $3::int, $4, ${moment("$5")}, octet_length($6::text), $6::text)
  )
  INSERT INTO webhook_endpoint_deliveries (
    endpoint_id, task_uuid, revision, status, format, created_at, due_at, attempts, attempts_allowed, started_at,
    delivered_at, log
  )
  VALUES ($1, $2::uuid, $3::int, $7, $4, ${moment("$5")}, CASE WHEN $8::text IS NULL THEN ${moment("$5")} END,
    CASE WHEN $8::text IS NULL THEN 0 ELSE 1 END, 1, ${moment("$9")}, ${moment("$10")}, $8::text::jsonb)`

/** Bytes of the bodies that are read together, beyond the first. */
const readBytes = 4 * 1024 * 1024
const readRows = 100

/**
 * Positions are given by readers one after another, so that they become visible in their order: one that was given later has a higher number,
 * whatever the order in which changes were committed.
 */
const place = `WITH endpoint AS MATERIALIZED (
    SELECT w.id, w.last_position FROM webhook_endpoints w WHERE w.id = $1 AND EXISTS (
      SELECT FROM webhook_endpoint_deliveries d WHERE ${pendingOf("$1")}
    ) FOR NO KEY UPDATE
  ), found AS (
    SELECT d.ctid, e.last_position + row_number() OVER (ORDER BY d.due_at, d.task_uuid, d.revision) AS position
    FROM endpoint e CROSS JOIN LATERAL (
      SELECT d.ctid, d.due_at, d.task_uuid, d.revision FROM webhook_endpoint_deliveries d WHERE ${pendingOf("e.id")}
      ORDER BY d.due_at LIMIT ${readRows}
    ) AS d
  ), placed AS (
    UPDATE webhook_endpoint_deliveries d SET position = found.position, due_at = NULL, sending = false, delivered_at = ${
  moment("$2")
}
    FROM found WHERE d.ctid = found.ctid AND d.due_at IS NOT NULL RETURNING d.position
  )
  UPDATE webhook_endpoints w SET last_position = (SELECT max(position) FROM found), succeeded_at = ${moment("$2")}
  WHERE w.id = $1 AND EXISTS (SELECT FROM placed)`

const Streamed = Schema.Struct({
  position: Schema.Int,
  taskId: TaskId,
  revision: Schema.Int,
  status: TaskStatus,
  body: OpaqueJson
})
const readPlaced = query(
  Streamed,
  `SELECT position::int AS position, task_uuid AS "taskId", revision, status, body FROM (
    SELECT d.position, d.task_uuid, d.revision, d.status, b.body,
      sum(b.bytes) OVER (ORDER BY d.position) - b.bytes AS bytes_before
    FROM (
      SELECT * FROM webhook_endpoint_deliveries d
      WHERE d.endpoint_id = $1 AND d.position > $2::bigint ORDER BY d.position LIMIT ${readRows}
    ) AS d JOIN webhook_endpoint_bodies b
      ON b.task_uuid = d.task_uuid AND b.revision = d.revision AND b.format = d.format
  ) AS found WHERE bytes_before < ${readBytes} ORDER BY position`
)

const deleteDeliveries = countQuery(
  `WITH deleted AS (
    DELETE FROM webhook_endpoint_deliveries WHERE ctid = ANY (ARRAY(
      SELECT old.ctid FROM webhook_endpoints w CROSS JOIN LATERAL (
        ${rowsBy(`d.endpoint_id = w.id AND d.created_at < ${moment("$1")}`, "$2::int")}
      ) AS old LIMIT $2::int
    )) RETURNING 1
  ) SELECT count(*)::int AS count FROM deleted`
)
const deleteBodies = countQuery(
  `WITH deleted AS (
    DELETE FROM webhook_endpoint_bodies WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM webhook_endpoint_bodies WHERE created_at < ${moment("$1")} LIMIT $2::int FOR UPDATE SKIP LOCKED
    )) RETURNING 1
  ) SELECT count(*)::int AS count FROM deleted`
)
/** The endpoint's last row goes when nothing is left of it. */
const deleteRemoved = countQuery(
  `WITH deleted AS (
    DELETE FROM webhook_endpoint_deliveries WHERE ctid = ANY (ARRAY(
      SELECT left_over.ctid FROM webhook_endpoint_removals r CROSS JOIN LATERAL (
        ${rowsBy("d.endpoint_id = r.id", "$1::int")}
      ) AS left_over LIMIT $1::int
    )) RETURNING 1
  ), forgotten AS (
    DELETE FROM webhook_endpoint_removals r
    WHERE NOT EXISTS (SELECT FROM webhook_endpoint_deliveries d WHERE d.endpoint_id = r.id)
  ) SELECT count(*)::int AS count FROM deleted`
)

/** A delivery is due as long as it is old at least, so the index finds those that may be too old. */
const dropOld = countQuery(
  `WITH dropped AS (
    UPDATE webhook_endpoint_deliveries SET due_at = NULL, dropped = 'too_old' WHERE ctid = ANY (ARRAY(
      SELECT old.ctid FROM webhook_endpoints w CROSS JOIN LATERAL (
        ${rowsBy(`${pendingOf("w.id")} AND d.due_at < ${moment("$1")} AND NOT d.sending`, "$2::int")}
      ) AS old WHERE w.url IS NULL OR w.disabled_at IS NOT NULL LIMIT $2::int
    )) RETURNING 1
  ) SELECT count(*)::int AS count FROM dropped`
)

const bodyBytes = countQuery(
  `SELECT least(pg_table_size('webhook_endpoint_bodies') / 1048576, 2000000000)::int AS count`
)

/** Read only when the table is larger than the bound. The bodies go too, which makes the room. */
const dropBacklog = countQuery(
  `WITH pending AS MATERIALIZED (
    SELECT b.ctid, b.task_uuid, b.revision, b.format, sum(b.bytes) OVER (
        ORDER BY b.created_at DESC, b.task_uuid DESC, b.revision DESC, b.format DESC
      ) AS bytes
    FROM webhook_endpoint_bodies b WHERE (b.task_uuid, b.revision, b.format) IN (
      SELECT d.task_uuid, d.revision, d.format FROM webhook_endpoints w
      JOIN webhook_endpoint_deliveries d ON ${pendingOf("w.id")}
    )
  ), excess AS (
    SELECT * FROM pending WHERE bytes > $1::float8
  ), bodies AS (
    DELETE FROM webhook_endpoint_bodies b USING excess WHERE b.ctid = excess.ctid
  ), dropped AS (
    UPDATE webhook_endpoint_deliveries d SET due_at = NULL, dropped = 'backlog', sending = false FROM excess
    WHERE d.task_uuid = excess.task_uuid AND d.revision = excess.revision AND d.format = excess.format
      AND d.endpoint_id IN (SELECT id FROM webhook_endpoints) AND d.due_at IS NOT NULL
    RETURNING 1
  ) SELECT count(*)::int AS count FROM dropped`
)

const health = query(
  Schema.Struct({
    disabledReason: Endpoint.fields.disabledReason,
    failingSince: Endpoint.fields.failingSince,
    oldestDue: Schema.NullOr(Timestamp)
  }),
  `SELECT w.disabled_reason AS "disabledReason", ${micros("w.failing_since")} AS "failingSince",
    CASE WHEN w.url IS NOT NULL AND w.disabled_at IS NULL THEN (
      SELECT ${micros("min(d.due_at)")} FROM webhook_endpoint_deliveries d WHERE ${pendingOf("w.id")} AND NOT d.sending
    ) END AS "oldestDue"
  FROM webhook_endpoints w`
)

const outboxOf = Effect.gen(function*() {
  const { execute, first, rows } = yield* makeQueries
  const floors = new Map<string, ScanFloor.ScanFloor>()
  const floorOf = (id: string) => {
    const floor = floors.get(id) ?? ScanFloor.make()
    floors.set(id, floor)
    return floor
  }
  const outbox: EndpointsStore["Service"]["outbox"] = {
    claim: Effect.fnUntraced(function*(request) {
      const since = new Map<string, Timestamp>()
      for (const [id, floor] of floors) since.set(id, yield* floor.from(request.at))
      const claimed = yield* rows(EndpointClaim.claim, EndpointClaim.bindClaim(request, since))
      const oldest = new Map(claimed[0]?.oldest)
      for (const id of floors.keys()) if (!oldest.has(id)) floors.delete(id)
      // Attempts that may not count as lost yet are not found.
      if (request.lostBefore >= request.at) {
        for (const [id, at] of oldest) yield* floorOf(id).raise(at ?? request.at)
      }
      const deliveries = claimed.flatMap((row): ReadonlyArray<EndpointDelivery> =>
        row.endpointId === null
          ? []
          : [{ ...Struct.omit(row, ["endpointId", "oldest", "hasMore"]), sub: row.endpointId, claimedAt: request.at }]
      )
      const found = [...oldest.values()].flatMap((at) => at ?? [])
      return {
        deliveries,
        hasMore: claimed[0]?.hasMore ?? false,
        oldest: found.reduce((one, other) => other < one ? other : one, request.at)
      }
    }),
    oldestDue: () => Effect.succeed(null),
    body: ({ revision, sub, taskId }) =>
      Effect.map(first(EndpointClaim.body, [sub, taskId, revision]), Option.map(({ body }) => body)),
    postpone: ({ attempt, claimedAt, revision, sub, taskId }, until) =>
      execute(EndpointClaim.postpone, [sub, taskId, revision, until, attempt, claimedAt]),
    recordOutcomes: (outcomes) =>
      Effect.suspend(() => rows(EndpointClaim.recordOutcomes, EndpointClaim.bindOutcomes(outcomes))),
    committed: (at) => floors.forEach((floor) => floor.lower(at))
  }
  return outbox
})

export const layer = Layer.effect(
  EndpointsStore,
  Effect.gen(function*() {
    const queries = yield* makeQueries
    const { execute, first, rows } = queries
    const sql = yield* SqlClient.SqlClient
    const pendingWork = yield* PendingWork
    pendingWork.add("endpoints", (soon) => [
      `FROM webhook_endpoints w JOIN LATERAL (
        SELECT FROM webhook_endpoint_deliveries d WHERE d.endpoint_id = w.id AND d.due_at <= ${soon} LIMIT 1
      ) AS d ON true WHERE w.url IS NOT NULL AND w.disabled_at IS NULL`
    ])
    const outbox = yield* outboxOf
    const updates = new Map<string, ReturnType<typeof updateOf>>()

    return EndpointsStore.of({
      // One at a time, so that no more are inserted than may be.
      insert: (endpoint) => {
        const { createdAt, disabledAt, disabledReason, id } = endpoint
        const values = valuesOf(
          Struct.pick(endpoint, [...Struct.keys(Definition.fields), ...Struct.keys(SealedSecrets.fields)])
        )
        const bound = [id, disabledAt, disabledReason, createdAt, ...fields.map((field) => values[field] ?? null)]
        return failWhenUnavailable(
          sql.withTransaction(Effect.andThen(sql.unsafe(lock), sql.unsafe(insert, bound)))
        ).pipe(Effect.map((inserted) => inserted.length > 0))
      },
      list: (after, limit) =>
        Effect.map(rows(list, [after?.at ?? null, after?.id ?? null, limit]), (found) => found.map(endpointOf)),
      get: (id) => Effect.map(first(get, [id]), Option.map(endpointOf)),
      update: Effect.fnUntraced(function*(id, changes, disabled, at) {
        const values = valuesOf(changes)
        const changed = fields.filter((field) => values[field] !== undefined)
        const key = changed.join()
        const statement = updates.get(key) ?? updateOf(changed)
        updates.set(key, statement)
        const becomes = disabled === undefined ? "kept" : disabled ?? "enabled"
        const found = yield* first(statement, [id, at, becomes, ...changed.map((field) => values[field])])
        return Option.map(found, endpointOf)
      }),
      dropPending: (id, before, limit) => queries.count(dropPending, [id, before, limit]),
      resume: (id, at, oldest, limit) => queries.count(resume, [id, at, oldest, limit]),
      remove: (id) => Effect.map(queries.count(remove, [id]), (count) => count > 0),

      replaceSecret: (sealed, by) => execute(replaceSecret, [sealed, by]),

      deliveries: (id, state, after, limit) =>
        Effect.map(
          rows(page, [id, state, after?.at ?? null, after?.taskId ?? null, after?.revision ?? null, limit]),
          (found) => found.map(deliveryOf)
        ),
      delivery: ({ endpointId, revision, taskId }) =>
        Effect.map(first(delivery, [endpointId, taskId, revision]), Option.map(deliveryOf)),
      redeliver: ({ endpointId, revision, taskId }, at) =>
        Effect.map(queries.count(redeliver, [endpointId, taskId, revision, at]), (count) => count > 0),
      replay: Effect.fnUntraced(function*(id, { failedOnly, from, to }, at, limit) {
        const [found] = yield* rows(replay, [id, from, to, failedOnly, at, limit])
        const { enqueued = 0, matched = 0 } = found ?? {}
        return { enqueued, left: matched - enqueued }
      }),
      addSample: ({ attempt, body, endpointId, format, happenedAt, revision, status, taskId }) =>
        execute(addSample, [
          endpointId,
          taskId,
          revision,
          format,
          happenedAt,
          body,
          status,
          attempt === null ? null : JSON.stringify([attempt]),
          attempt?.startedAt ?? null,
          attempt?.error === null ? happenedAt : null
        ]),
      read: Effect.fnUntraced(function*(id, after, at) {
        yield* execute(place, [id, at])
        const found = yield* rows(readPlaced, [id, after])
        return found.map(({ body, position, revision, status, taskId }) => ({
          position,
          key: { taskId, revision },
          status,
          body: toText(body)
        }))
      }),

      outbox,

      deleteBefore: Effect.fnUntraced(function*(before, limit) {
        const removed = yield* queries.count(deleteRemoved, [limit])
        const deliveries = yield* queries.count(deleteDeliveries, [before, limit])
        return Math.max(removed, deliveries, yield* queries.count(deleteBodies, [before, limit]))
      }),
      dropOld: (before, limit) => queries.count(dropOld, [before, limit]),
      dropBacklog: Effect.fnUntraced(function*(bytes) {
        const mebibytes = yield* queries.count(bodyBytes, [])
        return mebibytes * 1024 ** 2 < bytes - 1024 ** 2 ? 0 : yield* queries.count(dropBacklog, [bytes])
      }),
      health: Effect.map(rows(health, []), (found): ReadonlyArray<Health> => found)
    })
  })
)
