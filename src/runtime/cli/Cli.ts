#!/usr/bin/env node
/** The command line. Answers go to stdout, everything else to stderr; it exits with 1 when a command failed. */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Console, Effect } from "effect"
import { Command } from "effect/cli"
import { existsSync } from "node:fs"
import { teardown } from "../Endings.ts"
import { version } from "../Version.ts"
import * as ClusterCommands from "./ClusterCommands.ts"
import * as ConformanceCommand from "./ConformanceCommand.ts"
import * as DeliveryCommands from "./DeliveryCommands.ts"
import * as DemoCommand from "./DemoCommand.ts"
import * as OperatorCommands from "./OperatorCommands.ts"
import { type CommandFailed, root } from "./Root.ts"
import * as TaskCommands from "./TaskCommands.ts"
import * as UploadCommand from "./UploadCommand.ts"

const explain = ({ errors = {}, message }: CommandFailed) =>
  process.argv.includes("--json")
    ? Console.error(JSON.stringify({ message, errors }))
    : Console.error(
      [message, ...Object.entries(errors).map(([field, texts]) => `  ${field}: ${texts.join(", ")}`)].join("\n")
    )

const cli = root.pipe(
  Command.withSubcommands([
    ...OperatorCommands.commands,
    ...TaskCommands.commands,
    UploadCommand.command,
    ConformanceCommand.command,
    DemoCommand.command,
    ...DeliveryCommands.commands,
    ...ClusterCommands.commands
  ]),
  Command.run({ version })
)

if (existsSync(".env")) process.loadEnvFile()
NodeRuntime.runMain(
  cli.pipe(Effect.tapErrorTag("CommandFailed", explain), Effect.provide(NodeServices.layer)),
  { disableErrorReporting: true, teardown }
)
