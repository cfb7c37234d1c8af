import { NodeRuntime } from "@effect/platform-node"
import { Cause, Console, Effect, Exit, Layer, Logger, Option, Predicate, References } from "effect"
import { existsSync } from "node:fs"
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

/** The words of the failure at the bottom: a refused connection, a wrong password. */
const innermost = (error: unknown): string => {
  const deeper = Predicate.hasProperty(error, "reason")
    ? error.reason
    : Predicate.hasProperty(error, "cause")
    ? error.cause
    : undefined
  if (deeper !== undefined && deeper !== error) return innermost(deeper)
  return error instanceof Error ? error.message : String(error)
}

/** What the operator can mend is told in its own words, without a stack. */
const explained = main.pipe(
  Effect.tapCause((cause) => {
    if (Cause.hasInterruptsOnly(cause)) return Effect.void
    const error = Option.getOrUndefined(Cause.findErrorOption(cause))
    switch (error?._tag) {
      case "InvalidSettings":
      case "InvalidAssistants":
      case "EmbeddedPostgresError":
        return Console.error(error.message)
      case "ServeError":
        return Console.error(`The service cannot listen: ${String(error.cause)}`)
      case "SqlError":
        return Console.error(`The database cannot be used: ${innermost(error)}`)
      default:
        return Console.error(Cause.pretty(cause))
    }
  })
)

if (import.meta.main) {
  if (existsSync(".env")) process.loadEnvFile()
  NodeRuntime.runMain(explained, {
    disableErrorReporting: true,
    // A drain that a signal asked for is a success.
    teardown: (exit, onExit) => onExit(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 0 : 1)
  })
}
