import { Effect, Redacted } from "effect"
import { EmbeddedPostgres } from "./src/runtime/builtin/EmbeddedPostgres.ts"
const t = performance.now()
await Effect.runPromise(Effect.scoped(Effect.gen(function*() {
  const pg = yield* EmbeddedPostgres.start(process.argv[2]!)
  console.log(pg.directory, Redacted.value(pg.url).replace(/:[^:@]*@/, ":x@"), Math.round(performance.now() - t) + "ms")
  if (process.argv[3]) yield* Effect.sleep(Number(process.argv[3]))
})))
console.log("stopped", Math.round(performance.now() - t))
