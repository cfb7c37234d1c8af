/** Statements that share a session: what one of them, or a caller who goes away, does to the others. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Duration, Effect, Fiber, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as PostgresDatabase from "../../src/runtime/postgres/Database.ts"
import * as DatabaseClient from "../../src/runtime/postgres/DatabaseClient.ts"
import { DatabaseSockets } from "../../src/runtime/postgres/DatabaseSockets.ts"
import { parse } from "../../src/runtime/postgres/DatabaseUrl.ts"
import * as Database from "../kit/Database.ts"
import { openDatabase } from "../kit/databases.ts"
import { hasPgBouncer, startPgBouncer } from "../kit/PgBouncer.ts"

/** The service's own client with one connection, of five statements at a time. */
const connect = Effect.fnUntraced(function*(url: Redacted.Redacted) {
  const target = { databaseUrl: parse(url), databaseDirectUrl: undefined, isClustered: false, isProduction: false }
  const { main } = yield* PostgresDatabase.open(target)
  const client = DatabaseClient.layer({ ...PostgresDatabase.limited(main), maxConnections: 1 })
  return Context.get(
    yield* Layer.build(Layer.provide(client, DatabaseSockets.layer(main.hosts))),
    SqlClient.SqlClient
  )
})

layer(Database.layerUrl)("statements whose callers have gone away", (it) => {
  it.effect("do not queue without limit before those of others", () =>
    TestClock.withLive(Effect.gen(function*() {
      const sql = yield* connect(yield* Database.DatabaseUrl)
      yield* sql`SELECT 1`
      for (let count = 0; count < 60; count++) {
        const gone = yield* Effect.forkChild(sql.unsafe("SELECT pg_sleep(0.1)"), { startImmediately: true })
        yield* Effect.sleep("5 millis")
        yield* Fiber.interrupt(gone)
      }
      const [waited] = yield* Effect.timed(sql`SELECT 1`)
      // At most five of them, and one that follows each.
      assert.isBelow(Duration.toMillis(waited), 3000)
    })))
})

describe.skipIf(!hasPgBouncer)("five pipelined statements of which one fails, through a transaction pooler", () => {
  it.live("give each caller the answer to its own statement, 10,000 times", () =>
    Effect.gen(function*() {
      const database = yield* Effect.acquireRelease(
        Effect.promise(() => openDatabase()),
        ({ close }) => Effect.promise(close)
      )
      const pooler = yield* Effect.acquireRelease(
        Effect.promise(() => startPgBouncer(database.directUrl, "transaction")),
        ({ close }) => Effect.promise(close)
      )
      const sql = yield* connect(Redacted.make(pooler.url + new URL(database.directUrl).pathname))
      const total = 10_000
      for (let count = 0; count < total; count++) {
        const bad = count % 5
        const answers = yield* Effect.forEach([0, 1, 2, 3, 4], (number) => {
          const value = count * 5 + number
          return Effect.option(sql.unsafe(`SELECT ${value} / ${number === bad ? "(random() * 0)::int" : 1} AS value`))
        }, { concurrency: "unbounded" })
        for (const [number, answer] of answers.entries()) {
          const expected = number === bad ? undefined : [{ value: count * 5 + number }]
          assert.deepStrictEqual(answer._tag === "Some" ? answer.value : undefined, expected)
        }
      }
    }), 240_000)
})
