/** The built-in core or backend as a process of its own: `PART` says which. */
import { NodeRuntime } from "@effect/platform-node"
import { Config, Effect, Layer } from "effect"
import * as AppConfig from "../../src/runtime/AppConfig.ts"
import * as Builtin from "../../src/runtime/builtin/Builtin.ts"

NodeRuntime.runMain(Effect.gen(function*() {
  const part = yield* Config.Literals(["core", "backend"], "PART")
  const config = yield* AppConfig.load(process.env, part)
  return yield* Layer.launch(Builtin.layerAlone(part, config))
}))
