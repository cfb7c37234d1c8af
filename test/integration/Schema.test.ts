import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { activeStatuses, TaskStatus } from "../../src/domain/Task.ts"
import * as Migrations from "../../src/services/sql/Migrations.ts"
import * as Database from "../kit/Database.ts"

const quoted = (definition: string | undefined) =>
  [...(definition ?? "").matchAll(/'([a-z]+)'/g)].map(([, word]) => word).toSorted()

layer(Database.layer)("the schema", (it) => {
  const constraint = Effect.fnUntraced(function*(name: string) {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ readonly definition: string }>`
      SELECT pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conname = ${name}`
    return quoted(row?.definition)
  })

  it.effect("knows the statuses of the domain, and which of them are active", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* constraint("tasks_status"), [...TaskStatus.literals].toSorted())
      assert.deepStrictEqual(yield* constraint("tasks_completed_at"), [...activeStatuses].toSorted())
    }))

  it.effect("is at the newest migration, and migrating again changes nothing", () =>
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      assert.strictEqual(yield* Migrations.current(sql), Migrations.latest)
      yield* Layer.build(Layer.fresh(Migrations.layer))
      assert.strictEqual(yield* Migrations.current(sql), Migrations.latest)
    }))
})

layer(Database.layerLive(Layer.orDie(Layer.provideMerge(Database.layerClient, Database.layerUrl))))(
  "an empty database",
  (it) => {
    it.effect("takes the migrations of nodes that start at once", () =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* Effect.forEach(Array.from({ length: 6 }), () => Layer.build(Layer.fresh(Migrations.layer)), {
          concurrency: "unbounded",
          discard: true
        })
        assert.strictEqual(yield* Migrations.current(sql), Migrations.latest)
      }))
  }
)
