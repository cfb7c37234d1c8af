import { NodeRuntime } from "@effect/platform-node"
import { Cause, Console, Effect, Exit, Layer, Logger, References } from "effect"
import * as App from "./App.ts"
import * as AppConfig from "./AppConfig.ts"
import * as Banner from "./Banner.ts"

const main = Effect.gen(function*() {
  const config = yield* AppConfig.load(process.env)
  const launch = Layer.effectDiscard(Banner.print(config)).pipe(Layer.provideMerge(App.layer(config)), Layer.launch)
  return yield* launch.pipe(
    Effect.withTracerEnabled(false),
    Effect.provideService(References.MinimumLogLevel, config.logLevel),
    Effect.provide(Logger.layer([config.isProduction ? Logger.consoleJson : Logger.consolePretty()]))
  )
})

/** What the operator can mend is told in its own words, without a stack. */
const explained = main.pipe(
  Effect.tapError((error) => {
    switch (error._tag) {
      case "InvalidSettings":
      case "EmbeddedPostgresError":
        return Console.error(error.message)
      case "ServeError":
        return Console.error(`The service cannot listen: ${String(error.cause)}`)
      case "SqlError":
        return Console.error(`The database cannot be used: ${error.message}`)
      default:
        return Console.error(Cause.pretty(Cause.fail(error)))
    }
  })
)

if (import.meta.main) {
  NodeRuntime.runMain(explained, {
    disableErrorReporting: true,
    // A drain that a signal asked for is a success.
    teardown: (exit, onExit) => onExit(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 0 : 1)
  })
}
