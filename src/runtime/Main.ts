import { NodeRuntime } from "@effect/platform-node"
import { Cause, Console, Effect, Layer, Logger, Option, References } from "effect"
import { existsSync } from "node:fs"
import * as App from "./App.ts"
import * as Banner from "./Banner.ts"
import * as AppConfig from "./config/AppConfig.ts"
import { rootCauseMessage, teardown } from "./ErrorMessages.ts"
import * as Watchdog from "./node/Watchdog.ts"
import * as Observability from "./telemetry/Observability.ts"

const main = Effect.fnUntraced(function*(environment: NodeJS.ProcessEnv) {
  const config = yield* AppConfig.load(environment)
  const launch = Layer.effectDiscard(Banner.print(config)).pipe(Layer.provideMerge(App.layer(config)), Layer.launch)
  return yield* launch.pipe(
    Effect.provide([
      Observability.layer(config.telemetry),
      Watchdog.layer(config.watchdogTimeout, config.isProduction)
    ]),
    Effect.provideService(References.MinimumLogLevel, config.logLevel),
    Effect.provide(Logger.layer([config.isProduction ? Logger.consoleJson : Logger.consolePretty()]))
  )
})

/** Runs the service. Prints failures that the operator can fix without a stack trace. */
export const run = (environment: NodeJS.ProcessEnv) =>
  main(environment).pipe(Effect.tapCause((cause) => {
    if (Cause.hasInterruptsOnly(cause)) return Effect.void
    const error = Option.getOrUndefined(Cause.findErrorOption(cause))
    switch (error?._tag) {
      case "InvalidSettings":
      case "InvalidAssistants":
      case "EmbeddedPostgresError":
        return Console.error(error.message)
      case "ServeError":
        return Console.error(`The service cannot listen: ${String(error.cause)}`)
      case "SocketServerError":
        return Console.error(`The service cannot listen for other nodes: ${rootCauseMessage(error)}`)
      case "SqlError":
      case "StoreUnavailable":
        return Console.error(`The database cannot be used: ${rootCauseMessage(error)}`)
      default:
        return Console.error(Cause.pretty(cause))
    }
  }))

if (import.meta.main) {
  if (existsSync(".env")) process.loadEnvFile()
  NodeRuntime.runMain(run(process.env), {
    disableErrorReporting: true,
    teardown
  })
}
