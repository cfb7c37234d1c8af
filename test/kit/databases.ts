/** Databases for tests that start the service as a separate process. */
import { PgClient } from "@effect/sql-pg"
import { Effect, Exit, Redacted, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { inject } from "vitest"
import { makeDatabase, pooledUrl, template } from "./Database.ts"

export interface OpenDatabase {
  readonly url: string
  /** The URL of the server itself. With a pooler, `url` leads to the pooler. */
  readonly directUrl: string
  /** Runs one statement and returns its rows. */
  readonly query: <Row extends object>(statement: string) => Promise<ReadonlyArray<Row>>
  /** Drops it. */
  readonly close: () => Promise<void>
}

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
    close: () => Effect.runPromise(Scope.close(scope, Exit.void))
  }
}

/** A migrated database on the server of the test run. */
export const openDatabase = () => open(inject("postgresUrl"), template)

/** On the server of the test run unless `base` is the URL of another. */
export const openEmptyDatabase = (base = inject("postgresUrl")) => open(base)
