/** Each node writes a row about itself every 2 s, so that any node can show all of them. */
import { Duration, Effect, FiberHandle, Layer, Option, Schema } from "effect"
import { make as makeQueries, micros, moment, query } from "../store/sql/Queries.ts"
import * as Worker from "../timing/Worker.ts"
import { ClusterNodes, type Identity, makeComply, makeSelf, type Member, NodeReport, Wanted } from "./ClusterNodes.ts"

const reportInterval = Duration.seconds(2)
/** A node whose row is older than this is shown without shards. */
const lapsed = "5 seconds"
/** A row older than this is deleted. */
const expired = "30 seconds"

/** Maximum of the column, in milliseconds. A database that is restored from an old backup may exceed it. */
const maxLateness = 2 ** 31 - 1

const recent = query(
  NodeReport,
  `SELECT instance, address, version, ${micros("started_at")} AS "startedAt", ${micros("seen_at")} AS "seenAt",
    has_left AS "isDrained",
    CASE WHEN seen_at < statement_timestamp() - interval '${lapsed}' THEN '{}' ELSE shards END AS shards,
    tasks, ${micros("next_due_at")} AS "nextDue", lateness
  FROM nodes WHERE seen_at >= statement_timestamp() - interval '${expired}' ORDER BY address, started_at`
)

/** Returns what an operator wants of this node, until a report shows that it is done. */
const write = query(
  Schema.Struct({ wanted: Schema.NullOr(Wanted) }),
  `WITH gone AS (DELETE FROM nodes WHERE seen_at < statement_timestamp() - interval '${expired}')
  INSERT INTO nodes (instance, address, version, started_at, seen_at, has_left, shards, tasks, next_due_at, lateness)
  VALUES ($1::uuid, $2, $3, ${moment("$4")}, statement_timestamp(), $5::boolean, $6::int[], $7::int, ${moment("$8")},
    $9::int)
  ON CONFLICT (instance) DO UPDATE SET seen_at = excluded.seen_at, has_left = excluded.has_left,
    shards = excluded.shards, tasks = excluded.tasks, next_due_at = excluded.next_due_at, lateness = excluded.lateness,
    wanted = CASE WHEN (nodes.wanted = 'drained') <> excluded.has_left THEN nodes.wanted END
  RETURNING wanted`
)

const ask = query(
  Schema.Struct({}),
  `UPDATE nodes SET wanted = $2 WHERE instance::text = $1 AND seen_at >= statement_timestamp() - interval '${expired}'
  RETURNING instance`
)

const bind = (
  { address, instance, isDrained, lateness, nextDue, shards, startedAt, tasks, version }: Member
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
      const { execute, first, rows } = yield* makeQueries
      const { describe, instance } = yield* makeSelf(identity)
      const comply = yield* makeComply
      const compliance = yield* FiberHandle.make<void, never>()
      // A change of membership may take longer than a report may be late, so no report waits for it.
      const report = Effect.flatMap(describe, (member) => first(write, bind(member))).pipe(
        Effect.tap(Option.match({
          onNone: () => Effect.void,
          onSome: ({ wanted }) => FiberHandle.run(compliance, comply(wanted), { onlyIfMissing: true })
        }))
      )
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
      return ClusterNodes.of({
        all: Effect.andThen(Effect.ignoreCause(report), read),
        request: (instance, wanted) => Effect.map(rows(ask, [instance, wanted]), (found) => found.length > 0)
      })
    })
  )
