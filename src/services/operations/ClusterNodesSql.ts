/** Each node writes a row about itself every 2 s, so that any node can show all of them. */
import { Duration, Effect, Layer, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { Timestamp } from "../../domain/Timestamp.ts"
import { make as makeQueries, micros, moment, query } from "../store/Queries.ts"
import * as Worker from "../timing/Worker.ts"
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
})

const recent = query(
  MemberRow,
  `SELECT instance, address, version, ${micros("started_at")} AS "startedAt", ${micros("seen_at")} AS "seenAt",
    has_left AS "isDrained",
    CASE WHEN seen_at < statement_timestamp() - interval '${lapsed}' THEN '{}' ELSE shards END AS shards,
    tasks, ${micros("next_due_at")} AS "nextDue", lateness
  FROM nodes WHERE seen_at >= statement_timestamp() - interval '${expired}' ORDER BY address, started_at`
)

const write = `WITH gone AS (DELETE FROM nodes WHERE seen_at < statement_timestamp() - interval '${expired}')
  INSERT INTO nodes (instance, address, version, started_at, seen_at, has_left, shards, tasks, next_due_at, lateness)
  VALUES ($1::uuid, $2, $3, ${moment("$4")}, statement_timestamp(), $5::boolean, $6::int[], $7::int, ${moment("$8")},
    $9::int)
  ON CONFLICT (instance) DO UPDATE SET seen_at = excluded.seen_at, has_left = excluded.has_left,
    shards = excluded.shards, tasks = excluded.tasks, next_due_at = excluded.next_due_at, lateness = excluded.lateness`

const bind = (
  instance: string,
  { address, isDrained, lateness, nextDue, shards, startedAt, tasks, version }: Member
) => [
  instance,
  address,
  version,
  startedAt,
  isDrained,
  shards === null ? null : `{${shards.join(",")}}`,
  tasks,
  nextDue,
  Math.min(lateness, maxLateness)
]

export const layer = (identity: Identity) =>
  Layer.effect(
    ClusterNodes,
    Effect.gen(function*() {
      const { execute, rows } = yield* makeQueries
      const random = yield* SecureRandom.SecureRandom
      const instance = yield* random.uuidV7()
      const self = yield* makeSelf(identity)
      const report = Effect.flatMap(self, (member) => execute(write, bind(instance, member)))
      const read = Effect.map(
        rows(recent, []),
        (found) => found.map((row) => ({ ...row, isSelf: row.instance === instance }))
      )

      yield* Effect.addFinalizer(() =>
        Effect.ignoreCause(
          Effect.timeout(execute(`DELETE FROM nodes WHERE instance = $1::uuid`, [instance]), "1 second")
        )
      )
      yield* Worker.make({ name: "the report of this node", runOnce: report, interval: reportInterval })
      return ClusterNodes.of({ all: Effect.andThen(Effect.ignoreCause(report), read) })
    })
  )
