/** The service as a separate process with shorter timeouts, for tests of their expiry. */
import { NodeRuntime } from "@effect/platform-node"
import { Duration, Effect, Layer } from "effect"
import * as App from "../../src/runtime/App.ts"
import * as AppConfig from "../../src/runtime/config/AppConfig.ts"
import { Timeouts } from "../../src/services/timing/Intervals.ts"

NodeRuntime.runMain(
  Effect.flatMap(AppConfig.load(process.env), (config) => Layer.launch(App.layer(config))).pipe(
    Effect.withTracerEnabled(false),
    Effect.provideService(Timeouts, {
      requestHead: Duration.millis(500),
      idleConnection: Duration.seconds(5),
      jsonBody: Duration.millis(500),
      jsonBytesPerSecond: 16 * 1024 * 1024,
      responseIdle: Duration.seconds(2),
      uploadIdle: Duration.millis(500),
      backendIdle: Duration.seconds(1)
    })
  )
)
