/** Databases for tests that start the service as a separate process. */
import { PgClient } from "@effect/sql-pg"
import { Effect, Exit, Redacted, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { Client } from "pg"
import { inject } from "vitest"
import { makeDatabase, pooledUrl, template } from "./Database.ts"

export interface OpenDatabase {
  readonly url: string
  /** The URL of the server itself. With a pooler, `url` leads to the pooler. */
  readonly directUrl: string
  /** Runs one statement and returns its rows. */
  readonly query: <Row extends object>(statement: string) => Promise<ReadonlyArray<Row>>
  /** Runs one statement in a transaction of its own session, which keeps its locks until the returned function ends it. */
  readonly hold: (statement: string) => Promise<() => Promise<void>>
  /** Drops it. */
  readonly close: () => Promise<void>
}

/** Forgets the statements of this database; other suites count those of theirs. */
export const resetStatements =
  "SELECT pg_stat_statements_reset(0, (SELECT oid FROM pg_database WHERE datname = current_database()), 0)"

const open = async (base: string, copyOf?: string): Promise<OpenDatabase> => {
  const scope = Scope.makeUnsafe()
  const [url, sql] = await Effect.runPromise(
    Effect.gen(function*() {
      const made = yield* makeDatabase(base, copyOf)
      return [made, yield* PgClient.make({ url: made, maxConnections: 2 })] as const
    }).pipe(Scope.provide(scope), Effect.provide(Reactivity.layer))
  )
  return {
    url: Redacted.value(base === inject("postgresUrl") ? pooledUrl(url) : url),
    directUrl: Redacted.value(url),
    query: <Row extends object>(statement: string) => Effect.runPromise(sql.unsafe<Row>(statement)),
    hold: async (statement) => {
      const session = new Client(Redacted.value(url))
      // The database is dropped with the sessions of a failed test.
      session.on("error", () => {})
      await session.connect()
      await session.query("BEGIN")
      await session.query(statement)
      return async () => {
        await session.query("ROLLBACK")
        await session.end()
      }
    },
    close: () => Effect.runPromise(Scope.close(scope, Exit.void))
  }
}

/** A migrated database on the server of the test run. */
export const openDatabase = () => open(inject("postgresUrl"), template)

/** On the server of the test run unless `base` is the URL of another. */
export const openEmptyDatabase = (base = inject("postgresUrl")) => open(base)
