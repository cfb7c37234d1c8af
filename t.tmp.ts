import { Effect, Redacted } from "effect"
import { EmbeddedPostgres } from "./src/runtime/builtin/EmbeddedPostgres.ts"
await Effect.runPromise(Effect.scoped(Effect.gen(function*() {
  const pg = yield* EmbeddedPostgres.start("/tmp/pgx")
  console.log(Redacted.value(pg.url))
  yield* Effect.sleep("3 hours")
})))
