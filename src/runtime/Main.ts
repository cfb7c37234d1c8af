import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect, Layer, References } from "effect"
import { existsSync } from "node:fs"
import * as App from "./App.ts"
import * as Banner from "./Banner.ts"
import * as AppConfig from "./config/AppConfig.ts"
import { teardown } from "./ErrorMessages.ts"
import * as HeapGrowth from "./node/HeapGrowth.ts"
import { Proxies } from "./node/Proxies.ts"
import * as Logs from "./telemetry/Logs.ts"
import * as Observability from "./telemetry/Observability.ts"

const main = Effect.fnUntraced(function*(environment: NodeJS.ProcessEnv) {
  const config = yield* AppConfig.load(environment)
  const warn = Effect.forEach(config.warnings, (warning) => Effect.logWarning(warning), { discard: true })
  const launch = Layer.effectDiscard(Banner.print(config)).pipe(Layer.provideMerge(App.layer(config)), Layer.launch)
  return yield* Banner.logLifetime(Effect.andThen(warn, launch), config).pipe(
    Effect.provide(Observability.layer(config.telemetry)),
    Effect.provideService(References.MinimumLogLevel, config.logLevel),
    Effect.provideService(Proxies, config.proxies)
  )
})

/** Runs the service and logs why it fails. */
export const run = (environment: NodeJS.ProcessEnv) =>
  Effect.andThen(Effect.sync(HeapGrowth.limit), Logs.provide(main(environment), environment))

if (import.meta.main) {
  if (existsSync(".env")) process.loadEnvFile()
  NodeRuntime.runMain(run(process.env), {
    disableErrorReporting: true,
    teardown
  })
}
