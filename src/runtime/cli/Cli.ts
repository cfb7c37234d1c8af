#!/usr/bin/env node
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { existsSync } from "node:fs"
import * as Program from "./Program.ts"

if (existsSync(".env")) process.loadEnvFile()
NodeRuntime.runMain(Program.run(process.argv.slice(2)), { disableErrorReporting: true, teardown: Program.teardown })
