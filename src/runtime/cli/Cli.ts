#!/usr/bin/env node
/** The command line. Results go to stdout, everything else to stderr. The exit code is 1 when a command fails. */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Config, Console, Effect } from "effect"
import { CliOutput, Command } from "effect/cli"
import { existsSync } from "node:fs"
import { teardown } from "../ErrorMessages.ts"
import { version } from "../Version.ts"
import * as ClusterCommands from "./ClusterCommands.ts"
import * as ConformanceCommand from "./ConformanceCommand.ts"
import * as DeliveryCommands from "./DeliveryCommands.ts"
import * as DemoCommand from "./DemoCommand.ts"
import * as OperatorCommands from "./OperatorCommands.ts"
import { type CommandFailed, root } from "./Root.ts"
import * as TaskCommands from "./TaskCommands.ts"
import * as UploadCommand from "./UploadCommand.ts"
import * as WithdrawCommand from "./WithdrawCommand.ts"

/** With `--json`, and for a service in production, whose log has one JSON object a line. */
const isJson = Config.String("NODE_ENV").pipe(
  Effect.orElseSucceed(() => ""),
  Effect.map((mode) => process.argv.includes("--json") || (mode === "production" && process.argv.includes("serve")))
)

const textOf = ({ errors = {}, message }: Pick<CommandFailed, "errors" | "message">) =>
  [message, ...Object.entries(errors).map(([field, texts]) => `  ${field}: ${texts.join(", ")}`)].join("\n")

const report = ({ errors = {}, message }: Pick<CommandFailed, "errors" | "message">) =>
  Effect.flatMap(
    isJson,
    (json) => Console.error(json ? JSON.stringify({ message, errors }) : textOf({ message, errors }))
  )

/** Reports a usage error without the help text, which is longer than a screen. */
const presenter: CliOutput.Presenter = {
  present: (event) =>
    event._tag === "InvalidInvocation"
      ? report({
        message: [
          ...event.errors.map(({ message }) => message),
          `Run "${[...event.commandPath, "--help"].join(" ")}" for usage.`
        ].join("\n")
      })
      : CliOutput.defaultPresenter.present(event)
}

const cli = root.pipe(
  Command.withSubcommands([
    ...OperatorCommands.commands,
    ...TaskCommands.commands,
    UploadCommand.command,
    ConformanceCommand.command,
    DemoCommand.command,
    ...DeliveryCommands.commands,
    ...ClusterCommands.commands,
    WithdrawCommand.command
  ]),
  Command.run({ version })
)

if (existsSync(".env")) process.loadEnvFile()
NodeRuntime.runMain(
  cli.pipe(
    Effect.tapErrorTag("CommandFailed", report),
    Effect.provide([NodeServices.layer, CliOutput.layerPresenter(presenter)])
  ),
  { disableErrorReporting: true, teardown }
)
