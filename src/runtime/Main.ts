import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Layer, Logger } from "effect"
import * as App from "./App.ts"
import * as AppConfig from "./AppConfig.ts"
import * as Banner from "./Banner.ts"

const main = Effect.gen(function*() {
  const config = yield* AppConfig.load(process.env)
  const launch = Layer.effectDiscard(Banner.print(config)).pipe(Layer.provideMerge(App.layer(config)), Layer.launch)
  return yield* launch.pipe(
    Effect.provide(Logger.layer([config.isProduction ? Logger.consoleJson : Logger.consolePretty()]))
  )
}).pipe(
  // What the operator can mend is told in its own words, without a stack.
  Effect.catchTags({
    InvalidSettings: ({ message }) => Effect.andThen(Console.error(message), exit),
    ServeError: ({ cause }) => Effect.andThen(Console.error(`The service cannot listen: ${String(cause)}`), exit),
    EmbeddedPostgresError: ({ message }) => Effect.andThen(Console.error(message), exit)
  })
)

const exit = Effect.sync(() => {
  process.exitCode = 1
})

if (import.meta.main) NodeRuntime.runMain(main)
