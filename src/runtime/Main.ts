import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Cause, Effect, Layer, Option, References } from "effect"
import { existsSync } from "node:fs"
import * as App from "./App.ts"
import * as Banner from "./Banner.ts"
import * as AppConfig from "./config/AppConfig.ts"
import { rootCauseMessage, teardown } from "./ErrorMessages.ts"
import * as Watchdog from "./node/Watchdog.ts"
import * as Logs from "./telemetry/Logs.ts"
import * as Observability from "./telemetry/Observability.ts"

const main = Effect.fnUntraced(function*(environment: NodeJS.ProcessEnv) {
  const config = yield* AppConfig.load(environment)
  const launch = Layer.effectDiscard(Banner.print(config)).pipe(Layer.provideMerge(App.layer(config)), Layer.launch)
  return yield* Banner.logLifetime(launch, config).pipe(
    Effect.provide([
      Observability.layer(config.telemetry),
      Watchdog.layer(config.watchdogTimeout, config.isProduction)
    ]),
    Effect.provideService(References.MinimumLogLevel, config.logLevel)
  )
})

const messageOf = (cause: Cause.Cause<Effect.Error<ReturnType<typeof main>>>) => {
  const error = Option.getOrUndefined(Cause.findErrorOption(cause))
  switch (error?._tag) {
    case "InvalidSettings":
    case "InvalidAssistants":
    case "EmbeddedPostgresError":
      return error.message
    case "ServeError":
      return `The service cannot listen: ${String(error.cause)}`
    case "SocketServerError":
      return `The service cannot listen for other nodes: ${rootCauseMessage(error)}`
    case "SqlError":
    case "StoreUnavailable":
      return `The database cannot be used: ${rootCauseMessage(error)}`
    default:
      return Cause.pretty(cause)
  }
}

/** Runs the service. Prints failures that the operator can fix without a stack trace. */
export const run = (environment: NodeJS.ProcessEnv) => {
  const isJson = environment["NODE_ENV"] === "production"
  return main(environment).pipe(
    Effect.tapCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.void : Logs.fatal(messageOf(cause), isJson)),
    Effect.provide(Logs.layer(isJson))
  )
}

if (import.meta.main) {
  if (existsSync(".env")) process.loadEnvFile()
  NodeRuntime.runMain(run(process.env), {
    disableErrorReporting: true,
    teardown
  })
}
