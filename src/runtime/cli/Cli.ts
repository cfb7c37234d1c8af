#!/usr/bin/env node
/**
 * The command line. Results go to stdout, everything else to stderr. The exit code is 1 when a command fails, and 2 for an
 * unknown command, flag or value.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Cause, Config, Console, Effect, Exit, Logger, Predicate, type Runtime } from "effect"
import { CliError, CliOutput, Command, TerminalCapabilities } from "effect/cli"
import { existsSync } from "node:fs"
import * as ErrorMessages from "../ErrorMessages.ts"
import { version } from "../Version.ts"
import { commands } from "./Commands.ts"
import { CommandFailed, root } from "./Root.ts"
import { messageOf } from "./UsageErrors.ts"

/** Whether a failure belongs to the log of a service in production. */
const isLogged = Config.String("NODE_ENV").pipe(
  Effect.orElseSucceed(() => ""),
  Effect.map((mode) => mode === "production" && process.argv.includes("serve"))
)

/** A single error of the service is its message too. */
const textOf = ({ errors = {}, message }: Pick<CommandFailed, "errors" | "message">) => {
  const fields = Object.entries(errors).map(([field, texts]) => `${field}: ${texts.join(", ")}`)
  return fields[0] === message ? fields.join("\n") : [message, ...fields.map((text) => `  ${text}`)].join("\n")
}

const printFailure = ({ errors = {}, message }: Pick<CommandFailed, "errors" | "message">) =>
  Effect.flatMap(
    isLogged,
    (logged) =>
      logged
        ? Effect.provide(Effect.logFatal(message), Logger.layer([Logger.consoleJson]))
        : Console.error(
          process.argv.includes("--json") ? JSON.stringify({ message, errors }) : textOf({ message, errors })
        )
  )

/** Usage errors have been presented, and the service logs its own failures. */
const report = (cause: Cause.Cause<unknown>) => {
  const failure = Cause.squash(cause)
  const isReported = CliError.isCliError(failure) || Predicate.isTagged(failure, "ProcessFailed")
  if (isReported || Cause.hasInterruptsOnly(cause)) return Effect.void
  return printFailure(failure instanceof CommandFailed ? failure : { message: ErrorMessages.describe(cause) })
}

/** Reports a usage error without the help text, which is longer than a screen. */
const presenter: CliOutput.Presenter = {
  present: (event) =>
    event._tag === "InvalidInvocation"
      ? printFailure({
        message: [
          ...event.errors.map(messageOf),
          `See ${[...event.commandPath, "--help"].join(" ")}`
        ].join("\n")
      })
      : CliOutput.defaultPresenter.present(event)
}

const exit: Runtime.Teardown = (result, onExit) => {
  const error = Exit.isFailure(result) ? Cause.squash(result.cause) : undefined
  if (CliError.isCliError(error) && error._tag === "ShowHelp") onExit(error.errors.length === 0 ? 0 : 2)
  else ErrorMessages.teardown(result, onExit)
}

const cli = root.pipe(
  Command.withSubcommands(commands),
  Command.run({ version })
)

if (existsSync(".env")) process.loadEnvFile()
NodeRuntime.runMain(
  cli.pipe(
    Effect.tapCause(report),
    Effect.updateService(TerminalCapabilities.TerminalCapabilities, (terminal) => ({
      ...terminal,
      canColor: terminal.canColor && !process.argv.includes("--no-color")
    })),
    Effect.provide([NodeServices.layer, CliOutput.layerPresenter(presenter)])
  ),
  { disableErrorReporting: true, teardown: exit }
)
