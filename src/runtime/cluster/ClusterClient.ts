import { PgClient, PgConnection, PgPool } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient } from "effect/sql"
import { adapt } from "../postgres/DatabaseClient.ts"

/** `maxConnections` include the one of the locks. */
export type Options = PgConnection.Config & { readonly maxConnections: number }

const make = Effect.fnUntraced(function*({ maxConnections, ...config }: Options) {
  const options = { ...config, multiplex: true }
  const pool = yield* PgPool.make({ ...options, maxConnections: maxConnections - 1 })
  return yield* SqlClient.make({
    acquirer: Effect.map(pool.get, (session) => adapt(session)),
    // Statements that got no answer in time may have been on a half-open connection, which a multiplexed pool would keep.
    borrower: (statement) =>
      pool.use((session) => Effect.onInterrupt(statement(adapt(session)), () => pool.invalidate(session))),
    transactionAcquirer: Effect.map(PgConnection.make(options), (session) => adapt(session)),
    compiler: PgClient.makeCompiler(),
    driver: "pg",
    spanAttributes: []
  })
})

/**
 * The client of a cluster. Its statements are pipelined, and so are those on the session of the locks: a refresh, or the release of many
 * shards, which takes two statements each, does not wait for the round trips of others.
 */
export const layer = (options: Options) =>
  Layer.effect(SqlClient.SqlClient, make(options)).pipe(Layer.provide(Reactivity.layer))
