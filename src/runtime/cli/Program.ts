/**
 * The command line as an effect. Results go to stdout, everything else to stderr. The exit code is 1 when a command fails, and 2
 * for an unknown command, flag or value.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Cause, Config, ConfigProvider, Console, Effect, Exit, Logger, Predicate, type Runtime } from "effect"
import { CliError, CliOutput, Command, TerminalCapabilities } from "effect/cli"
import * as ErrorMessages from "../ErrorMessages.ts"
import { modules } from "../extensions.ts"
import { version } from "../Version.ts"
import * as DeliveryCommands from "./DeliveryCommands.ts"
import * as InitCommand from "./InitCommand.ts"
import * as OperatorCommands from "./OperatorCommands.ts"
import { CommandFailed, environment, root } from "./Root.ts"
import * as TaskCommands from "./TaskCommands.ts"
import * as UploadCommand from "./UploadCommand.ts"

type Failure = Pick<CommandFailed, "code" | "errors" | "message">

/** A single error of the service is its message too. */
const textOf = ({ errors = {}, message }: Failure) => {
  const fields = Object.entries(errors).map(([field, texts]) => `${field}: ${texts.join(", ")}`)
  return fields[0] === message ? fields.join("\n") : [message, ...fields.map((text) => `  ${text}`)].join("\n")
}

/** A failure of a service in production belongs to its log. */
const printFailure = Effect.fnUntraced(function*(args: ReadonlyArray<string>, failure: Failure) {
  const { code, errors, message } = failure
  const mode = yield* Config.String("NODE_ENV").pipe(Effect.orElseSucceed(() => ""))
  if (mode === "production" && args.includes("serve")) {
    return yield* Effect.provide(Effect.logFatal(message), Logger.layer([Logger.consoleJson]))
  }
  return yield* Console.error(args.includes("--json") ? JSON.stringify({ message, code, errors }) : textOf(failure))
})

/** Usage errors have been presented, and the service logs its own failures. */
const report = (args: ReadonlyArray<string>, cause: Cause.Cause<unknown>) => {
  const failure = Cause.squash(cause)
  const isReported = CliError.isCliError(failure) || Predicate.isTagged(failure, "ProcessFailed")
  if (isReported || Cause.hasInterruptsOnly(cause)) return Effect.void
  return printFailure(args, failure instanceof CommandFailed ? failure : { message: ErrorMessages.describe(cause) })
}

/** The start of what `effect/cli` expects, and what users read instead. */
const expectations = [
  ["Expected a string representing a finite number", "an integer"],
  ["Expected an integer", "an integer"],
  ["Invalid key=value format", "key=value"],
  ["Path does not exist", "an existing file"],
  ["Path is not a file", "a file, not a folder"],
  ["Schema validation failed: Expected a valid Duration", "a duration such as '1 hour'"]
] as const

const usageErrorOf = (error: CliError.CliError): string => {
  if (error._tag !== "InvalidValue") return error.message
  const expected = expectations.find(([start]) => error.expected.startsWith(start))?.[1]
  return expected === undefined ? error.message : new CliError.InvalidValue({ ...error, expected }).message
}

/** Reports a usage error without the help text, which is longer than a screen. */
const presenter = (args: ReadonlyArray<string>): CliOutput.Presenter => ({
  present: (event) =>
    event._tag === "InvalidInvocation"
      ? printFailure(args, {
        message: [
          ...event.errors.map(usageErrorOf),
          `See ${[...event.commandPath, "--help"].join(" ")}`
        ].join("\n")
      })
      : CliOutput.defaultPresenter.present(event)
})

export const teardown: Runtime.Teardown = (result, onExit) => {
  const error = Exit.isFailure(result) ? Cause.squash(result.cause) : undefined
  if (CliError.isCliError(error) && error._tag === "ShowHelp") onExit(error.errors.length === 0 ? 0 : 2)
  else ErrorMessages.teardown(result, onExit)
}

/** The commands of the core, in the order of the help text. */
export const commands = [
  ...OperatorCommands.commands,
  InitCommand.command,
  ...TaskCommands.commands,
  UploadCommand.command,
  ...DeliveryCommands.commands
] as const

const loadCommands = Effect.map(
  Effect.promise(() => Promise.all(modules.flatMap((module) => module.commands?.() ?? []))),
  (loaded) => [...commands, ...loaded.flatMap((module) => module.commands)]
)

/** The commands that read all settings. */
const own = new Set(["serve", "migrate", "doctor"])

/** Calls of the other commands, all by `fetch`, use the proxies of the environment. */
const useProxies = Effect.fnUntraced(function*(args: ReadonlyArray<string>) {
  const name = args.find((arg) => !arg.startsWith("-")) ?? ""
  if (own.has(name) || !Object.keys(process.env).some((name) => /^(https?|all)_proxy$/i.test(name))) return
  const { makeProxiedFetch } = yield* Effect.promise(() => import("./ProxiedFetch.ts"))
  yield* makeProxiedFetch
})

/** Runs one command; `args` start with its name. */
export const run = (args: ReadonlyArray<string>) =>
  Effect.andThen(useProxies(args), loadCommands).pipe(
    Effect.flatMap((all) => Command.runWith(Command.withSubcommands(root, all), { version })(args)),
    Effect.tapCause((cause) => report(args, cause)),
    Effect.updateService(TerminalCapabilities.TerminalCapabilities, (terminal) => ({
      ...terminal,
      canColor: terminal.canColor && !args.includes("--no-color")
    })),
    Effect.scoped,
    Effect.provide([NodeServices.layer, CliOutput.layerPresenter(presenter(args))]),
    Effect.provideServiceEffect(
      ConfigProvider.ConfigProvider,
      Effect.map(environment, (env) => ConfigProvider.fromEnv({ env }))
    )
  )
