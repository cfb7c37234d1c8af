/** A database with the schema of the first release, to which any later migration applies. */
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as First from "../../src/services/store/migrations/0001_schema.ts"
import * as Database from "./Database.ts"

const create = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE async_task_service_schema (
    owner text NOT NULL, version integer NOT NULL, migrated_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (owner, version)
  )`
  yield* sql`INSERT INTO async_task_service_schema VALUES ('core', 1)`
  yield* Effect.forEach(First.statements, (statement) => sql.unsafe(statement))
})

export const layerFirst = Database.layerLive(
  Layer.effectDiscard(create).pipe(
    Layer.provideMerge(Database.layerClient),
    Layer.provideMerge(Database.layerUrl),
    Layer.orDie
  )
)
