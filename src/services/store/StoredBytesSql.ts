/** The bytes that users keep, in Postgres. */
import { Effect, Layer, Schema } from "effect"
import { Timestamp } from "../../domain/Timestamp.ts"
import { make as makeQueries, micros, moment, query } from "./Queries.ts"
import { StoredBytesStore, UserStorage } from "./StoredBytesStore.ts"

const Sub = Schema.Struct({ sub: Schema.String })

/** A user with a million tasks is counted every 17 minutes at most, another every 5 seconds. */
const noteActive = `INSERT INTO stored_bytes AS known (sub, due_at)
  SELECT DISTINCT sub, ${moment("$2")} FROM tasks WHERE created_at >= ${moment("$1")}
  ON CONFLICT (sub) DO UPDATE SET
    due_at = least(known.due_at, known.counted_at + greatest(known.tasks, 5000) * interval '1 millisecond')
  WHERE known.due_at > known.counted_at + greatest(known.tasks, 5000) * interval '1 millisecond'`

const claim = query(
  Sub,
  `UPDATE stored_bytes SET due_at = ${moment("$2")} WHERE sub = ANY (ARRAY(
    SELECT sub FROM stored_bytes WHERE due_at <= ${moment("$1")} ORDER BY due_at LIMIT $3::int FOR UPDATE SKIP LOCKED
  )) RETURNING sub`
)

/** Tasks that one statement counts. The length of a text is read without the text. */
const page = 1000
const Page = Schema.Struct({
  bytes: Schema.Finite,
  tasks: Schema.Int,
  /** The key of the last task. */
  at: Schema.NullOr(Timestamp),
  uuid: Schema.NullOr(Schema.String)
})
const countPage = query(
  Page,
  `WITH page AS MATERIALIZED (
    SELECT created_at, uuid FROM tasks WHERE sub = $1 AND (created_at, uuid) < (${moment("$2")}, $3::uuid)
    ORDER BY created_at DESC, uuid DESC LIMIT ${page}
  ), last AS (SELECT created_at, uuid FROM page ORDER BY created_at, uuid LIMIT 1)
  SELECT count(*)::int AS tasks, coalesce(sum(
      coalesce((SELECT octet_length(request) FROM task_requests WHERE task_uuid = page.uuid), 0)
        + coalesce((SELECT octet_length(turn) FROM task_turns WHERE task_uuid = page.uuid), 0)
    ), 0)::float8 AS bytes,
    (SELECT ${micros("created_at")} FROM last) AS at, (SELECT uuid FROM last) AS uuid
  FROM page`
)
const newest = { at: 7_258_118_400_000_000, uuid: "ffffffff-ffff-ffff-ffff-ffffffffffff" }

const record = `UPDATE stored_bytes SET bytes = $2::float8, tasks = $3::int, counted_at = ${moment("$4")},
    due_at = CASE WHEN due_at = ${moment("$5")} THEN ${moment("$6")} ELSE due_at END
  WHERE sub = $1`

const forget = `DELETE FROM stored_bytes WHERE sub = $1 AND due_at = ${moment("$2")}`

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
  Effect.map(makeQueries, ({ execute, rows }) => {
    const subsOf = (found: ReadonlyArray<typeof Sub.Type>) => found.map(({ sub }) => sub)
    return StoredBytesStore.of({
      noteActive: (since, at) => execute(noteActive, [since, at]),
      claim: (at, lease, limit) => Effect.map(rows(claim, [at, lease, limit]), subsOf),
      count: Effect.fnUntraced(function*(sub) {
        const all = { bytes: 0, tasks: 0 }
        let key: { readonly at: number; readonly uuid: string } | undefined = newest
        while (key !== undefined) {
          const found: ReadonlyArray<typeof Page.Type> = yield* rows(countPage, [sub, key.at, key.uuid])
          key = undefined
          for (const { at, bytes, tasks, uuid } of found) {
            all.bytes += bytes
            all.tasks += tasks
            if (tasks === page && at !== null && uuid !== null) key = { at, uuid }
          }
        }
        return all
      }),
      record: ({ bytes, countedAt, sub, tasks }, { lease, next }) =>
        tasks === 0
          ? execute(forget, [sub, lease])
          : execute(record, [sub, bytes, tasks, countedAt, lease, next]),
      largest: (limit) => rows(largest, [limit]),
      above: (bytes, limit) => Effect.map(rows(above, [bytes, limit]), subsOf)
    })
  })
)
