/** Each node writes a row about itself every 2 s, so that any node can show all of them. */
import { Duration, Effect, Layer, Schedule, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { format, Timestamp } from "../../domain/Timestamp.ts"
import { micros } from "../store/TaskColumns.ts"
import { ClusterNodes, type Identity, makeSelf, type Member } from "./ClusterNodes.ts"

const reportInterval = Duration.seconds(2)
/** A node whose row is older than this is shown without shards. */
const lapsed = "5 seconds"
/** A row older than this is deleted. */
const expired = "30 seconds"

/** Maximum of the column, in milliseconds. A database that is restored from an old backup may exceed it. */
const maxLateness = 2 ** 31 - 1

const MemberRow = Schema.Struct({
  instance: Schema.String,
  address: Schema.String,
  version: Schema.String,
  startedAt: Timestamp,
  seenAt: Timestamp,
  isDrained: Schema.Boolean,
  shards: Schema.NullOr(Schema.Array(Schema.Int)),
  tasks: Schema.Int,
  nextDue: Schema.NullOr(Timestamp),
  lateness: Schema.Int
}).pipe(Schema.encodeKeys({
  startedAt: "started_at",
  seenAt: "seen_at",
  isDrained: "has_left",
  nextDue: "next_due"
}))
const decode = Schema.decodeUnknownEffect(Schema.Array(MemberRow))

export const layer = (identity: Identity) =>
  Layer.effect(
    ClusterNodes,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const random = yield* SecureRandom.SecureRandom
      const instance = yield* random.uuidV7()
      const self = yield* makeSelf(identity)

      const write = ({ address, isDrained, lateness, nextDue, shards, startedAt, tasks, version }: Member) =>
        sql.unsafe(
          `WITH gone AS (DELETE FROM nodes WHERE seen_at < statement_timestamp() - interval '${expired}')
          INSERT INTO nodes (instance, address, version, started_at, seen_at, has_left, shards, tasks, next_due_at, lateness)
          VALUES ($1::uuid, $2, $3, $4::timestamptz, statement_timestamp(), $5::boolean, $6::int[], $7::int,
            $8::timestamptz, $9::int)
          ON CONFLICT (instance) DO UPDATE SET seen_at = excluded.seen_at, has_left = excluded.has_left,
            shards = excluded.shards, tasks = excluded.tasks, next_due_at = excluded.next_due_at,
            lateness = excluded.lateness`,
          [
            instance,
            address,
            version,
            format(startedAt),
            isDrained,
            shards === null ? null : `{${shards.join(",")}}`,
            tasks,
            nextDue === null ? null : format(nextDue),
            Math.min(lateness, maxLateness)
          ]
        )
      const report = Effect.flatMap(self, write)

      const read = sql.unsafe(
        `SELECT instance, address, version, ${micros("started_at")} AS started_at, ${micros("seen_at")} AS seen_at,
          has_left, CASE WHEN seen_at < statement_timestamp() - interval '${lapsed}' THEN '{}' ELSE shards END AS shards, tasks, ${
          micros("next_due_at")
        } AS next_due, lateness
        FROM nodes WHERE seen_at >= statement_timestamp() - interval '${expired}' ORDER BY address, started_at`,
        []
      ).pipe(
        Effect.flatMap(decode),
        Effect.map((rows) => rows.map((row) => ({ ...row, isSelf: row.instance === instance })))
      )

      yield* Effect.addFinalizer(() =>
        Effect.ignore(Effect.timeout(sql.unsafe(`DELETE FROM nodes WHERE instance = $1::uuid`, [instance]), "1 second"))
      )
      yield* report.pipe(
        Effect.catchCause((cause) => Effect.logDebug("the row of this node could not be written", cause)),
        Effect.repeat(Schedule.spaced(reportInterval)),
        Effect.forkScoped
      )
      return ClusterNodes.of({ all: Effect.orDie(Effect.andThen(Effect.ignore(report), read)) })
    })
  )
