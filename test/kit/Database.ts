/** New databases on the Postgres of the test run, dropped when the suite ends: copies of one that is migrated, and empty ones. */
import { PgClient } from "@effect/sql-pg"
import { Context, Duration, Effect, Layer, Redacted } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { inject } from "vitest"
import { extensionTables } from "../../src/runtime/loadedExtensions.ts"
import * as Migrations from "../../src/services/store/schema/Migrations.ts"

export class DatabaseUrl
  extends Context.Service<DatabaseUrl, Redacted.Redacted>()("async-task-service/test/kit/Database/DatabaseUrl")
{}

/** Other work may delay a login for longer than the default of 5 s. */
export const connectTimeout = Duration.seconds(30)

/** The migrated database that `globalSetup` makes. */
export const template = "migrated"

/** A database on the server of `base`, dropped when the scope closes. It is empty, or a copy of the template. */
export const makeDatabase = Effect.fnUntraced(function*(base: string, copyOf?: string) {
  const name = `test_${randomUUID().replaceAll("-", "")}`
  // A client for each statement: once idle for a minute, a client of the scope that closes opens no new connection and hangs.
  const administer = (statement: string) =>
    PgClient.make({ url: Redacted.make(base), maxConnections: 1, connectTimeout }).pipe(
      Effect.flatMap((admin) => admin.unsafe(statement)),
      Effect.scoped
    )
  yield* Effect.acquireRelease(
    administer(`CREATE DATABASE ${name}${copyOf === undefined ? "" : ` TEMPLATE ${copyOf}`}`),
    () => Effect.orDie(administer(`DROP DATABASE ${name} WITH (FORCE)`))
  )
  const url = new URL(base)
  url.pathname = `/${name}`
  return Redacted.make(url.href)
})

const layerUrlOf = (copyOf?: string) =>
  Layer.effect(DatabaseUrl, Effect.suspend(() => makeDatabase(inject("postgresUrl"), copyOf))).pipe(
    Layer.provide(Reactivity.layer)
  )

/** An empty database. */
export const layerUrl = layerUrlOf()

/** The URL of a database through the pooler of the test run, if there is one. */
export const pooledUrl = (url: Redacted.Redacted) => {
  const pooler = inject("poolerUrl")
  return pooler === undefined ? url : Redacted.make(pooler + new URL(Redacted.value(url)).pathname)
}

export const layerClient = Layer.unwrap(
  Effect.map(DatabaseUrl, (url) =>
    PgClient.layer({
      url: pooledUrl(url),
      // A statement that is prepared exists on one session only, and a pooler has many.
      prepare: inject("poolerUrl") === undefined,
      maxConnections: 8,
      connectTimeout,
      multiplex: true,
      multiplexConcurrency: 5
    }))
)

/** Completes when so many statements of other sessions wait for locks; also in a transaction, which sees sessions as they were at first. */
export const isBlocked = (statements = 1) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.repeat(
      Effect.andThen(
        sql`SELECT pg_stat_clear_snapshot()`,
        sql`SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`
      ),
      { until: ({ length }) => length >= statements }
    ))

/** Uses the live clock, because the driver's timeouts must not follow TestClock. */
export const layerLive = <A, E, R>(layer: Layer.Layer<A, E, R>): Layer.Layer<A, E, R> =>
  Layer.effectContext(Effect.flatMap(Effect.scope, (scope) => TestClock.withLive(Layer.buildWithScope(layer, scope))))

/** Migrates anew each time that it is built. */
export const layerMigrations = Layer.fresh(Migrations.layer(extensionTables))

export const layer: Layer.Layer<SqlClient.SqlClient | PgClient.PgClient | DatabaseUrl> = layerLive(
  layerClient.pipe(Layer.provideMerge(layerUrlOf(template)), Layer.orDie)
)
