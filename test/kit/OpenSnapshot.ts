/**
 * Counts the pages that claims of a queue read. While a session keeps a snapshot open, as a backup does, the index entries of rows that have
 * left the queue remain: the cost of a claim must not grow with them.
 */
import { assert } from "@effect/vitest"
import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { now, plus, type Timestamp } from "../../src/domain/Timestamp.ts"
import * as Database from "./Database.ts"

/** Rows that left each queue. */
const ended = 20_000

const decodePlans = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Tuple([Schema.Struct({
  Plan: Schema.Struct({ "Shared Hit Blocks": Schema.Int, "Shared Read Blocks": Schema.Int })
})])))

/** Pages that the last statement read. */
class Pages extends Context.Service<Pages, { last: number }>()("async-task-service/test/kit/OpenSnapshot/Pages") {}

/** A client that runs each statement to count its pages, and returns no rows. */
const layerMeasured = Layer.effectContext(Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const pages = { last: 0 }
  const unsafe = (text: string, values?: ReadonlyArray<unknown>) =>
    sql.withTransaction(Effect.gen(function*() {
      // As in every session of the service.
      yield* sql`SET LOCAL enable_seqscan = off`
      const [row] = yield* sql.unsafe<{ readonly "QUERY PLAN": unknown }>(
        `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`,
        values
      )
      const plan = row?.["QUERY PLAN"]
      const [{ Plan }] = decodePlans(typeof plan === "string" ? plan : JSON.stringify(plan))
      pages.last = Plan["Shared Hit Blocks"] + Plan["Shared Read Blocks"]
      return []
    }))
  // The stores use nothing else of it.
  const measured = Object.assign({}, sql, { unsafe }) as unknown as SqlClient.SqlClient
  return Context.make(SqlClient.SqlClient, measured).pipe(Context.add(Pages, pages))
}))

const past = "now() - interval '10 seconds'"

export interface Queue<Stores> {
  /** Inserts due rows. */
  readonly add: (count: number, due: string) => string
  /** The changes of rows until they have left the queue. */
  readonly leave: ReadonlyArray<string>
  readonly claim: (at: Timestamp, from: Timestamp) => Effect.Effect<unknown, unknown, Stores>
}

const pagesOf = Effect.fnUntraced(function*<Stores>(
  { add, claim }: Queue<Stores>,
  stores: Layer.Layer<Stores, never, SqlClient.SqlClient>,
  fresh: number
) {
  const sql = yield* SqlClient.SqlClient
  return yield* Effect.gen(function*() {
    yield* sql.unsafe(add(fresh, "clock_timestamp()"))
    // The clocks of both processes may differ.
    const at = plus(yield* now, "1 second")
    yield* claim(at, plus(at, "-3 seconds"))
    return (yield* Pages).last
  }).pipe(Effect.provide(Layer.fresh(Layer.provideMerge(stores, layerMeasured))))
})

const keepSnapshot = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const other = yield* Effect.acquireRelease(
    sql.reserve,
    (other) => Effect.orDie(other.execute("ROLLBACK", [], undefined))
  )
  yield* other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ", [], undefined)
  yield* other.execute("SELECT FROM pg_class LIMIT 1", [], undefined)
})

/** Checks that a claim with `fresh` due rows reads as few pages as before many left the queue. */
export const check = <Stores>(
  queue: Queue<Stores>,
  stores: Layer.Layer<Stores, never, SqlClient.SqlClient>,
  fresh = 20
) =>
  TestClock.withLive(Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const before = yield* pagesOf(queue, stores, fresh)
    yield* keepSnapshot
    for (const statement of [queue.add(ended, past), ...queue.leave]) yield* sql.unsafe(statement)
    const after = yield* pagesOf(queue, stores, fresh)
    // oxlint-disable-next-line no-console -- the figure
    console.log(
      `a claim reads ${before} pages, and ${after} after ${ended} rows left the queue beside an open snapshot`
    )
    // The index of many entries is two levels higher.
    assert.isAtMost(after, 2 * before + 8)
  })).pipe(Effect.scoped, Effect.provide(Database.layer))
