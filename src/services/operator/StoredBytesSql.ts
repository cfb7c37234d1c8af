/** The bytes that users keep, in Postgres. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Layer, Option, Schema, Struct } from "effect"
import { Timestamp } from "../../domain/Timestamp.ts"
import { PendingWork } from "../store/PendingWork.ts"
import { array, make as makeQueries, micros, moment, query } from "../store/sql/Queries.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"
import { StoredBytesStore, UserStorage } from "./StoredBytes.ts"

const { float8, int4, text, uuid } = PgTypes.OID

const Sub = Schema.Struct({ sub: Schema.String })

const countedAt = query(
  Schema.Struct({ at: Schema.NullOr(Timestamp) }),
  `SELECT ${micros("max(counted_at)")} AS at FROM stored_bytes`
)

/** Tasks that one statement reads for their users. */
const notedTasks = 20_000
/** `$4` is milliseconds for each task of the user. */
const pause = "greatest(known.tasks * ($4::float8 * interval '1 millisecond'), interval '5 seconds')"
/** Returns the last task, if there may be more. */
const noteActive = query(
  Schema.Struct({ at: Timestamp, uuid: Schema.String }),
  `WITH page AS MATERIALIZED (
    SELECT created_at, uuid, sub FROM tasks WHERE (created_at, uuid) > (${moment("$1")}, $2::uuid)
    ORDER BY created_at, uuid LIMIT ${notedTasks}
  ), noted AS (
    INSERT INTO stored_bytes AS known (sub, due_at) SELECT DISTINCT sub, ${moment("$3")} FROM page ORDER BY sub
    ON CONFLICT (sub) DO UPDATE SET due_at = least(known.due_at, greatest(known.counted_at + ${pause}, EXCLUDED.due_at))
    WHERE known.due_at > known.counted_at + ${pause}
  )
  SELECT ${micros("created_at")} AS at, uuid FROM page ORDER BY created_at, uuid OFFSET ${notedTasks - 1}`
)

const claim = query(
  Sub,
  `UPDATE stored_bytes SET due_at = ${moment("$2")} WHERE sub = ANY (ARRAY(
    SELECT sub FROM stored_bytes WHERE due_at <= ${moment("$1")} AND due_at >= ${moment("$4")}
    ORDER BY due_at LIMIT $3::int FOR UPDATE SKIP LOCKED
  )) RETURNING sub`
)

/** Tasks that one statement counts in some milliseconds, shared among its users. The length of a text is read without the text. */
const countedTasks = 500
const Page = Schema.Struct({
  ...UserStorage.mapFields(Struct.pick(["sub", "bytes", "tasks"])).fields,
  at: Schema.NullOr(Timestamp),
  uuid: Schema.NullOr(Schema.String)
})
const countPages = query(
  Page,
  `SELECT wanted.sub, counted.* FROM unnest($1::text[], $2::float8[], $3::uuid[]) AS wanted (sub, at, uuid)
  CROSS JOIN LATERAL (
    SELECT count(*)::int AS tasks, coalesce(sum(
        coalesce((SELECT octet_length(request) FROM task_requests WHERE task_uuid = page.uuid), 0)
          + coalesce((SELECT octet_length(turn) FROM task_turns WHERE task_uuid = page.uuid), 0)
      ), 0)::float8 AS bytes,
      ${micros("min(created_at)")} AS at, (array_agg(uuid ORDER BY created_at, uuid))[1] AS uuid
    FROM (
      SELECT created_at, uuid FROM tasks
      WHERE sub = wanted.sub AND (created_at, uuid) < (${moment("wanted.at")}, wanted.uuid)
      ORDER BY created_at DESC, uuid DESC LIMIT $4::int
    ) AS page
  ) AS counted`
)
const newest = { at: Timestamp.make(7_258_118_400_000_000), uuid: "ffffffff-ffff-ffff-ffff-ffffffffffff" }

