/** The plans that a session keeps of frequent statements. It may make them while the tables are nearly empty. */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as PostgresDatabase from "../../src/runtime/postgres/Database.ts"
import * as DatabaseClient from "../../src/runtime/postgres/DatabaseClient.ts"
import { DatabaseSockets } from "../../src/runtime/postgres/DatabaseSockets.ts"
import { parse } from "../../src/runtime/postgres/DatabaseUrl.ts"
import { headsById, withSmallTurns } from "../../src/services/store/tasks/TaskReadsSql.ts"
import { claim } from "../../src/services/store/webhooks/WebhookClaim.ts"
import * as Database from "../kit/Database.ts"

/** The service's own client. */
const connect = Effect.gen(function*() {
  const databaseUrl = parse(yield* Database.DatabaseUrl)
  const target = { databaseUrl, databaseDirectUrl: undefined, isClustered: false, isProduction: false }
  const { main } = yield* PostgresDatabase.open(target)
  const client = DatabaseClient.layer({ ...PostgresDatabase.limited(main), maxConnections: 1 })
  return yield* Effect.service(SqlClient.SqlClient).pipe(
    Effect.provide(yield* Layer.build(Layer.provide(client, DatabaseSockets.layer(main.hosts))))
  )
})

const ids = "'{01920000-0000-7000-8000-000000000000,01920000-0000-7000-8000-000000000001}'"
/** Type and value. */
const parametersOfClaim: Readonly<Record<string, readonly [string, string]>> = {
  at: ["float8", "1e15"],
  lostBefore: ["float8", "1e15"],
  limit: ["int", "128"],
  origins: ["text[]", "'{https://target.example}'"],
  permitsOfOrigins: ["int4[]", "'{64}'"],
  areProven: ["bool[]", "'{t}'"],
  users: ["text[]", "'{user}'"],
  permitsOfUsers: ["int4[]", "'{64}'"],
  unprovenOfUsers: ["int4[]", "'{64}'"],
  ofProven: ["int", "16"],
  ofUnproven: ["int", "8"],
  ofUser: ["int", "600"],
  unprovenOfUser: ["int", "100"],
  unproven: ["int", "700"],
  leases: ["float8[]", "'{35,45,75,135,20}'"],
  from: ["float8", "0"]
}
const statements = [
  [
    "claim",
    claim,
    claim.names.map((name) => parametersOfClaim[name]?.[0]).join(),
    claim.names.map((name) => parametersOfClaim[name]?.[1]).join()
  ],
  ["heads", headsById, "uuid[]", ids],
  ["tasks_with_turns", withSmallTurns, "uuid[]", ids]
] as const

layer(Database.layer)("the plan of a frequent statement", (it) => {
  it.effect("searches by keys, although reading a nearly empty table whole would be cheaper", () =>
    TestClock.withLive(Effect.gen(function*() {
      const sql = yield* connect
      const scansOf = Effect.fnUntraced(function*(name: string, values: string) {
        // The sixth execution is the first whose plan is kept.
        for (let count = 0; count < 6; count++) yield* sql.unsafe(`EXECUTE ${name} (${values})`)
        const rows = yield* sql.unsafe<Readonly<Record<string, string>>>(
          `EXPLAIN (COSTS OFF) EXECUTE ${name} (${values})`
        )
        const lines = rows.map((row) => row["QUERY PLAN"]?.trim() ?? "")
        return lines.filter((line) => /Scan .*on (tasks|task_turns|webhook_deliveries)/.test(line))
      })
      const check = Effect.fnUntraced(function*(state: string) {
        for (const [name, , , values] of statements) {
          const scans = yield* scansOf(name, values)
          assert.isNotEmpty(scans)
          assert.isEmpty(scans.filter((line) => line.includes("Seq Scan")), `${name} ${state}`)
          // An index finds the candidates of a claim, and `ctid` finds them again: once to lock, once to update them.
          assert.lengthOf(
            scans.filter((line) => line.includes("Tid Scan")),
            name === "claim" ? 2 : 0,
            `${name} ${state}`
          )
        }
      })
      yield* sql.withTransaction(Effect.gen(function*() {
        for (const [name, { text }, types] of statements) yield* sql.unsafe(`PREPARE ${name} (${types}) AS ${text}`)
        yield* check("without statistics")
        yield* sql`
          INSERT INTO tasks (uuid, sub, run_id, max_execution_time, created_at, deadline_at, token_id, assistant_id)
          SELECT gen_random_uuid(), 'user', gen_random_uuid(), 60, now(), now(), 'token', 1 FROM generate_series(1, 40)`
        yield* sql`INSERT INTO task_turns SELECT uuid, '{}' FROM tasks`
        yield* sql`
          INSERT INTO webhook_deliveries (task_uuid, revision, status, url, origin, sub, signed, created_at)
          SELECT uuid, 1, 'completed', 'u', 'o', 'user', false, now() FROM tasks`
        yield* sql`ANALYZE tasks, task_turns, webhook_deliveries`
        yield* check("with the statistics of few rows")
      }))
    })))

  it.effect("is made once, although a plan for the given values seems cheaper", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        INSERT INTO tasks (uuid, sub, run_id, max_execution_time, created_at, deadline_at, token_id, assistant_id)
        SELECT gen_random_uuid(), 'user', gen_random_uuid(), 60, now(), now(), 'token', 1 FROM generate_series(1, 5000)`
      yield* sql`
        INSERT INTO webhook_deliveries (task_uuid, revision, status, url, origin, sub, signed, created_at)
        SELECT gen_random_uuid(), 1, 'completed', 'u', 'o', 'user', false, now() FROM generate_series(1, 20000)`
      yield* sql`VACUUM (ANALYZE) tasks, webhook_deliveries`
      for (const [name, { text }, types, values] of statements) {
        const [plans] = yield* sql.withTransaction(Effect.gen(function*() {
          yield* sql.unsafe(`PREPARE ${name} (${types}) AS ${text}`)
          for (let count = 0; count < 10; count++) yield* sql.unsafe(`EXECUTE ${name} (${values})`)
          return yield* sql`SELECT custom_plans::int AS custom, generic_plans::int AS generic
            FROM pg_prepared_statements WHERE name = ${name}`
        }))
        // Postgres compares five plans made for the values with one for all values.
        assert.deepStrictEqual(plans, { custom: 5, generic: 5 }, name)
      }
    }))
})
