#!/usr/bin/env node
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { existsSync } from "node:fs"
import * as ErrorMessages from "../ErrorMessages.ts"
import { nodeProblem } from "../Version.ts"

if (existsSync(".env")) process.loadEnvFile()
const args = process.argv.slice(2)

// The service alone: the parser of commands and all commands would take 5 MiB for as long as it runs.
if (args.join() === "serve" && nodeProblem(process.versions.node) === undefined) {
  const { run } = await import("../Main.ts")
  NodeRuntime.runMain(run(process.env), { disableErrorReporting: true, teardown: ErrorMessages.teardown })
} else {
  const Program = await import("./Program.ts")
  NodeRuntime.runMain(Program.run(args), { disableErrorReporting: true, teardown: Program.teardown })
}