/** Every statement locks users in the order of `sub`, so that none waits for another in a circle. */
const record = `WITH counted AS (
    SELECT c.*, s.due_at = ${moment("$6")} AS is_claimed
    FROM stored_bytes s JOIN unnest($1::text[], $2::float8[], $3::int[], $4::float8[], $5::float8[])
      AS c (sub, bytes, tasks, at, next) ON c.sub = s.sub
    ORDER BY s.sub FOR UPDATE OF s
  ), forgotten AS (
    DELETE FROM stored_bytes s USING counted c WHERE c.sub = s.sub AND c.tasks = 0 AND c.is_claimed
  )
  UPDATE stored_bytes s SET bytes = c.bytes, tasks = c.tasks, counted_at = ${moment("c.at")},
    due_at = CASE WHEN c.is_claimed THEN ${moment("c.next")} ELSE s.due_at END
  FROM counted c WHERE c.sub = s.sub AND c.tasks > 0`

const largest = query(
  UserStorage,
  `SELECT sub, bytes::float8 AS bytes, tasks, ${micros("counted_at")} AS "countedAt" FROM stored_bytes
  WHERE bytes > 0 ORDER BY bytes DESC LIMIT $1::int`
)

const above = query(
  Sub,
  `SELECT sub FROM stored_bytes WHERE bytes > $1::float8::bigint ORDER BY bytes DESC LIMIT $2::int`
)

export const layer = Layer.effect(
  StoredBytesStore,
  Effect.map(makeQueries, ({ execute, first, rows }) => {
    const subsOf = (found: ReadonlyArray<typeof Sub.Type>) => found.map(({ sub }) => sub)
    return StoredBytesStore.of({
      countedAt: Effect.map(rows(countedAt, []), ([row]) => row?.at ?? null),
      noteActive: (after, at, millisPerTask) =>
        Effect.map(first(noteActive, [after.at, after.uuid, at, millisPerTask]), Option.getOrNull),
      claim: (at, lease, limit, from = ScanFloor.lowest) => Effect.map(rows(claim, [at, lease, limit, from]), subsOf),
      count: Effect.fnUntraced(function*(counts) {
        const limit = Math.floor(countedTasks / counts.length)
        const before = new Map(counts.map((count) => [count.sub, { bytes: 0, tasks: 0, last: newest, ...count }]))
        const keys = [...before.values()].map(({ last }) => last ?? newest)
        const pages = yield* rows(countPages, [
          array([...before.keys()], text),
          array(keys.map(({ at }) => at), float8),
          array(keys.map(({ uuid }) => uuid), uuid),
          limit
        ])
        return pages.map(({ at, bytes, sub, tasks, uuid }) => ({
          sub,
          bytes: bytes + (before.get(sub)?.bytes ?? 0),
          tasks: tasks + (before.get(sub)?.tasks ?? 0),
          last: tasks === limit && at !== null && uuid !== null ? { at, uuid } : null
        }))
      }),
      record: (counts, lease) =>
        execute(record, [
          array(counts.map(({ sub }) => sub), text),
          array(counts.map(({ bytes }) => bytes), float8),
          array(counts.map(({ tasks }) => tasks), int4),
          array(counts.map(({ countedAt }) => countedAt), float8),
          array(counts.map(({ next }) => next), float8),
          lease
        ]),
      largest: (limit) => rows(largest, [limit]),
      above: (bytes, limit) => Effect.map(rows(above, [bytes, limit]), subsOf)
    })
  })
)

/** Lets the counts rest while no user is due, with a limit. */
export const layerPending = Layer.effectDiscard(
  Effect.map(PendingWork, ({ add }) =>
    add("stored bytes", (soon) => [
      `FROM tasks WHERE created_at >= statement_timestamp() - interval '1 minute'`,
      `FROM stored_bytes WHERE due_at <= ${soon}`
    ]))
)
