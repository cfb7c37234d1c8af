import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect, Layer, References } from "effect"
import { existsSync } from "node:fs"
import { parseArgs } from "node:util"
import * as App from "./App.ts"
import * as Banner from "./Banner.ts"
import * as AppConfig from "./config/AppConfig.ts"
import { teardown } from "./ErrorMessages.ts"
import * as Heap from "./node/Heap.ts"
import { Proxies } from "./node/Proxies.ts"
import * as Logs from "./telemetry/Logs.ts"
import * as Observability from "./telemetry/Observability.ts"
import * as Workers from "./Workers.ts"

const main = Effect.fnUntraced(function*(environment: NodeJS.ProcessEnv) {
  const config = yield* AppConfig.load(environment)
  const { worker } = config
  const warn = Effect.forEach(config.warnings, (warning) => Effect.logWarning(warning), { discard: true })
  const serve = (onReady: Effect.Effect<void>) =>
    Layer.effectDiscard(onReady).pipe(Layer.provideMerge(App.layer(config)), Layer.launch)
  const launch = Effect.gen(function*() {
    if (worker !== undefined) return yield* serve(Workers.reportReady(worker))
    yield* warn
    if (config.workers > 1) return yield* Workers.supervise(config)
    return yield* serve(Banner.print(config))
  })
  return yield* Banner.logLifetime(launch, config).pipe(
    Effect.annotateLogs(worker === undefined ? {} : { worker: worker.number }),
    Effect.provide(Observability.layer(config.telemetry)),
    Effect.provideService(References.MinimumLogLevel, config.logLevel),
    Effect.provideService(Proxies, config.proxies)
  )
})

/** Runs the service and logs why it fails. */
export const run = (environment: NodeJS.ProcessEnv) =>
  Effect.andThen(Effect.sync(Heap.configure), Logs.provide(main(environment), environment))

const usage = `npm start -- [--workers N]

Runs the service, configured by environment variables (src/runtime/README.md) and the file .env.

  --workers N  processes that serve PORT together, as a cluster of their own (WORKERS; default: 1)
  --help       prints this
`

/** The environment with the settings of the command line; exits if they are wrong, or for help. */
const environmentOf = (args: ReadonlyArray<string>): NodeJS.ProcessEnv => {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: { workers: { type: "string" }, help: { type: "boolean" } }
    })
    if (values.help === true) {
      process.stdout.write(usage)
      process.exit(0)
    }
    return values.workers === undefined ? process.env : { ...process.env, WORKERS: values.workers }
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n\n${usage}`)
    process.exit(2)
  }
}

if (import.meta.main) {
  if (existsSync(".env")) process.loadEnvFile()
  NodeRuntime.runMain(run(environmentOf(process.argv.slice(2))), {
    disableErrorReporting: true,
    teardown
  })
}
